// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios by chance, for checking the controller on what it was not made for.
//!
//! One seed gives one scenario, as the text of a file, so that one that fails can be kept. Its set-point is
//! a part of what the machine moves without weir, and is known only after a run of it ([`Draft::at`]).

use std::fmt::Write;
use weir_core::random::SplitMix;

/// What a scenario has that decides which checks apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traits {
    /// All of its load is the same all the time.
    pub is_steady: bool,
    /// Some of it cannot be limited.
    pub has_realtime: bool,
    /// A device gets slower.
    pub has_fault: bool,
    /// What the sensors say of each workload has no error of its own.
    pub is_exact: bool,
    /// Compute workers that take all CPU time that they get.
    pub has_full_cpus: bool,
}

/// A scenario without its set-point.
#[derive(Clone, Debug)]
pub struct Draft {
    pub seed: u64,
    pub traits: Traits,
    /// The set-point as a part of what moves without weir: above 1 there is nothing to limit.
    pub set_point_ratio: f64,
    head: String,
    rest: String,
}

/// Numbers of one seed.
struct Dice(SplitMix);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn real(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }

    fn chance(&mut self, ratio: f64) -> bool {
        self.unit() < ratio
    }
}

/// The profiles with their bandwidth, about, in bytes per second: light users are drawn as a part of it.
const DEVICES: [(&str, f64); 4] = [
    ("agilex-thesis", 8e9),
    ("asic-x16", 40e9),
    ("ddr5-2ch", 40e9),
    ("agilex-i", 15e9),
];
/// Time from the start of a run to what is measured, and how long that is, in seconds.
pub const SETTLE_SEC: f64 = 10.0;
/// See [`SETTLE_SEC`].
pub const MEASURE_SEC: f64 = 10.0;

pub fn draw(seed: u64) -> Draft {
    let mut dice = Dice(SplitMix::new(
        seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed,
    ));
    let mut traits = Traits {
        is_steady: true,
        ..Traits::default()
    };
    let cores = dice.of(&[2u64, 4, 4, 8, 8, 16]);
    let threads = dice.of(&[1u64, 1, 2]);
    let cpus = cores * threads;
    let (profile, device_bytes) = dice.of(&DEVICES);
    let mut head = String::new();
    let _ = write!(
        head,
        "name = \"random-{seed}\"\nabout = \"made by chance\"\n[machine]\ncores = {cores}\n\
         threads_per_core = {threads}\nhz = {}\n[[device]]\nprofile = \"{profile}\"\ngroups = 1\n",
        dice.of(&[250, 1000])
    );
    let mut rest = String::new();
    if dice.chance(0.5) {
        traits.is_exact = true;
        rest.push_str("[sensors]\ncounts_bias_stddev = 0.0\nbias_stddev = 0.0\n");
    }
    let kinds = dice.of(&[1u64, 1, 2, 3]);
    for kind in 0..kinds {
        heavy(&mut dice, &mut rest, kind, cpus, &mut traits);
    }
    for light in 0..dice.of(&[0u64, 1, 1, 2]) {
        let rate = device_bytes * dice.real(0.002, 0.02);
        let _ = write!(
            rest,
            "[[workload]]\nname = \"light-{light}\"\nrole = \"light\"\nresident_mib = 64\n\
             [[workload.phase]]\nkind = \"access\"\nblock_kib = {}\nrate_bytes_per_sec = {rate:.0}\n",
            dice.of(&[4, 16, 64])
        );
    }
    beside(&mut dice, &mut rest, cpus, &mut traits);
    if dice.chance(0.08) {
        traits.has_fault = true;
        let _ = write!(
            rest,
            "[[fault]]\nat_ms = 13000\ncapacity_ratio = {:.2}\n",
            dice.real(0.4, 0.8)
        );
    }
    let set_point_ratio = if dice.chance(0.2) {
        dice.real(1.1, 1.4)
    } else {
        dice.real(0.35, 0.95)
    };
    Draft {
        seed,
        traits,
        set_point_ratio,
        head,
        rest,
    }
}

/// A kind of reader or writer, some of it.
fn heavy(dice: &mut Dice, out: &mut String, kind: u64, cpus: u64, traits: &mut Traits) {
    let count = dice.between(1, 6);
    let threads = dice.of(&[1u64, 1, 1, 2, cpus.min(4)]);
    let weight = dice.of(&[100.0, 100.0, 100.0, 100.0, 50.0, 200.0]);
    let is_realtime = dice.chance(0.04);
    traits.has_realtime |= is_realtime;
    let busy = dice.of(&[3.0, 12.5, 12.5, 40.0]);
    let _ = write!(
        out,
        "[[workload]]\nname = \"h{kind}\"\ncount = {count}\nthreads = {threads}\nrole = \"heavy\"\n\
         weight = {weight}\nresident_mib = 256\nbusy_ns_per_line = {busy}\nstart_ms = {}\nspread_ms = {}\n",
        dice.of(&[0, 0, 100, 1500]),
        dice.of(&[20, 200]),
    );
    if is_realtime {
        out.push_str("realtime = true\n");
    }
    let block = dice.of(&[64, 256, 1024, 4096]);
    let writes = dice.of(&[0.0, 0.0, 0.0, 0.3, 1.0]);
    let access = format!("kind = \"access\"\nblock_kib = {block}\nwrite_ratio = {writes:.1}\n");
    let _ = write!(out, "[[workload.phase]]\n{access}");
    match dice.between(0, 9) {
        0 => {
            traits.is_steady = false;
            let _ = write!(
                out,
                "times = {}\n[[workload.phase]]\nkind = \"sleep\"\nmean_us = {}\nrandom = true\n",
                dice.between(1, 50),
                dice.of(&[500, 5000, 50_000])
            );
        }
        1 => {
            traits.is_steady = false;
            let _ = write!(
                out,
                "for_ms = {}\n[[workload.phase]]\nkind = \"sleep\"\nmean_us = {}\n",
                dice.of(&[300, 2000]),
                dice.of(&[300_000, 2_000_000])
            );
        }
        2 => {
            traits.is_steady = false;
            let _ = write!(
                out,
                "for_ms = {}\n[[workload.phase]]\nkind = \"compute\"\nfor_ms = {}\n",
                dice.of(&[500, 3000]),
                dice.of(&[200, 2000])
            );
        }
        3 => {
            let _ = writeln!(out, "think_us = {}", dice.of(&[20, 200]));
        }
        _ => {}
    }
}

/// Work that does not use the device.
fn beside(dice: &mut Dice, out: &mut String, cpus: u64, traits: &mut Traits) {
    let count = match dice.between(0, 3) {
        0 | 1 => return,
        2 => dice.between(1, cpus.max(2) / 2),
        _ => {
            traits.has_full_cpus = true;
            cpus + dice.between(0, cpus)
        }
    };
    let _ = write!(
        out,
        "[[workload]]\nname = \"work\"\ncount = {count}\nrole = \"beside\"\nweight = {}\n\
         [[workload.phase]]\nkind = \"compute\"\n",
        dice.of(&[100, 100, 300, 25])
    );
}

impl Draft {
    /// The file, with a set-point in bytes per second.
    pub fn at(&self, set_point: f64) -> String {
        format!(
            "{}[control]\nset_point_bytes_per_sec = {set_point:.0}\nsettle_sec = {SETTLE_SEC:.1}\n\
             measure_sec = {MEASURE_SEC:.1}\n{}",
            self.head, self.rest
        )
    }
}
