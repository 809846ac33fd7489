// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a process (proc(5); kernel, `Documentation/filesystems/proc.rst`).

use super::{Malformed, decimal, node_count, signed, words};

/// Flag of `/proc/PID/stat` that marks a kernel thread (`PF_KTHREAD`, kernel `sched.h`).
const PF_KTHREAD: u64 = 0x0020_0000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process's own name for itself: up to 15 bytes, any but NUL.
    pub comm: Vec<u8>,
    /// A thread of the kernel, without memory of its own.
    pub is_kernel: bool,
    /// User and system time of all its threads, in ticks of `USER_HZ` (100 a second).
    pub cpu_ticks: u64,
    /// Its nice value, −20 to 19.
    pub nice: i64,
    pub threads: u64,
    /// When it was started, in ticks since boot: differs where a process id was recycled.
    pub start_ticks: u64,
    /// Scheduling policy (`SCHED_*`).
    pub policy: u64,
    /// Page faults of all its threads, minor and major.
    pub faults: u64,
    /// Pages it has: as the kernel counts them at hand, a few off for each CPU.
    pub resident_pages: u64,
}

impl Stat {
    /// Whether its policy is `SCHED_FIFO` (1), `SCHED_RR` (2) or `SCHED_DEADLINE` (6), by their numbers in
    /// the kernel's `include/uapi/linux/sched.h`.
    pub fn is_real_time(&self) -> bool {
        matches!(self.policy, 1 | 2 | 6)
    }
}

/// Reads `/proc/PID/stat`. The name may hold blanks and brackets, so it ends at the *last* bracket.
///
/// # Errors
/// Too few fields, or a field that is not a number.
pub fn stat(text: &[u8]) -> Result<Stat, Malformed> {
    const WANT: Malformed = Malformed("PID (NAME) and at least 39 fields");
    let open = text.iter().position(|b| *b == b'(').ok_or(WANT)?;
    let close = text.iter().rposition(|b| *b == b')').ok_or(WANT)?;
    let comm = text.get(open + 1..close).ok_or(WANT)?.to_vec();
    let mut fields: [&[u8]; 39] = [&[]; 39];
    let mut count = 0;
    let rest = text.get(close + 1..).unwrap_or_default().trim_ascii();
    for (slot, word) in fields.iter_mut().zip(words(rest)) {
        *slot = word;
        count += 1;
    }
    if count < fields.len() {
        return Err(WANT);
    }
    // proc(5) numbers fields from 1 and the state, first after the name, is number 3.
    let field = |number: usize| fields[number - 3];
    Ok(Stat {
        comm,
        is_kernel: decimal(field(9))? & PF_KTHREAD != 0,
        cpu_ticks: decimal(field(14))?.saturating_add(decimal(field(15))?),
        nice: signed(field(19))?,
        threads: decimal(field(20))?,
        start_ticks: decimal(field(22))?,
        policy: decimal(field(41))?,
        faults: decimal(field(10))?.saturating_add(decimal(field(12))?),
        resident_pages: decimal(field(24))?,
    })
}

/// Pages of all processes that the kernel has moved so far (`/proc/vmstat`): migrated between nodes or within
/// one, and gathered into huge pages.
///
/// # Errors
/// No line `pgmigrate_success`, or a count that is none.
pub fn moved_pages(text: &[u8]) -> Result<u64, Malformed> {
    const WANT: Malformed = Malformed("a line pgmigrate_success COUNT");
    let count = |key: &[u8]| {
        let value = |line| <[u8]>::strip_prefix(line, key)?.strip_prefix(b" ");
        super::lines(text).find_map(value).map(decimal).transpose()
    };
    let migrated = count(b"pgmigrate_success")?.ok_or(WANT)?;
    Ok(migrated.saturating_add(count(b"thp_collapse_alloc")?.unwrap_or(0)))
}

/// Pages that the kernel has migrated so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigratedPages {
    pub all: u64,
    /// Pages that were moved to slower memory.
    pub demoted: u64,
    /// Pages that were moved to faster memory.
    pub promoted: u64,
}

