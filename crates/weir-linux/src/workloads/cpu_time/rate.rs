// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of a process between two readings that are far enough apart to make a rate.

use weir_core::Nanos;

/// Readings closer together count as one: `/proc/PID/stat` counts in steps of 10 ms.
const APART: Nanos = Nanos::from_millis(900);

/// What it had at the last reading, and what it used before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    at: Nanos,
    cpu: Nanos,
    last: Option<(Nanos, Nanos)>,
}

impl Spent {
    pub(crate) fn new(at: Nanos, cpu: Nanos) -> Self {
        Spent {
            at,
            cpu,
            last: None,
        }
    }

    pub(crate) fn note(&mut self, at: Nanos, cpu: Nanos) {
        let span = at.0.saturating_sub(self.at.0);
        if span >= APART.0 {
            // The sources differ by less than one step, and time does not go back.
            let used = Nanos(cpu.0.saturating_sub(self.cpu.0));
            *self = Spent {
                at,
                cpu,
                last: Some((used, Nanos(span))),
            };
        }
    }

    /// CPU time between the last two readings, and the time between them.
    pub(crate) fn last(&self) -> Option<(Nanos, Nanos)> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_that_are_close_count_as_one() {
        let ms = Nanos::from_millis;
        let mut spent = Spent::new(ms(1000), ms(50));
        assert_eq!(spent.last(), None);
        spent.note(ms(1899), ms(99));
        assert_eq!(spent.last(), None, "too close");
        spent.note(ms(1900), ms(350));
        assert_eq!(spent.last(), Some((ms(300), ms(900))));
        spent.note(ms(1950), ms(400));
        assert_eq!(spent.last(), Some((ms(300), ms(900))));
        spent.note(ms(3900), ms(340));
        assert_eq!(
            spent.last(),
            Some((ms(0), ms(2000))),
            "by files it is rounded down"
        );
    }
}
