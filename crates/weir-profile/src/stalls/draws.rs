// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loads of a run of the model: drawn once, so that two runs differ in what was changed and in nothing
//! else.

use super::core_model::LoadClass;
use weir_core::random::SplitMix;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadDraw {
    pub class: usize,
    /// Instructions since the load before, ÷ their mean.
    pub gap: f64,
    /// Whether it needs the load before: if the dependence is above.
    pub chance: f64,
    /// Its place in a distribution, 0 to 1.
    pub spread: f64,
}

/// Loads of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    pub loads: Vec<LoadDraw>,
}

impl Draws {
    /// As many loads, of classes by their frequency.
    pub fn new(classes: &[LoadClass], loads: usize, seed: u64) -> Draws {
        let mut random = SplitMix::new(seed);
        let all: f64 = classes.iter().map(|class| class.loads).sum();
        let one = |random: &mut SplitMix| {
            let mut at = random.unit() * all;
            let mut class = 0;
            while class + 1 < classes.len() && at >= classes[class].loads {
                at -= classes[class].loads;
                class += 1;
            }
            LoadDraw {
                class,
                gap: 0.5 + random.unit(),
                chance: random.unit(),
                spread: random.unit(),
            }
        };
        Draws {
            loads: (0..loads).map(|_| one(&mut random)).collect(),
        }
    }
}