/// Pages that the kernel has migrated so far (`/proc/vmstat`). Kinds that a kernel does not know are zero.
///
/// # Errors
/// No line `pgmigrate_success`, or a count that is none.
pub fn migrated_pages(text: &[u8]) -> Result<MigratedPages, Malformed> {
    let mut found = MigratedPages::default();
    let mut is_counted = false;
    for line in super::lines(text).filter(|line| line.starts_with(b"pg")) {
        let mut fields = words(line);
        let (Some(name), Some(value)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (sum, is_all) = match name {
            b"pgmigrate_success" => (&mut found.all, true),
            b"pgpromote_success" => (&mut found.promoted, false),
            name if name.starts_with(b"pgdemote_") => (&mut found.demoted, false),
            _ => continue,
        };
        *sum = sum.saturating_add(decimal(value)?);
        is_counted |= is_all;
    }
    if is_counted {
        Ok(found)
    } else {
        Err(Malformed("a line pgmigrate_success COUNT"))
    }
}

/// Threads that run or wait for a CPU (`/proc/loadavg`).
///
/// # Errors
/// It is not what proc(5) says.
pub fn runnable(text: &[u8]) -> Result<u64, Malformed> {
    const WANT: Malformed = Malformed("three averages and RUNNABLE/THREADS");
    let counts = words(text).nth(3).ok_or(WANT)?;
    let slash = counts.iter().position(|b| *b == b'/').ok_or(WANT)?;
    decimal(&counts[..slash]).map_err(|_| WANT)
}

/// The path in the cgroup v2 tree (`/proc/PID/cgroup`, the line of hierarchy 0). A path that begins
/// with `/..` lies outside our cgroup namespace.
///
/// # Errors
/// No such line: the process is in v1 hierarchies only.
pub fn cgroup_path(text: &[u8]) -> Result<&[u8], Malformed> {
    let path = super::lines(text).find_map(|line| line.strip_prefix(b"0::"));
    path.filter(|p| p.first() == Some(&b'/'))
        .ok_or(Malformed("a line 0::/PATH"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    pub start: u64,
    /// The mapped file, with the kernel's escapes (blank is `\040`).
    pub file: Option<&'a [u8]>,
    /// Its pages are huge ones of hugetlb.
    pub is_huge: bool,
    /// Pages on all nodes that belong to no file. In a private mapping of a file these are its copies of
    /// pages that were written to.
    pub anon_pages: u64,
    line: &'a [u8],
    page_bytes: u64,
}

impl Mapping<'_> {
    /// Resident bytes by node.
    pub fn nodes(&self) -> impl Iterator<Item = (u32, u64)> {
        let counts = words(self.line).filter_map(node_count);
        counts.filter_map(|(node, pages)| Some((node, pages.ok()?.saturating_mul(self.page_bytes))))
    }

    /// The part of these pages that belongs to the file. The kernel does not write on which nodes the others
    /// are: they are taken to be spread as all are.
    pub fn file_ratio(&self) -> f64 {
        if self.file.is_none() || self.anon_pages == 0 {
            return f64::from(u8::from(self.file.is_some()));
        }
        let sum = |sum: u64, (_, bytes)| sum.saturating_add(bytes);
        let all = self.nodes().fold(0, sum).max(1);
        let anon = self.anon_pages.saturating_mul(self.page_bytes);
        all.saturating_sub(anon) as f64 / all as f64
    }
}

/// Reads one line of `numa_maps`. Pages are counted in `kernelpagesize_kB`: a transparent huge page
/// counts as 512 small ones, a hugetlb page as one of its own size.
///
/// # Errors
/// No address at its begin, or a count that is none. A line without counts has no pages.
pub fn mapping(line: &[u8]) -> Result<Mapping<'_>, Malformed> {
    const WANT: Malformed = Malformed("ADDRESS POLICY [file=…] [N<node>=<pages>…]");
    let mut parts = words(line);
    let start = parts.next().and_then(hex).ok_or(WANT)?;
    let (mut file, mut page_kib) = (None, 4);
    let (mut is_huge, mut anon_pages) = (false, 0);
    for word in parts {
        if let Some(name) = word.strip_prefix(b"file=") {
            file = Some(name);
        } else if let Some(pages) = word.strip_prefix(b"anon=") {
            anon_pages = decimal(pages)?;
        } else if word == b"huge" {
            is_huge = true;
        } else if let Some(size) = word.strip_prefix(b"kernelpagesize_kB=") {
            page_kib = decimal(size)?;
        } else if node_count(word).is_some_and(|(_, pages)| pages.is_err()) {
            return Err(WANT);
        }
    }
    Ok(Mapping {
        start,
        file,
        is_huge,
        anon_pages,
        line,
        page_bytes: page_kib.saturating_mul(1024),
    })
}

/// From one line of `/proc/PID/maps`: where the mapping begins and which file it maps, by device and inode as
/// they are written there. `None` for memory that belongs to no file.
pub fn mapped_file(line: &[u8]) -> Option<(u64, [&[u8]; 2])> {
    let mut parts = words(line);
    let range = parts.next()?;
    let start = hex(range.split(|b| *b == b'-').next()?)?;
    let (device, inode) = (parts.nth(2)?, parts.next()?);
    (decimal(inode).ok()? != 0).then_some((start, [device, inode]))
}

/// An address, as these files write it.
fn hex(word: &[u8]) -> Option<u64> {
    let is_hex = !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(word).ok().filter(|_| is_hex)?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIO: &[u8] = b"812 (fio) S 1 812 812 0 -1 4194304 90 7 4 5 1250 35 0 0 20 5 7 0 4711 \
        120000000 6000 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 \
        0 0\n";

    #[test]
    fn stat_fields_are_where_proc_5_says() {
        let fio = stat(FIO).unwrap();
        assert_eq!(fio.comm, b"fio");
        assert_eq!(
            (fio.cpu_ticks, fio.nice, fio.threads, fio.start_ticks),
            (1285, 5, 7, 4711)
        );
        assert_eq!((fio.faults, fio.resident_pages), (90 + 4, 6000));
        assert!(!fio.is_kernel && !fio.is_real_time());
    }

    #[test]
    fn moved_pages_are_those_that_migrated_and_those_made_huge() {
        let text = b"pgmigrate_success_of_another 9\npgmigrate_success 40\nthp_collapse_alloc 2\n";
        assert_eq!(moved_pages(text), Ok(42));
        assert_eq!(moved_pages(b"pgmigrate_success 40\n"), Ok(40));
        for bad in [
            &b""[..],
            b"thp_collapse_alloc 2\n",
            b"pgmigrate_success -1\n",
        ] {
            assert!(moved_pages(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_name_cannot_forge_fields() {
        let text = String::from_utf8(FIO.to_vec()).unwrap();
        let forged = text.replace("(fio)", "(x) R 1 1 1\n(y)) ");
        let seen = stat(forged.as_bytes()).unwrap();
        assert_eq!(seen.comm, b"x) R 1 1 1\n(y)");
        assert_eq!(seen.start_ticks, 4711);
    }

    #[test]
    fn policies_and_kernel_threads_are_recognized() {
        let text = String::from_utf8(FIO.to_vec()).unwrap();
        for (policy, want) in [
            ("0", false),
            ("1", true),
            ("2", true),
            ("3", false),
            ("6", true),
            ("7", false),
        ] {
            let with = text.replace("17 3 0 0 0", &format!("17 3 0 {policy} 0"));
            assert_eq!(
                stat(with.as_bytes()).unwrap().is_real_time(),
                want,
                "policy {policy}"
            );
        }
        assert!(
            stat(text.replace("4194304", "2129984").as_bytes())
                .unwrap()
                .is_kernel
        );
        assert!(stat(b"812 (fio) S 1 2 3\n").is_err());
        assert!(stat(b")(").is_err());
    }

    #[test]
    fn runnable_threads_are_before_the_slash() {
        assert_eq!(runnable(b"0.20 0.18 0.12 3/80 11206\n"), Ok(3));
        for bad in [&b""[..], b"0.20 0.18 0.12 3\n", b"0.20 0.18 0.12 /80\n"] {
            assert!(runnable(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_cgroup_is_that_of_hierarchy_0() {
        assert_eq!(cgroup_path(b"1:cpu:/a\n0::/b c\n"), Ok(&b"/b c"[..]));
        assert!(cgroup_path(b"1:cpu:/a\n").is_err());
        assert!(cgroup_path(b"0::\n").is_err());
    }

    #[test]
    fn mappings_of_all_page_sizes() {
        let line = b"7f1000000000 bind:1 file=/dev/shm/a\\040N1=7 mapped=16384 active=0 N0=1 N1=16384 kernelpagesize_kB=4";
        let map = mapping(line).unwrap();
        assert_eq!(map.file, Some(&b"/dev/shm/a\\040N1=7"[..]));
        assert_eq!(map.start, 0x7f10_0000_0000);
        assert_eq!(map.nodes().collect::<Vec<_>>(), [(0, 4096), (1, 64 << 20)]);
        let huge = mapping(b"7f2000000000 default huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048")
            .unwrap();
        assert_eq!((map.is_huge, map.file_ratio()), (false, 1.0));
        assert_eq!((huge.is_huge, huge.file_ratio()), (true, 0.0));
        for (anon, of_file) in [("25", 0.75), ("100", 0.0), ("900", 0.0)] {
            let line =
                format!("7f00 default file=/lib/x anon={anon} dirty=25 mapped=100 N0=20 N1=80");
            let copied = mapping(line.as_bytes()).unwrap();
            assert_eq!(copied.file_ratio(), of_file, "{anon}");
        }
        assert_eq!((huge.file, huge.nodes().next()), (None, Some((1, 4 << 20))));
        assert_eq!(
            mapping(b"7ffc00000000 default stack")
                .unwrap()
                .nodes()
                .count(),
            0
        );
        for bad in [
            &b""[..],
            b"zz default",
            b"7f00 default N1=x",
            b"7f00 default kernelpagesize_kB=-4",
        ] {
            assert!(mapping(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_mapped_file_is_known_by_its_device_and_inode() {
        let heap =
            b"7f1000000000-7f1004000000 rw-s 00000000 00:01 4711       /memfd:java_heap (deleted)";
        assert_eq!(
            mapped_file(heap),
            Some((0x7f10_0000_0000, [&b"00:01"[..], b"4711"]))
        );
        for of_none in [
            &b"7f2000000000-7f2000001000 rw-p 00000000 00:00 0 [heap]"[..],
            b"7f2000000000-7f2000001000 rw-p 00000000",
            b"-7f2000001000 rw-p 00000000 00:01 4711",
            b"",
        ] {
            assert_eq!(mapped_file(of_none), None, "{of_none:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = mapped_file(&bytes);
            let _ = (stat(&bytes), cgroup_path(&bytes), moved_pages(&bytes), runnable(&bytes));
            if let Ok(map) = mapping(&bytes) {
                let _ = map.nodes().count();
            }
        }

        #[test]
        fn any_damage_is_survived(at in 0..FIO.len(), byte: u8, tail: Vec<u8>) {
            let mut text = FIO.to_vec();
            text[at] = byte;
            let _ = stat(&text);
            let mut line = b"7f00 bind:1 file=/x N1=".to_vec();
            line.extend_from_slice(&tail);
            if let Ok(map) = mapping(&line) {
                let _ = map.nodes().count();
            }
        }

        #[test]
        fn any_name_is_read_back(comm in proptest::collection::vec(1u8.., 0..16)) {
            let mut text = b"1 (".to_vec();
            text.extend_from_slice(&comm);
            text.extend_from_slice(&FIO[8..]);
            prop_assert_eq!(stat(&text).unwrap().comm, comm);
        }
    }
}
