// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small machine made of files: one CXL node with access counters, cgroups with one process each.
//! `weir-lab bench loop` measures the loop over it, and the tests of the command drive the real binary
//! over it (they include this file).
//!
//! The kernel generates its files anew for each read; these are real files, and another thread changes
//! them while weir reads them. Changing numbers therefore have a fixed width and are overwritten in one
//! write, so that a reader never sees half of one.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The machine's root directory; nothing is removed when it goes out of scope.
pub struct FakeHost {
    root: PathBuf,
}

/// Process ids of workloads begin here; smaller ones are the system's.
const FIRST_PID: usize = 1000;

impl FakeHost {
    /// Makes a machine with `cpus` CPUs and no workloads in `root`.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn new(root: &Path, cpus: usize) -> io::Result<FakeHost> {
        let fake = FakeHost {
            root: root.to_owned(),
        };
        fake.write(
            "sys/devices/system/cpu/online",
            &format!("0-{}\n", cpus.max(2) - 1),
        )?;
        fake.write("sys/devices/system/node/has_cpu", "0\n")?;
        fake.write("sys/devices/system/node/has_memory", "0-1\n")?;
        fake.write(
            "sys/devices/system/node/node1/meminfo",
            "Node 1 MemTotal: 524288 kB\nNode 1 FilePages: 9 kB\nNode 1 AnonPages: 65536 kB\n",
        )?;
        let device = "sys/class/weir_cxl/weir_cxl0";
        for (name, text) in [
            ("version", "1\n"),
            ("group_count", "1\n"),
            ("line_bytes", "64\n"),
            ("group0/node", "1\n"),
            ("group0/base", "0x100000000\n"),
            ("group0/size_bytes", "536870912\n"),
            ("group0/read_bytes", "0\n"),
            ("group0/write_bytes", "0\n"),
        ] {
            fake.write(&format!("{device}/{name}"), text)?;
        }
        fake.set_counters(0, 0)?;
        fake.write("proc/sys/kernel/osrelease", "6.12.0-fake\n")?;
        fake.write("proc/self/cgroup", "0::/weir.service\n")?;
        for (name, text) in [
            ("cgroup.controllers", "cpuset cpu io memory pids\n"),
            ("cgroup.subtree_control", "cpu memory\n"),
            ("cgroup.procs", "2\n"),
        ] {
            fake.write(&format!("sys/fs/cgroup/{name}"), text)?;
        }
        fake.write("proc/vmstat", "pgmigrate_success 0\n")?;
        fake.process(1, "init", "/init.scope", 0)?;
        fake.process(2, "kthreadd", "/", 0)?;
        fake.cgroup("/init.scope", 1)?;
        fs::create_dir_all(fake.path("run"))?;
        Ok(fake)
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative.trim_start_matches('/'))
    }

    fn write(&self, relative: &str, text: &str) -> io::Result<()> {
        let path = self.path(relative);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(path, text)
    }

    /// Sets the device's cumulative counters.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_counters(&self, read_bytes: u64, write_bytes: u64) -> io::Result<()> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&read_bytes.to_ne_bytes());
        bytes[8..].copy_from_slice(&write_bytes.to_ne_bytes());
        overwrite(&self.path("sys/class/weir_cxl/weir_cxl0/counters"), &bytes)
    }

    /// Adds the workload with this number: a cgroup at `cgroup` with one process that has `pages`
    /// pages of 4 KiB on the CXL node.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn add(&self, number: usize, cgroup: &str, pages: u64) -> io::Result<()> {
        self.process(FIRST_PID + number, "reader", cgroup, pages)?;
        self.cgroup(cgroup, FIRST_PID + number)
    }

    fn process(&self, pid: usize, name: &str, cgroup: &str, pages: u64) -> io::Result<()> {
        // Fields of proc_pid_stat(5); PF_KTHREAD (0x200000) marks kernel threads.
        let flags = if name == "kthreadd" {
            0x20_8040
        } else {
            0x40_0000
        };
        let stat = format!(
            "{pid} ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 100 20 0 0 20 0 1 0 4000 \
             0 0 0 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        );
        self.write(&format!("proc/{pid}/stat"), &stat)?;
        self.write(&format!("proc/{pid}/cgroup"), &format!("0::{cgroup}\n"))?;
        let maps = match pages {
            0 => String::new(),
            n => format!(
                "7f0000000000 bind:1 file=/dev/shm/data mapped={n} N1={n} kernelpagesize_kB=4\n"
            ),
        };
        self.write(&format!("proc/{pid}/numa_maps"), &maps)
    }

    fn cgroup(&self, cgroup: &str, pid: usize) -> io::Result<()> {
        for (name, text) in [
            ("cpu.max", "max 100000\n"),
            ("cpu.max.burst", "0\n"),
            ("cpu.weight", "100\n"),
            ("cgroup.procs", &format!("{pid}\n")),
        ] {
            self.write(&format!("sys/fs/cgroup{cgroup}/{name}"), text)?;
        }
        self.set_cpu(cgroup, 0, 0)
    }

    /// Sets a cgroup's cumulative CPU and throttled time.
    ///
    /// # Errors
    /// The cgroup has gone.
    pub fn set_cpu(&self, cgroup: &str, usage_usec: u64, throttled_usec: u64) -> io::Result<()> {
        let text = format!(
            "usage_usec {usage_usec:020}\nuser_usec {usage_usec:020}\n\
             system_usec {:020}\nnr_periods {:020}\nnr_throttled {:020}\n\
             throttled_usec {throttled_usec:020}\n",
            0,
            usage_usec / 20_000,
            throttled_usec / 20_000,
        );
        overwrite(
            &self.path(&format!("sys/fs/cgroup{cgroup}/cpu.stat")),
            text.as_bytes(),
        )
    }
}

/// One write into the existing file, or a new one; the directory must be there.
fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?
        .write_all_at(bytes, 0)
}
