// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a cgroup v2 directory (kernel, `Documentation/admin-guide/cgroup-v2.rst`).

use super::{FITTING, Malformed, decimal, lines, node_count, words};
use memchr::memmem::Finder;
use std::fmt;
use std::sync::LazyLock;

/// `cpu.stat`. The throttling part is there only where the cpu controller is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// CPU time used, user and system, in microseconds.
    pub usage_usec: u64,
    pub throttled_usec: Option<u64>,
}

/// Reads `cpu.stat`.
///
/// # Errors
/// No `usage_usec`, or a number that is none.
pub fn cpu_stat(text: &[u8]) -> Result<CpuStat, Malformed> {
    // At each tick for each workload: as kernels write it so far, no line between the two is looked at.
    if let Some(stat) = usual_cpu_stat(text) {
        return Ok(stat);
    }
    let usage = number(text, b"usage_usec").ok_or(Malformed("a line usage_usec"))?;
    Ok(CpuStat {
        usage_usec: usage?,
        throttled_usec: number(text, b"throttled_usec").transpose()?,
    })
}

/// The same of a text that begins with `usage_usec` and has plain numbers; nothing of any other.
fn usual_cpu_stat(text: &[u8]) -> Option<CpuStat> {
    static THROTTLED: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new(b"\nthrottled_usec"));
    let (usage_usec, after) = plain_number(text.strip_prefix(b"usage_usec ")?)?;
    let throttled_usec = match THROTTLED.find(after) {
        Some(place) => {
            let value = after.get(place + THROTTLED.needle().len()..)?;
            Some(plain_number(value.strip_prefix(b" ")?)?.0)
        }
        None => None,
    };
    Some(CpuStat {
        usage_usec,
        throttled_usec,
    })
}

/// A number of digits alone that ends with its line, and the text from that end on; nothing of any other, and
/// of one so long that it may not fit.
fn plain_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let zeros = text.iter().take_while(|byte| **byte == b'0').count();
    let (mut sum, mut end) = (0u64, zeros);
    while let Some(digit @ 0..10) = text.get(end).map(|byte| byte.wrapping_sub(b'0')) {
        if end - zeros == FITTING {
            return None;
        }
        sum = sum * 10 + u64::from(digit);
        end += 1;
    }
    let rest = text.get(end..)?;
    (end > 0 && matches!(rest.first(), None | Some(b'\n'))).then_some((sum, rest))
}

/// How often the quota was refilled by the clock, by `cpu.stat`; nothing where it does not say.
pub fn refills(text: &[u8]) -> Option<u64> {
    number(text, b"nr_periods")?.ok()
}

/// The number on the first line with this key. Of most lines one byte is read.
fn number(text: &[u8], key: &[u8]) -> Option<Result<u64, Malformed>> {
    let value = |line: &[u8]| {
        if line.first() == key.first() {
            line.strip_prefix(key)
                .filter(|rest| !rest.first().is_some_and(is_of_name))
                .map(decimal)
        } else {
            None
        }
    };
    lines(text).find_map(value)
}

/// Whether the byte goes on with a name, so that the key is a longer one.
fn is_of_name(byte: &u8) -> bool {
    !matches!(byte, b' ' | b'\t')
}

/// `cpu.max`: a quota of CPU time per period, or none. Prints as the kernel does, so that what was
/// read can be written back exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMax {
    /// CPU time per period in microseconds; nothing is `max`.
    pub quota_us: Option<u64>,
    /// The period in microseconds; never 0.
    pub period_us: u64,
}

impl CpuMax {
    /// The limit in CPUs, if there is one.
    pub fn cpus(&self) -> Option<f64> {
        self.quota_us
            .map(|quota| quota as f64 / self.period_us as f64)
    }

    /// Whether this allows less CPU than `other`. Exact: products, not quotients.
    pub fn is_tighter_than(&self, other: &CpuMax) -> bool {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        match (self.quota_us, other.quota_us) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(mine), Some(theirs)) => {
                product(mine, other.period_us) < product(theirs, self.period_us)
            }
        }
    }
}

impl fmt::Display for CpuMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quota_us {
            Some(quota) => write!(f, "{quota} {}", self.period_us),
            None => write!(f, "max {}", self.period_us),
        }
    }
}

