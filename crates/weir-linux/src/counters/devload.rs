// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How busy devices say they are, by weir's driver: `devload/load` beside the counters, where the device
//! announces it (`kernel/access_counters/devload.c`).

use super::Counters;
use crate::inventory::driver_groups::read_number;
use crate::kernel::clock::now;
use std::path::Path;
use weir_core::seam::observation::{DevLoad, DevLoadReading};
use weir_core::{Missing, Reading};

impl Counters {
    /// Notes where the device that was added last says it, if it does.
    pub(super) fn note_load(&mut self, dir: &Path) {
        let path = dir.join("devload/load");
        if let Some(source) = self.sources.last_mut() {
            source.load = path.exists().then_some(path);
        }
    }

    /// What they say now: a register each, of those that have one.
    pub(crate) fn loads(&self) -> Vec<DevLoadReading> {
        let with_load = self
            .sources
            .iter()
            .filter_map(|s| Some((s.device, s.load.as_ref()?)));
        let seen = with_load.map(|(id, path)| DevLoadReading {
            id,
            load: Reading {
                at: now(),
                value: read_number(path).and_then(|number| {
                    let what = format!("{}: {number} is not 0 to 3", path.display());
                    DevLoad::of(number).ok_or(Missing::Lost(what))
                }),
            },
        });
        seen.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn a_device_with_a_load_says_it_and_others_are_silent() {
        let fake = Fake::new();
        let counters = || Counters::probe(&fake.roots(), &[], None);
        assert_eq!(counters().loads(), []);
        let file = "sys/class/weir_cxl/weir_cxl0/devload/load";
        fake.write(file, "0\n");
        let counters = counters();
        for (text, wanted) in [
            ("0\n", Some(DevLoad::Light)),
            ("1\n", Some(DevLoad::Optimal)),
            ("2\n", Some(DevLoad::Moderate)),
            ("3\n", Some(DevLoad::Severe)),
            ("4\n", None),
            ("18446744073709551616\n", None),
            ("", None),
        ] {
            fake.write(file, text);
            let seen = counters.loads();
            assert_eq!(seen[0].load.ok().copied(), wanted, "{text:?}: {seen:?}");
        }
        fake.remove(file);
        let why = counters.loads()[0].load.value.clone().unwrap_err();
        assert!(why.to_string().contains("devload/load"), "{why}");
    }
}
