// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The books of weir's scheduler: budgets of workloads and what devices counted, tick by tick. The
//! arithmetic is the kernel's own (`bpf/weir_sched.h` by way of `weir-sched`), in the order of
//! `bpf/weir_tick.bpf.h`; only where the numbers are kept differs.

use weir_sched::{Bucket, RATIO_ONE, estimate, owed, ratio, scaled};

/// Parked tasks of one workload that one tick releases at most.
const RELEASED_AT_ONCE: u32 = 64;

/// `struct weir_settings`: how weir-linux sets them is told in its `scx/mod.rs`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub tick_ns: u64,
    pub room_ns: u64,
    pub debt_ns: u64,
    pub turn_ns: u64,
    pub turn_each_ns: u64,
    pub turn_most_ns: u64,
    pub slice_ns: u64,
    /// What a parked workload saves up for before it runs again.
    pub run_ns: u64,
    /// The kernel's guarantee for `SCHED_EXT` on each CPU (`ext_server`).
    pub server: Server,
}

/// CPU time that is guaranteed to a class on each CPU, and in how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub runtime_ns: u64,
    pub period_ns: u64,
}

impl Server {
    /// As Linux 7.0 and later have it.
    pub(crate) const USUAL: Server = Server {
        runtime_ns: 50_000_000,
        period_ns: 1_000_000_000,
    };
    /// The most that deadline tasks may have (95 %) beside the fair class's own 5 %.
    pub(crate) const RAISED: Server = Server {
        runtime_ns: 9_000_000,
        period_ns: 10_000_000,
    };
}

impl Settings {
    /// For limits that hold over this period.
    pub(crate) fn of_period(period_ns: u64, server: Server) -> Self {
        let tick_ns = (period_ns / 20).clamp(1_000_000, 10_000_000);
        Settings {
            tick_ns,
            room_ns: (period_ns / 2).max(2 * tick_ns),
            debt_ns: 500_000_000,
            turn_ns: 500_000_000,
            turn_each_ns: 50_000_000,
            turn_most_ns: 5_000_000_000,
            slice_ns: 4_000_000,
            run_ns: period_ns / 10,
            server,
        }
    }

    /// How long a parked task waits for its turn at most, if so many wait.
    pub(crate) fn turn(&self, waiting: u64) -> u64 {
        weir_sched::turn(waiting, self.turn_each_ns, self.turn_ns, self.turn_most_ns)
    }
}

/// What one workload may do (`struct weir_rate`), and its limit in CPUs for whoever looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    pub bytes_per_sec: u64,
    pub intensity_bytes_per_sec: u64,
    pub device: usize,
    pub cpus: f64,
}

/// One limited workload (`struct weir_count`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    pub rate: Rate,
    pub bucket: Bucket,
    /// CPU time since the last tick.
    pub run_ns: u64,
    /// Its tasks are to wait, until its next run begins.
    pub gate: bool,
}

/// One device (`struct weir_device`, `struct weir_meter`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    pub set_point_bytes_per_sec: u64,
    pub others_bytes_per_sec: u64,
    /// Sum of the intensities of those who run.
    pub load_bytes_per_sec: u64,
    pub carry_max: i64,
    counted: Option<u64>,
    carry: i64,
    estimated: u64,
    ratio: u64,
    others_part: u64,
}

impl Meter {
    /// How the estimates of this device are to be scaled: its counter says `counted`.
    fn weigh(&mut self, counted: u64, ns: u64) {
        let Some(before) = self.counted.replace(counted) else {
            self.ratio = RATIO_ONE;
            self.carry = 0;
            return;
        };
        let others = weir_sched::bytes_exact(self.others_bytes_per_sec, ns, &mut self.others_part);
        self.carry = owed(counted - before, others, self.carry, self.carry_max);
        self.ratio = ratio(self.carry, self.estimated);
    }
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub settings: Settings,
    /// By position of the workload.
    pub accounts: Vec<Option<Account>>,
    pub meters: Vec<Meter>,
}

