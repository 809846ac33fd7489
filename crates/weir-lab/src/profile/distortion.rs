// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a profiler is told wrong: counters that are off, and a core that is not as it is believed.

use clap::Args;
use weir_core::Role;
use weir_core::random::SplitMix;
use weir_core::window::Count;
use weir_profile::WindowFile;
use weir_server_model::Scenario;

/// How far counts and machine are from what the profiler takes them for.
#[derive(Clone, Copy, Debug, Args)]
pub struct Distortion {
    /// Each counter of each subject is off by its own ratio, up to this one: 0.1 is 0.9 to 1.1 times
    #[arg(long, default_value_t = 0.0, value_name = "RATIO", value_parser = between::<0, 1>)]
    pub counters_off: f64,

    /// The cores' windows of instructions are so many times as long as they are believed to be
    #[arg(long, default_value_t = 1.0, value_name = "RATIO", value_parser = between::<0, 8>)]
    pub core_window: f64,
}

/// A number of a range, its lower end excluded where it is no ratio of errors.
fn between<const LOW: u8, const HIGH: u8>(text: &str) -> Result<f64, String> {
    let (low, high) = (f64::from(LOW), f64::from(HIGH));
    match text.parse::<f64>() {
        Ok(ratio) if (low..=high).contains(&ratio) => Ok(ratio),
        _ => Err(format!("a number from {low} to {high} is wanted")),
    }
}

impl Distortion {
    pub fn of_machine(self, scenario: &mut Scenario) {
        let window = f64::from(scenario.machine.cores.window) * self.core_window;
        // Machines have windows of some hundred instructions.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let window = window.round().max(8.0) as u32;
        scenario.machine.cores.window = window;
    }

    /// Changes the counts, in all windows and boxes alike.
    pub fn of_counts(self, file: &mut WindowFile, seed: u64) {
        if self.counters_off == 0.0 {
            return;
        }
        for window in &mut file.windows {
            let workloads = window.workloads.iter_mut();
            let workloads = workloads.map(|one| (one.id.as_str().to_owned(), &mut one.counts));
            let machine = (String::new(), &mut window.machine);
            for (subject, counts) in workloads.chain([machine]) {
                for count in counts {
                    let factor = self.factor(seed, &subject, count.role);
                    scale(count, factor);
                }
            }
        }
    }

    fn factor(self, seed: u64, subject: &str, role: Role) -> f64 {
        let name = format!("{subject} {role}");
        let mut random = SplitMix::new(seed);
        for byte in name.bytes() {
            random = SplitMix::new(random.bits() ^ u64::from(byte));
        }
        1.0 + self.counters_off * (2.0 * random.unit() - 1.0)
    }
}

fn scale(count: &mut Count, factor: f64) {
    if let Ok(value) = &mut count.value {
        *value = weir_core::Nanos::rounded(*value as f64 * factor).0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_off_by_its_own_ratio() {
        let distortion = Distortion {
            counters_off: 0.1,
            core_window: 1.0,
        };
        let roles = ["core.any.any.clock", "tor.drd.cxl-own.inserts"];
        let factors: Vec<f64> = ["a", "b"]
            .into_iter()
            .flat_map(|subject| roles.map(|role| (subject, role)))
            .map(|(subject, role)| distortion.factor(7, subject, role.parse().unwrap()))
            .collect();
        assert!(
            factors.iter().all(|factor| (0.9..=1.1).contains(factor)),
            "{factors:?}"
        );
        for (place, factor) in factors.iter().enumerate() {
            assert!(!factors[..place].contains(factor), "{factors:?}");
        }
        assert!(between::<0, 1>("1.1").is_err() && between::<0, 1>("NaN").is_err());
    }
}
