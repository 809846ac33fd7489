// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPUs that go offline and come back while weir runs: no workload can use more than are online. Where their
//! list cannot be read, the last number holds, and that stands among the skips.

use super::LinuxPlatform;
use crate::inventory::numa::online_count;
use weir_core::{Missing, Nanos};

/// How often the list is read.
pub(super) const CPUS_EVERY: Nanos = Nanos::from_millis(1000);

const CPUS: &str = "CPUs";

impl LinuxPlatform {
    /// Takes over how many CPUs are online, if the next reading is due.
    pub(super) fn follow_cpus(&mut self, at: Nanos) {
        if !self.cpus.is_due(at) {
            return;
        }
        let before = self.description.cpu_count;
        let found = online_count(&self.roots).map_err(|why| {
            let reason = why.reason();
            Missing::Lost(format!(
                "{reason}; {before} CPUs are taken to be online, as before"
            ))
        });
        let count = *found.as_ref().unwrap_or(&before);
        self.cpus.was_read(at, count != before);
        if count != before {
            let sentence = format!("{count} CPUs are online now, of {before} before");
            self.hotplug.say(CPUS, sentence);
            self.description.cpu_count = count;
        }
        match &found {
            Ok(_) => self.hotplug.settle(|thing| thing == CPUS),
            Err(why) => self.hotplug.stand(CPUS, why.clone()),
        }
        let mut facts = self.description.facts.iter_mut();
        if let Some(fact) = facts.find(|fact| fact.name == super::description::CPUS_ONLINE) {
            fact.value = found.map(|count| count.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::options::By;
    use weir_core::Platform;

    const ONLINE: &str = "sys/devices/system/cpu/online";

    fn observed(platform: &mut LinuxPlatform) -> Vec<String> {
        platform.cpus.hurry();
        let seen = platform.observe().unwrap();
        let skip =
            |skip: &weir_core::seam::observation::Skipped| format!("{}: {}", skip.what, skip.why);
        seen.skipped.iter().map(skip).collect()
    }

    fn fact(platform: &LinuxPlatform) -> Result<String, Missing> {
        let mut facts = platform.describe().facts.iter();
        let fact = facts.find(|fact| fact.name == "cpu.online").unwrap();
        fact.value.clone()
    }

    #[test]
    fn cpus_go_offline_and_come_back() {
        let fake = Fake::new();
        let mut platform = LinuxPlatform::open_inline(fake.options(By::Cgroup)).unwrap();
        for (list, count) in [("0-7\n", 8), ("0,2,4,6\n", 4), ("0\n", 1), ("0-1\n", 2)] {
            fake.write(ONLINE, list);
            assert_eq!(observed(&mut platform), [""; 0]);
            assert_eq!(platform.describe().cpu_count, count);
            assert_eq!(fact(&platform), Ok(count.to_string()));
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_leaves_the_last_number_and_is_told() {
        let fake = Fake::new();
        let mut platform = LinuxPlatform::open_inline(fake.options(By::Cgroup)).unwrap();
        fake.write(ONLINE, "0-6\n");
        observed(&mut platform);
        for unread in [Some(""), Some("\n"), Some("0-zwei\n"), Some("7-0\n"), None] {
            match unread {
                Some(text) => fake.write(ONLINE, text),
                None => fake.remove(ONLINE),
            }
            // The same holds where the machine is probed anew.
            platform.hotplug.hurry();
            fake.write("sys/devices/system/node/has_memory", "0-1\n");
            let told = observed(&mut platform);
            assert_eq!(told.len(), 1, "{unread:?}: {told:?}");
            assert!(
                told[0].contains("7 CPUs are taken to be online"),
                "{told:?}"
            );
            assert_eq!(platform.describe().cpu_count, 7, "{unread:?}");
            assert!(fact(&platform).is_err(), "{unread:?}");
        }
        fake.write(ONLINE, "0-3\n");
        assert_eq!(observed(&mut platform), [""; 0]);
        assert_eq!(platform.describe().cpu_count, 4);
    }
}