impl Books {
    pub(crate) fn new(settings: Settings, workloads: usize, devices: usize) -> Self {
        Books {
            settings,
            accounts: vec![None; workloads],
            meters: vec![Meter::default(); devices],
        }
    }

    /// Whether the tasks of a workload are to wait.
    pub(crate) fn waits(&self, workload: usize) -> bool {
        self.accounts[workload].is_some_and(|a| a.gate)
    }

    /// A run begins, or there is budget and nobody to be let in, in turns.
    pub(crate) fn open(&mut self, workload: usize) {
        if let Some(account) = &mut self.accounts[workload] {
            account.gate = account.bucket.is_over();
        }
    }

    /// How many parked tasks of a workload may go now.
    pub(crate) fn may_go(&self, workload: usize) -> u32 {
        self.accounts[workload].map_or(RELEASED_AT_ONCE, |a| {
            let intensity = a.rate.intensity_bytes_per_sec;
            if a.gate && !a.bucket.may_begin(intensity, self.settings.run_ns) {
                return 0;
            }
            a.bucket
                .release_count(intensity, self.settings.tick_ns, RELEASED_AT_ONCE)
        })
    }

    /// An interval of `ns` has passed, at whose end the devices' counters say `counted`.
    pub(crate) fn share_out(&mut self, counted: &[u64], ns: u64) {
        for meter in &mut self.meters {
            meter.estimated = 0;
        }
        for account in self.accounts.iter().flatten() {
            let bytes = estimate(account.rate.intensity_bytes_per_sec, account.run_ns);
            self.meters[account.rate.device].estimated += bytes;
        }
        for (meter, counted) in self.meters.iter_mut().zip(counted) {
            meter.weigh(*counted, ns);
        }
        let settings = self.settings;
        for account in self.accounts.iter_mut().flatten() {
            let meter = &mut self.meters[account.rate.device];
            let run_ns = std::mem::take(&mut account.run_ns);
            let bytes = estimate(account.rate.intensity_bytes_per_sec, run_ns);
            let bytes = scaled(bytes, meter.ratio);
            meter.carry -= bytes as i64;
            let rate = account.rate.bytes_per_sec;
            account.bucket.charge(bytes, rate, settings.debt_ns);
            let intensity = account.rate.intensity_bytes_per_sec;
            let most = weir_sched::room(rate, settings.room_ns, intensity, settings.run_ns);
            account.bucket.refill(rate, ns, most);
            account.gate |= account.bucket.is_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Two workloads whose intensities are wrong in opposite ways: who is charged what is wrong too, but
    /// all of what the device moved is charged.
    #[test]
    fn wrong_intensities_shift_charges_and_lose_none() {
        let mut books = Books::new(Settings::of_period(20 * MS, Server::USUAL), 2, 1);
        books.meters[0].carry_max = 1 << 30;
        for (i, intensity) in [1_000_000_000, 4_000_000_000].into_iter().enumerate() {
            let rate = Rate {
                bytes_per_sec: 1_000_000_000,
                intensity_bytes_per_sec: intensity,
                ..Rate::default()
            };
            books.accounts[i] = Some(Account {
                rate,
                ..Account::default()
            });
        }
        books.share_out(&[0], MS);
        let mut before = [0; 2];
        for (i, account) in books.accounts.iter_mut().flatten().enumerate() {
            account.run_ns = MS;
            before[i] = account.bucket.bytes;
        }
        books.share_out(&[4_000_000], MS);
        let after = books.accounts.iter().flatten().map(|a| a.bucket.bytes);
        let charged: Vec<i64> = after
            .zip(before)
            .map(|(after, before)| before + 1_000_000 - after)
            .collect();
        let sum: i64 = charged.iter().sum();
        assert!((3_990_000..=4_000_000).contains(&sum), "{charged:?}");
        assert!((charged[1] - 4 * charged[0]).abs() < 4_000, "{charged:?}");
    }
}
