// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other side of `bpf/probes/task_counts_intf.h`: rows of 64-bit words in the machine's byte order.

/// Events that are read at each switch, at most.
pub(crate) const COUNTED: usize = 2;

/// One event's part of a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventCount {
    pub(crate) count: u64,
    /// How long it was enabled while the tasks of this sum ran, and for how much of that it ran.
    pub(crate) enabled_ns: u64,
    pub(crate) running_ns: u64,
}

/// What the tasks of a cgroup or a process did while they ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(pub(crate) [EventCount; COUNTED]);

impl Sum {
    /// Words that are missing are 0.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Sum {
        let mut words = words(bytes);
        let mut next = || words.next().unwrap_or(0);
        Sum(std::array::from_fn(|_| EventCount {
            count: next(),
            enabled_ns: next(),
            running_ns: next(),
        }))
    }

    /// Both together. The kernel's words may wrap.
    pub(crate) fn plus(mut self, other: Sum) -> Sum {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            ours.count = ours.count.wrapping_add(theirs.count);
            ours.enabled_ns = ours.enabled_ns.wrapping_add(theirs.enabled_ns);
            ours.running_ns = ours.running_ns.wrapping_add(theirs.running_ns);
        }
        self
    }
}

/// What a CPU is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuState {
    /// The cgroup or process of the task that runs; 0: none.
    pub(crate) key: u64,
    /// Its events were read at the last switch.
    pub(crate) known: bool,
    /// Runs that could not be attributed.
    pub(crate) lost: u64,
}

impl CpuState {
    pub(crate) fn from_bytes(bytes: &[u8]) -> CpuState {
        let mut words = words(bytes);
        let mut next = || words.next().unwrap_or(0);
        CpuState {
            key: next(),
            known: next() != 0,
            lost: next(),
        }
    }
}

pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word)
}

/// Members of a struct of a header, in order.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn members<'a>(header: &'a str, name: &str) -> Vec<&'a str> {
    let from = header.find(&format!("struct {name} {{")).unwrap();
    let body = header[from..].split_once('{').unwrap().1;
    let body = body.split_once('}').unwrap().0;
    let field = |line: &'a str| line.trim().strip_suffix(';')?.rsplit(' ').next();
    body.lines().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../../bpf/probes/task_counts_intf.h");

    #[test]
    fn both_sides_have_the_same_words_in_the_same_order() {
        let sum = [
            "first",
            "first_enabled_ns",
            "first_running_ns",
            "second",
            "second_enabled_ns",
            "second_running_ns",
        ];
        assert_eq!(members(HEADER, "event_counts"), sum);
        let state = ["key", "known", "lost", "last"];
        assert_eq!(members(HEADER, "cpu_state"), state);
        let line = HEADER.lines().find(|l| l.contains("MAX_EVENTS\t"));
        let number = line.unwrap().split_whitespace().last().unwrap();
        assert_eq!(number, COUNTED.to_string());
    }

    #[test]
    fn words_are_where_they_are() {
        let bytes: Vec<u8> = (1..=6u64).flat_map(u64::to_ne_bytes).collect();
        let sum = Sum::from_bytes(&bytes);
        let second = EventCount {
            count: 4,
            enabled_ns: 5,
            running_ns: 6,
        };
        assert_eq!((sum.0[0].running_ns, sum.0[1]), (3, second));
        assert_eq!(Sum::from_bytes(&[1, 2, 3]), Sum::default());
        assert_eq!(sum.plus(sum).0[1].count, 8);
        let state = CpuState {
            key: 1,
            known: true,
            lost: 3,
        };
        assert_eq!(CpuState::from_bytes(&bytes), state);
    }
}
