// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir groups`.

use crate::cli::devices::NodeArgs;
use crate::cli::quantities::Span;
use clap::{ArgGroup, Args, Subcommand};
use std::path::PathBuf;
use weir_acpi::Sizes;

/// `weir groups`.
#[derive(Debug, Args)]
pub struct GroupsArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: Groups,
}

/// What can be done with groups.
#[derive(Debug, Subcommand)]
pub enum Groups {
    /// The groups of this machine: node, size, use, distance
    List(ListArgs),
    /// Start a command in a group, or move the cgroup of a process there
    Bind(BindArgs),
    /// Move memory between groups, on a device with virtual copies
    Resize(ResizeArgs),
    /// Make groups: split the device's domain in the firmware's tables
    Acpi(AcpiArgs),
}

/// `weir groups list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,
}

/// A group as the operator writes it: `2` or `node2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeNumber(pub u32);

impl std::str::FromStr for NodeNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("node").unwrap_or(text);
        let number = number.parse().map(NodeNumber);
        number.map_err(|_| "a node's number, such as 2 or node2 (see `weir groups list`)".into())
    }
}

/// `weir groups bind`.
#[derive(Debug, Args)]
#[command(after_help = BIND_HELP, group = ArgGroup::new("target").args(["pid", "command"]).required(true))]
pub struct BindArgs {
    /// The group: number of its node
    #[arg(value_name = "GROUP")]
    pub group: NodeNumber,

    /// Bind the cgroup of this process, and move the memory it has
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(2..))]
    pub pid: Option<u32>,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,

    /// With --pid: also when other processes are in that cgroup
    #[arg(long, requires = "pid")]
    pub whole_cgroup: bool,

    /// The command to start
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

const BIND_HELP: &str = "\
A command that is started gets a memory policy (set_mempolicy, MPOL_BIND). Nothing else changes. Its
children inherit the policy, and it ends with them. Linux has no call that gives a memory policy to
another process, so --pid writes cpuset.mems of the leaf cgroup of the process: the kernel moves the
memory that the cgroup has, and later allocations follow. The command prints how to undo it.

The workload gets memory of this group only: when it is used up, the kernel kills processes of the
workload.

Examples:
  weir groups bind 2 -- fio job.fio
  weir groups bind 2 --pid 4711";

/// The new size of a group: `2=384MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSize {
    pub node: u32,
    pub bytes: u64,
}

impl std::str::FromStr for NodeSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a group and its size in KiB, MiB, GiB or TiB, such as 2=384MiB".to_owned();
        let (node, size) = text.split_once('=').ok_or_else(wrong)?;
        let NodeNumber(node) = node.parse()?;
        let digits = size.trim_end_matches(|c: char| !c.is_ascii_digit());
        let shift = match &size[digits.len()..] {
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            "TiB" => 40,
            "" if digits == "0" => 0,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
        Ok(NodeSize { node, bytes })
    }
}

/// `weir groups resize`.
#[derive(Debug, Args)]
#[command(after_help = RESIZE_HELP, group = ArgGroup::new("what").args(["sizes", "check"]).required(true))]
pub struct ResizeArgs {
    /// New sizes of groups; other groups keep their sizes
    #[arg(value_name = "GROUP=SIZE")]
    pub sizes: Vec<NodeSize>,

    /// Change nothing: print the size of each group, and whether a block is online twice
    #[arg(long)]
    pub check: bool,

    /// Which addresses are the same memory: where the virtual copies are
    #[arg(long, value_name = "FILE", default_value = "/etc/weir/alias-map.toml")]
    pub alias_map: PathBuf,

    /// How long the kernel may try to empty one block [at least 1s]
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub offline_timeout: Span,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

const RESIZE_HELP: &str = "\
A device with virtual copies shows all its memory once for each group. Each block of it may be online in
one copy only; resize takes blocks offline in one node and brings them online in another. It may be killed
at any time: a block between two groups is offline, and the next call uses it.

The kernel must not bring memory online by itself: boot with memhp_default_state=offline. Pages of a group
that shrinks go to the nearest nodes with room, not to the rest of that group.

The file says where the copies are, and whether the CPUs' caches treat them as one memory, as the maker of
the device documents. Where they do not (\"separate\"), nothing is moved: a line that the old owner wrote
could leave a cache later, and overwrite the new owner's data.
  copy-bytes = 0x2000_0000
  bases-bytes = [0x1_0000_0000, 0x1_2000_0000]
  cpu-caches = \"coherent\"

Exit codes: 0 done, 1 a size was not reached (a block is busy), or --check found a block twice, 2 trouble.

Examples:
  weir groups resize 1=256MiB 2=768MiB
  weir groups resize --check";

/// `weir groups acpi`.
#[derive(Debug, Args)]
#[command(after_help = ACPI_HELP, group = ArgGroup::new("what").args(["sizes", "check"]).required(true))]
pub struct AcpiArgs {
    /// Parts of the device that add up to 1, in the order of addresses
    #[arg(long, value_name = "FRACTION,…")]
    pub sizes: Option<Sizes>,

    /// After the boot: does the kernel use the tables of this overlay?
    #[arg(long, value_name = "OVERLAY", conflicts_with_all = ["domain", "out", "dry_run", "align_mib"])]
    pub check: Option<PathBuf>,

    /// The device's proximity domain [default: the only one with memory and without processors]
    #[arg(long, value_name = "N")]
    pub domain: Option<u32>,

    /// Read SRAT, SLIT and HMAT here [default: /sys/firmware/acpi/tables]
    #[arg(long, value_name = "DIR")]
    pub tables: Option<PathBuf>,

    /// Where to write the overlay; nothing is overwritten
    #[arg(long, value_name = "FILE", default_value = "weir-groups.cpio")]
    pub out: PathBuf,

    /// Groups begin at multiples of this. Memory can be taken out in blocks of this size only
    #[arg(long, value_name = "MIB", default_value_t = weir_acpi::GRAIN_BYTES >> 20, value_parser = clap::value_parser!(u64).range(2..=65_536))]
    pub align_mib: u64,

    /// Print what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

const ACPI_HELP: &str = "\
Linux makes a NUMA node of each proximity domain. This splits the device's domain into several and writes
the new tables (with lengths, checksums and OEM revisions set) as an initrd overlay. The boot loader puts
the overlay in front of the initrd; the command prints how.

Exit codes: 0 done, 1 --check found a difference, 2 trouble (then nothing was written).

Examples:
  weir groups acpi --sizes 1/2,1/4,1/8,1/8
  weir groups acpi --sizes 1/2,1/2 --domain 2 --out /boot/weir-groups.cpio
  weir groups acpi --check /boot/weir-groups.cpio";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_groups() {
        let read = |text: &str| text.parse::<NodeSize>().map(|s| (s.node, s.bytes));
        assert_eq!(read("2=384MiB"), Ok((2, 384 << 20)));
        assert_eq!(read("node12=1GiB"), Ok((12, 1 << 30)));
        assert_eq!(read("3=0"), Ok((3, 0)));
        for bad in [
            "2",
            "2=",
            "2=5",
            "2=1GB",
            "2=MiB",
            "=1GiB",
            "2=-1GiB",
            "2=1é",
            "2=99999999999TiB",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
