// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which workload waits for which: while requests wait at a place, its time is charged to the workloads whose
//! requests have it.
//!
//! A server has one request in service; a table or a queue has many, and the time is shared among their
//! owners. Time in which none has the place (a bus turns around) is charged to no workload.

pub(crate) struct Contention {
    waiting: Vec<u32>,
    having: Vec<u32>,
    all_waiting: u32,
    all_having: u32,
    since: u64,
    /// Waiting time by waiting workload, then by the workload that had the place; the last column is for
    /// none. Picoseconds.
    matrix: Vec<f64>,
}

impl Contention {
    pub fn new(workloads: usize) -> Self {
        Contention {
            waiting: vec![0; workloads],
            having: vec![0; workloads],
            all_waiting: 0,
            all_having: 0,
            since: 0,
            matrix: vec![0.0; workloads * (workloads + 1)],
        }
    }

    /// Charges the time up to `now`. A second in which three requests wait counts three seconds of waiting.
    /// It is shared among the workloads that have the place by how many of its entries each has.
    pub fn settle(&mut self, now: u64) {
        let time = (now - self.since) as f64;
        self.since = now;
        if self.all_waiting == 0 || time == 0.0 {
            return;
        }
        let workloads = self.waiting.len();
        for waiting in 0..workloads {
            if self.waiting[waiting] == 0 {
                continue;
            }
            let waited = time * f64::from(self.waiting[waiting]);
            let row = &mut self.matrix[waiting * (workloads + 1)..][..workloads + 1];
            if self.all_having == 0 {
                row[workloads] += waited;
                continue;
            }
            for (cell, having) in row.iter_mut().zip(&self.having) {
                if *having > 0 {
                    *cell += waited * f64::from(*having) / f64::from(self.all_having);
                }
            }
        }
    }

    pub fn wait(&mut self, now: u64, owner: u8) {
        self.settle(now);
        self.waiting[usize::from(owner)] += 1;
        self.all_waiting += 1;
    }

    pub fn end_wait(&mut self, now: u64, owner: u8) {
        self.settle(now);
        self.waiting[usize::from(owner)] -= 1;
        self.all_waiting -= 1;
    }

    pub fn take(&mut self, now: u64, owner: u8) {
        self.settle(now);
        self.having[usize::from(owner)] += 1;
        self.all_having += 1;
    }

    pub fn leave(&mut self, now: u64, owner: u8) {
        self.settle(now);
        self.having[usize::from(owner)] -= 1;
        self.all_having -= 1;
    }

    /// Charges `time` of a wait of `owner` in proportion to `parts`, one for each workload.
    pub fn charge(&mut self, owner: u8, time: f64, parts: &[f64]) {
        let workloads = self.waiting.len();
        let row = &mut self.matrix[usize::from(owner) * (workloads + 1)..][..workloads];
        let whole: f64 = parts.iter().sum();
        for (cell, part) in row.iter_mut().zip(parts) {
            *cell += time * part / whole;
        }
    }

    /// Adds its matrix to `sum`, up to `now`.
    pub fn add_to(&mut self, now: u64, sum: &mut [f64]) {
        self.settle(now);
        for (sum, cell) in sum.iter_mut().zip(&self.matrix) {
            *sum += cell;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_charged_to_those_in_front() {
        let mut place = Contention::new(2);
        place.take(0, 1);
        place.wait(10, 0);
        place.wait(20, 0);
        // 10 of one and 2 × 30 of two waiting requests behind workload 1.
        place.leave(50, 1);
        // Nothing is in service for 5.
        place.end_wait(55, 0);
        place.take(55, 0);
        place.take(55, 1);
        let mut sum = vec![0.0; 6];
        place.add_to(65, &mut sum);
        assert_eq!(sum[1], 70.0 + 5.0);
        assert_eq!(sum[2], 10.0, "none had it");
        assert_eq!(sum[0], 5.0, "half of the rest is its own");
        assert_eq!(sum[3..], [0.0; 3]);
    }
}