/// Reads `cpu.max`.
///
/// # Errors
/// Anything but `max PERIOD` and `QUOTA PERIOD` with a period above 0.
pub fn cpu_max(text: &[u8]) -> Result<CpuMax, Malformed> {
    const WANT: Malformed = Malformed("\"max PERIOD\" or \"QUOTA PERIOD\" in microseconds");
    let mut parts = words(text.trim_ascii());
    let (Some(quota), Some(period), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(WANT);
    };
    let quota_us = if quota == b"max" {
        None
    } else {
        Some(decimal(quota).map_err(|_| WANT)?)
    };
    let period_us = decimal(period).ok().filter(|p| *p > 0).ok_or(WANT)?;
    Ok(CpuMax {
        quota_us,
        period_us,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    Anon,
    /// The page cache, with shared memory inside.
    File,
    /// The part of `File` that a process has mapped.
    Mapped,
}

/// Reads `memory.numa_stat` and calls `add` with node and bytes. Other lines are parts of these, or kernel
/// memory.
///
/// # Errors
/// A count that is none. Lines before it have been added by then.
pub fn numa_stat(text: &[u8], mut add: impl FnMut(Pages, u32, u64)) -> Result<(), Malformed> {
    for line in lines(text) {
        let mut parts = words(line);
        let pages = match parts.next() {
            Some(b"anon") => Pages::Anon,
            Some(b"file") => Pages::File,
            Some(b"file_mapped") => Pages::Mapped,
            _ => continue,
        };
        for (node, bytes) in parts.filter_map(node_count) {
            add(pages, node, bytes?);
        }
    }
    Ok(())
}

/// Process ids, one a line (`cgroup.procs`). 0 stands for a process outside our PID namespace.
///
/// # Errors
/// A line that is not a process id.
pub fn pids(text: &[u8]) -> Result<Vec<u32>, Malformed> {
    const WANT: Malformed = Malformed("one process id a line");
    let pid = |line| {
        decimal(line)
            .ok()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or(WANT)
    };
    lines(text).map(pid).collect()
}

/// Whether a list such as `cgroup.controllers` names `controller`.
pub fn lists(text: &[u8], controller: &[u8]) -> bool {
    words(text.trim_ascii()).any(|word| word == controller)
}

/// The number of cgroups below this one (`cgroup.stat`, `nr_descendants`).
pub fn descendants(text: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| decimal(line.strip_prefix(b"nr_descendants ")?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Taken from Linux 7.2.
    const STAT: &[u8] =
        b"usage_usec 2113041\nuser_usec 1000120\nsystem_usec 1112921\nnice_usec 0\n\
        core_sched.force_idle_usec 0\nnr_periods 88\nnr_throttled 17\nthrottled_usec 960123\n\
        nr_bursts 0\nburst_usec 0\n";

    /// Parses line by line, whatever the text begins with: the slow way that the fast one is compared with.
    fn by_lines(text: &[u8]) -> Result<CpuStat, Malformed> {
        let shifted = [b"x 1\n", text].concat();
        assert_eq!(usual_cpu_stat(&shifted), None);
        cpu_stat(&shifted)
    }

    #[test]
    fn texts_of_kernels_are_read_at_once() {
        assert_eq!(usual_cpu_stat(STAT).map(Ok), Some(by_lines(STAT)));
        let bare = b"usage_usec 0005\nuser_usec 3\n";
        assert_eq!(usual_cpu_stat(bare).map(Ok), Some(by_lines(bare)));
        for odd in [
            &b"usage_usec 5 \n"[..],
            b"usage_usec\t5\n",
            b"usage_usec \n",
            b"usage_usec 12345678901234567890\n",
            b"usage_usec 5\nthrottled_usec_max 1\nthrottled_usec 2\n",
            b"usage_usec 5\nthrottled_usec -1\n",
        ] {
            assert_eq!(usual_cpu_stat(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn cpu_stat_with_and_without_the_controller() {
        let stat = cpu_stat(STAT).unwrap();
        assert_eq!(stat.usage_usec, 2_113_041);
        assert_eq!(
            (stat.throttled_usec, refills(STAT)),
            (Some(960_123), Some(88))
        );
        let text = b"usage_usec 5\nuser_usec 3\nsystem_usec 2\n";
        let bare = cpu_stat(text).unwrap();
        assert_eq!(
            (bare.usage_usec, bare.throttled_usec, refills(text)),
            (5, None, None)
        );
        // A longer key is another one.
        let longer = cpu_stat(b"usage_usec_max 7\nusage_usec 5\nthrottled_usec_max 1\n");
        assert_eq!(longer, Ok(bare));
        for bad in [
            &b""[..],
            b"usage_usec\n",
            b"usage_usec x\n",
            b"usage_usec -1\n",
            b"usage_usec 1 2\n",
            b"usage_usec 1\nthrottled_usec x\n",
        ] {
            assert!(cpu_stat(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cpu_max_is_printed_as_the_kernel_prints_it() {
        for text in ["max 100000", "20000 20000", "1000 1000000"] {
            assert_eq!(
                cpu_max(format!("{text}\n").as_bytes()).unwrap().to_string(),
                text
            );
        }
        for bad in [
            "",
            "max",
            "max 0",
            "1000",
            "-1 100000",
            "max max",
            "1 2 3",
            "1000 0",
        ] {
            assert!(cpu_max(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn tighter_compares_cpus_not_microseconds() {
        let max = |text: &[u8]| cpu_max(text).unwrap();
        assert!(max(b"10000 20000").is_tighter_than(&max(b"60000 100000")));
        assert!(!max(b"50000 100000").is_tighter_than(&max(b"10000 20000")));
        assert!(max(b"900000 1000").is_tighter_than(&max(b"max 1000")));
        assert!(!max(b"max 1000").is_tighter_than(&max(b"max 100000")));
        assert!(!max(b"max 1").is_tighter_than(&max(b"1 1000000")));
    }

    #[test]
    fn numa_stat_gives_kinds_of_pages() {
        let text = b"anon N0=4096 N1=8192\nfile N0=0 N1=65536\nkernel_stack N0=16384 N1=0\n\
            shmem N0=0 N1=65536\nfile_mapped N0=0 N1=65536\ninactive_anon N0=4096 N1=8192\n";
        let mut on = Vec::new();
        numa_stat(text, |pages, node, bytes| on.push((pages, node, bytes))).unwrap();
        let on_1: Vec<_> = on
            .iter()
            .filter(|(_, node, _)| *node == 1)
            .map(|(p, _, b)| (*p, *b))
            .collect();
        let want = [
            (Pages::Anon, 8192),
            (Pages::File, 65536),
            (Pages::Mapped, 65536),
        ];
        assert_eq!(on_1, want);
        assert_eq!(on.len(), 6, "stacks of the kernel are not the workload's");
        assert!(numa_stat(b"anon N0=4x\n", |_, _, _| ()).is_err());
    }

    #[test]
    fn lists_of_pids_and_names() {
        assert_eq!(pids(b"1\n0\n4194304\n"), Ok(vec![1, 0, 4_194_304]));
        assert!(pids(b"1\nfio\n").is_err());
        assert!(lists(b"cpuset cpu io\n", b"cpu") && !lists(b"cpuset io\n", b"cpu"));
        assert_eq!(
            descendants(b"nr_descendants 12\nnr_dying_descendants 3\n"),
            Some(12)
        );
    }

    proptest! {
        #[test]
        fn both_ways_of_reading_cpu_stat_agree(
            parts in proptest::collection::vec((0..9usize, proptest::collection::vec(0..13u8, 0..22)), 0..6)
        ) {
            let keys = ["usage_usec ", "\nthrottled_usec ", "\nusage_usec ", "throttled_usec", "\n", "usage_usec",
                "\nnr_periods ", " ", "\nthrottled_usec_max "];
            let text = parts.iter().flat_map(|(key, digits)| {
                let digits = digits.iter().map(|n| b"0123456789\n -"[usize::from(*n)]);
                keys[*key].bytes().chain(digits)
            });
            let text: Vec<u8> = text.collect();
            prop_assert_eq!(cpu_stat(&text), by_lines(&text));
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = (cpu_stat(&bytes), refills(&bytes), pids(&bytes), descendants(&bytes), lists(&bytes, b"cpu"));
            let _ = numa_stat(&bytes, |_, _, _| ());
            if let Ok(max) = cpu_max(&bytes) {
                prop_assert!(max.period_us > 0 && max.cpus().is_none_or(f64::is_finite));
            }
        }

        #[test]
        fn damaged_files_are_survived(at in 0..STAT.len(), byte: u8) {
            let mut text = STAT.to_vec();
            text[at] = byte;
            let _ = cpu_stat(&text);
            let _ = cpu_stat(&STAT[..at]);
        }

        #[test]
        fn tighter_is_an_order(a in 1u64.., p in 1u64.., b in 1u64.., q in 1u64..) {
            let (x, y) = (CpuMax { quota_us: Some(a), period_us: p }, CpuMax { quota_us: Some(b), period_us: q });
            prop_assert!(!(x.is_tighter_than(&y) && y.is_tighter_than(&x)));
            prop_assert!(!x.is_tighter_than(&x));
        }
    }
}
