// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounded number of lines a core may have outstanding. This is what makes a saturated device a
//! closed queueing network: latency cannot grow past (cores × window) service times.

/// The last `window` completions of one core.
#[derive(Clone, Debug)]
pub struct CoreWindow {
    /// Completion times of the last lines, as a ring; `next` is the oldest.
    completions_ns: Vec<u64>,
    next: usize,
}

impl CoreWindow {
    /// A core that may have `lines` outstanding; at least one.
    pub fn new(lines: usize) -> Self {
        CoreWindow {
            completions_ns: vec![0; lines.max(1)],
            next: 0,
        }
    }

    /// When an access wanted at `at_ns` can be issued: then, or when the oldest line comes back.
    pub fn issue_at_ns(&self, at_ns: u64) -> u64 {
        at_ns.max(self.completions_ns[self.next])
    }

    /// Note that the access just issued completes at `done_ns`.
    pub fn issued(&mut self, done_ns: u64) {
        self.completions_ns[self.next] = done_ns;
        self.next = (self.next + 1) % self.completions_ns.len();
    }

    /// When the last outstanding line is back: a core that needs its data (a context switch, a
    /// serialising instruction) waits until then.
    pub fn drained_ns(&self) -> u64 {
        self.completions_ns.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_waits_for_its_oldest_line_and_not_before() {
        let mut window = CoreWindow::new(2);
        assert_eq!(window.issue_at_ns(0), 0);
        window.issued(100);
        assert_eq!(window.issue_at_ns(1), 1, "one of two lines is out: no wait");
        window.issued(200);
        assert_eq!(
            window.issue_at_ns(2),
            100,
            "both are out: wait for the older"
        );
        assert_eq!(window.issue_at_ns(99), 100);
        assert_eq!(window.issue_at_ns(101), 101);
        assert_eq!(window.drained_ns(), 200);
    }
}
