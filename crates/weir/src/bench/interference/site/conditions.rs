// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands in the way of a clean measurement: facts of the machine that two results are compared by, and
//! what changed between the beginning and the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use weir_linux::Roots;
use weir_report::results::Caveat;

/// Load of others, in CPUs, above which nothing is measured.
pub const OTHERS_MAX_CPUS: f64 = 0.05;
/// What is said where it is not known.
pub const NOT_KNOWN: &str =
    "what others do is not known: proc/stat or proc/self/stat does not say how long CPUs were busy";
/// Steal time above this part of a CPU is a caveat.
const STEAL_RATIO_MAX: f64 = 0.01;
/// `USER_HZ`: the unit of times in /proc is 10 ms on all CPUs that Linux has a stable interface for.
const TICKS_PER_SEC: f64 = 100.0;
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// Switches of Intel's prefetchers (SDM, volume 4, `MSR_MISC_FEATURE_CONTROL`): a bit switches one off.
const MSR_PREFETCH: u64 = 0x1a4;

fn text(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(path)
        .ok()?
        .take(TEXT_BYTES_MAX)
        .read_to_end(&mut text)
        .ok()?;
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}

/// Facts, and caveats that follow from them.
pub struct HostFacts {
    pub facts: BTreeMap<String, String>,
    /// What may make figures wrong.
    pub caveats: Vec<Caveat>,
    pub cpu_model: String,
    /// Whether it is a guest of a host.
    pub is_virtual: bool,
}

impl HostFacts {
    /// Facts of the machine, as far as they concern these CPUs.
    pub fn read(roots: &Roots, cpus: &[u32]) -> HostFacts {
        let proc = |name: &str| text(&roots.proc.join(name));
        let sys = |name: &str| text(&roots.sys.join(name));
        let mut host = HostFacts {
            facts: BTreeMap::new(),
            caveats: Vec::new(),
            cpu_model: String::new(),
            is_virtual: false,
        };
        let cpuinfo = proc("cpuinfo").unwrap_or_default();
        host.cpu_model = field(&cpuinfo, "model name")
            .unwrap_or("unknown CPU")
            .to_owned();
        host.fact("kernel", proc("sys/kernel/osrelease"));
        host.fact("microcode", field(&cpuinfo, "microcode").map(str::to_owned));
        host.fact("smt", sys("devices/system/cpu/smt/control"));
        host.fact(
            "transparent_hugepages",
            sys("kernel/mm/transparent_hugepage/enabled").map(|t| chosen(&t)),
        );
        host.fact(
            "prefetchers",
            Some(prefetchers(&cpuinfo, cpus.first().copied())),
        );
        host.frequency(roots, cpus);
        host.virtual_machine(&cpuinfo);
        host.numa_balancing(proc("sys/kernel/numa_balancing"));
        host.resctrl(proc("mounts").unwrap_or_default());
        host
    }

    fn fact(&mut self, name: &str, value: Option<String>) {
        let value = value.unwrap_or_else(|| "not known: the kernel does not say".into());
        self.facts.insert(name.into(), value);
    }

    fn caveat(&mut self, figure: &str, reason: impl Into<String>) {
        self.caveats.push(Caveat::new(figure, reason));
    }

    fn frequency(&mut self, roots: &Roots, cpus: &[u32]) {
        let all = |name: &str| -> BTreeSet<String> {
            let dirs = cpus.iter().map(|cpu| {
                roots
                    .sys
                    .join(format!("devices/system/cpu/cpu{cpu}/cpufreq"))
            });
            dirs.filter_map(|dir| text(&dir.join(name))).collect()
        };
        let joined = |found: BTreeSet<String>| {
            if found.is_empty() {
                None
            } else {
                Some(found.into_iter().collect::<Vec<_>>().join(", "))
            }
        };
        let governors = all("scaling_governor");
        let moves = governors.iter().any(|name| name != "performance");
        let governor = joined(governors);
        if let (true, Some(name)) = (moves, &governor) {
            let name = name.clone();
            self.caveat(
                "frequency",
                format!("the governor is {name}, so that frequency may move: cpupower frequency-set -g performance"),
            );
        }
        self.fact("governor", governor);
        self.fact("frequency_asked_least_khz", joined(all("scaling_min_freq")));
        self.fact("frequency_asked_most_khz", joined(all("scaling_max_freq")));
    }

    fn virtual_machine(&mut self, cpuinfo: &str) {
        let is_guest = field(cpuinfo, "flags")
            .is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor"));
        self.is_virtual = is_guest;
        self.fact(
            "virtual_machine",
            Some(if is_guest { "yes" } else { "no" }.into()),
        );
        if is_guest {
            self.caveat(
                "virtual machine",
                "other machines on the same host share memory and caches, and cannot be seen from here",
            );
        }
    }

    fn numa_balancing(&mut self, found: Option<String>) {
        if found.as_deref().is_some_and(|value| value != "0") {
            self.caveat(
                "NUMA balancing",
                "it is on and takes faults: sysctl kernel.numa_balancing=0",
            );
        }
        self.fact("numa_balancing", found);
    }

    fn resctrl(&mut self, mounts: String) {
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
            (kind == "resctrl").then(|| place.to_owned())
        });
        let Some(mount) = mount else {
            return self.fact("resctrl_groups", Some("not mounted".into()));
        };
        let entries = std::fs::read_dir(&mount).into_iter().flatten().flatten();
        let is_group = |name: &str| !["info", "mon_data", "mon_groups"].contains(&name);
        let groups = entries
            .filter(|entry| entry.path().is_dir() && is_group(&entry.file_name().to_string_lossy()))
            .count();
        if groups > 0 {
            self.caveat(
                "resctrl",
                format!("{groups} groups share out cache or bandwidth, see {mount}"),
            );
        }
        self.fact("resctrl_groups", Some(groups.to_string()));
    }
}

/// The value of the first `name : value` of /proc/cpuinfo.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The word in brackets of `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inner = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(word, _)| word).to_owned()
}

fn prefetchers(cpuinfo: &str, cpu: Option<u32>) -> String {
    if field(cpuinfo, "vendor_id") != Some("GenuineIntel") {
        return "not known: only Intel's CPUs have a switch that weir knows".into();
    }
    let mut bytes = [0; 8];
    let path = format!("/dev/cpu/{}/msr", cpu.unwrap_or(0));
    let read = File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, MSR_PREFETCH));
    match read {
        Ok(()) => match u64::from_le_bytes(bytes) & 0xf {
            0 => "on".into(),
            off => format!("switched off by MSR 0x1a4: {off:#x}"),
        },
        Err(why) => format!("not known: {path}: {why} (modprobe msr)"),
    }
}

/// What grows with time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostMoment {
    cpu: Option<CpuTicks>,
    throttled: u64,
    moved_pages: u64,
}

/// CPU time, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuTicks {
    /// All CPUs were busy so long.
    busy: u64,
    steal: u64,
    /// This process and those it waited for.
    own: u64,
}

impl HostMoment {
    /// The moment as it is now. Without the CPU time of all and of this process nothing is known of others.
    pub fn read(roots: &Roots) -> HostMoment {
        let proc = |name: &str| text(&roots.proc.join(name)).unwrap_or_default();
        let own = own_ticks(&proc("self/stat"));
        let ticks = cpu_ticks(&proc("stat")).zip(own);
        HostMoment {
            cpu: ticks.map(|((busy, steal), own)| CpuTicks { busy, steal, own }),
            throttled: throttle_count(roots),
            moved_pages: moved_pages(&proc("vmstat")),
        }
    }

    /// CPUs that others kept busy since then; nothing where that is not known.
    pub fn others_cpus(&self, earlier: &HostMoment, seconds: f64) -> Option<f64> {
        let (now, then) = self.cpu.zip(earlier.cpu)?;
        let busy = now.busy.checked_sub(then.busy)?;
        let own = now.own.checked_sub(then.own)?;
        Some(busy.saturating_sub(own) as f64 / TICKS_PER_SEC / seconds.max(1e-3))
    }

    /// What happened since then that may make figures wrong.
    pub fn caveats(&self, earlier: &HostMoment, seconds: f64) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        match self.others_cpus(earlier, seconds) {
            None => caveats.push(Caveat::new("other load", NOT_KNOWN)),
            Some(others) if others > OTHERS_MAX_CPUS => caveats.push(Caveat::new(
                "other load",
                format!("others kept {others:.2} CPUs busy, the kernel's own threads among them"),
            )),
            Some(_) => {}
        }
        let steal = self.cpu.zip(earlier.cpu).map_or(0.0, |(now, then)| {
            now.steal.saturating_sub(then.steal) as f64 / TICKS_PER_SEC / seconds.max(1e-3)
        });
        if steal > STEAL_RATIO_MAX {
            caveats.push(Caveat::new(
                "steal time",
                format!("the host took {:.1} % of a CPU away", steal * 100.0),
            ));
        }
        let throttled = self.throttled.saturating_sub(earlier.throttled);
        if throttled > 0 {
            caveats.push(Caveat::new(
                "thermal throttling",
                format!("{throttled} times: the machine was too hot for its frequency"),
            ));
        }
        let moved = self.moved_pages.saturating_sub(earlier.moved_pages);
        if moved > 0 {
            caveats.push(Caveat::new(
                "moved pages",
                format!("the kernel moved {moved} pages between nodes, of any program"),
            ));
        }
        caveats
    }
}

/// Busy and stolen ticks of all CPUs (proc_stat(5)): user (with guests), nice, system, irq, softirq.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers = line.split_whitespace().map_while(|n| n.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    let mut busy = [0, 1, 2, 5, 6].iter().map(|place| numbers.get(*place));
    let busy = busy.try_fold(0u64, |sum, ticks| Some(sum.saturating_add(*ticks?)))?;
    Some((busy, numbers.get(7).copied().unwrap_or(0)))
}

/// utime, stime, cutime, cstime of `/proc/self/stat`; the name before them may hold anything.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let times = rest.split_whitespace().skip(11).take(4);
    let times: Vec<u64> = times.filter_map(|n| n.parse().ok()).collect();
    (times.len() == 4).then(|| times.into_iter().fold(0, u64::saturating_add))
}

fn throttle_count(roots: &Roots) -> u64 {
    let cpus = std::fs::read_dir(roots.sys.join("devices/system/cpu"))
        .into_iter()
        .flatten()
        .flatten();
    let counts = cpus.filter_map(|cpu| {
        let dir = cpu.path().join("thermal_throttle");
        text(&dir.join("core_throttle_count"))?.parse::<u64>().ok()
    });
    counts.fold(0, u64::saturating_add)
}

/// Pages that NUMA balancing and tiering moved between nodes.
fn moved_pages(vmstat: &str) -> u64 {
    let names = [
        "numa_pages_migrated",
        "pgdemote_kswapd",
        "pgdemote_direct",
        "pgdemote_khugepaged",
    ];
    let lines = vmstat.lines().filter_map(|line| line.split_once(' '));
    let counts = lines
        .filter(|(name, _)| names.contains(name))
        .filter_map(|(_, n)| n.parse::<u64>().ok());
    counts.fold(0, u64::saturating_add)
}

/// Frequencies of CPUs while they worked, in MHz.
#[derive(Clone, Debug, Default)]
pub struct SeenFrequency {
    least: Option<f64>,
    most: Option<f64>,
}

impl SeenFrequency {
    /// Looks at these CPUs now.
    pub fn look(&mut self, roots: &Roots, cpus: &[u32]) {
        let cpuinfo = text(&roots.proc.join("cpuinfo")).unwrap_or_default();
        for mhz in megahertz(&cpuinfo, cpus) {
            self.least = Some(self.least.map_or(mhz, |least| least.min(mhz)));
            self.most = Some(self.most.map_or(mhz, |most| most.max(mhz)));
        }
    }

    /// The fact in words, for people and comparisons.
    pub fn fact(&self) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) => format!("{least:.0} to {most:.0} MHz"),
            _ => "not known: the kernel does not say".into(),
        }
    }
}

fn megahertz(cpuinfo: &str, cpus: &[u32]) -> Vec<f64> {
    let mut cpu = None;
    let mut found = Vec::new();
    for (key, value) in cpuinfo.lines().filter_map(|line| line.split_once(':')) {
        match key.trim() {
            "processor" => cpu = value.trim().parse::<u32>().ok(),
            "cpu MHz" if cpu.is_some_and(|cpu| cpus.contains(&cpu)) => {
                found.extend(value.trim().parse::<f64>().ok().filter(|mhz| *mhz > 0.0));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let roots = Roots::beneath(dir.path());
        (dir, roots)
    }

    #[test]
    fn others_are_all_but_ourselves() {
        let stat = |busy: u64, steal: u64| {
            format!("cpu  {busy} 10 10 99999 50 5 5 {steal} 7 7\ncpu0 1 1 1 1\n")
        };
        let own =
            |ticks: u64| format!("77 (a) b) (c) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 10 3 4 20 0 1");
        let moment = |busy: u64, steal, ticks| {
            let (_dir, roots) = tree(&[
                ("proc/stat", &stat(busy, steal)),
                ("proc/self/stat", &own(ticks)),
            ]);
            HostMoment::read(&roots)
        };
        let (before, after) = (moment(1000, 0, 100), moment(1300, 20, 250));
        let cpu = after.cpu.unwrap();
        assert_eq!((cpu.busy, cpu.own), (1330, 267));
        assert!((after.others_cpus(&before, 10.0).unwrap() - 0.15).abs() < 1e-9);
        let said: Vec<String> = after
            .caveats(&before, 10.0)
            .into_iter()
            .map(|c| c.figure)
            .collect();
        assert_eq!(said, ["other load", "steal time"]);
        assert_eq!(after.caveats(&before, 1000.0), []);
        assert_eq!(
            before.others_cpus(&after, 10.0),
            None,
            "counters that went back"
        );
    }

    #[test]
    fn a_load_that_cannot_be_read_is_not_known() {
        let (_dir, roots) = tree(&[("proc/self/stat", "77 (a) R 1 1 1 0 -1 0 0 0 0 0 1 1 1 1")]);
        let moment = HostMoment::read(&roots);
        assert_eq!(moment.others_cpus(&moment, 1.0), None);
        let said = moment.caveats(&moment, 1.0);
        assert_eq!(said, [Caveat::new("other load", NOT_KNOWN)]);
    }

    #[test]
    fn facts_and_what_follows_from_them() {
        let (dir, mut roots) = tree(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu hypervisor\ncpu MHz\t: 2000.5\nprocessor\t: 1\ncpu MHz\t: 9\n",
            ),
            ("proc/sys/kernel/osrelease", "6.18.0\n"),
            ("proc/sys/kernel/numa_balancing", "1\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "powersave\n",
            ),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
                "3000000\n",
            ),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            ("resctrl/mon_data/x", ""),
            ("resctrl/theirs/tasks", ""),
        ]);
        let mounts = format!("resctrl {}/resctrl resctrl rw 0 0\n", dir.path().display());
        std::fs::write(roots.proc.join("mounts"), mounts).unwrap();
        let host = HostFacts::read(&roots, &[0]);
        let fact = |name: &str| host.facts[name].as_str();
        assert_eq!(
            (host.cpu_model.as_str(), fact("kernel")),
            ("A CPU", "6.18.0")
        );
        assert_eq!(
            (fact("governor"), fact("frequency_asked_most_khz")),
            ("powersave", "3000000")
        );
        assert_eq!(
            (fact("transparent_hugepages"), fact("resctrl_groups")),
            ("madvise", "1")
        );
        assert!(fact("microcode").starts_with("not known"));
        let said: BTreeSet<&str> = host.caveats.iter().map(|c| c.figure.as_str()).collect();
        assert_eq!(
            said,
            ["NUMA balancing", "frequency", "resctrl", "virtual machine"].into()
        );
        let mut seen = SeenFrequency::default();
        assert!(seen.fact().starts_with("not known"));
        seen.look(&roots, &[0]);
        assert_eq!(seen.fact(), "2000 to 2000 MHz");
        // A machine that says nothing has no caveats, and facts that say so.
        roots.proc = dir.path().join("nowhere");
        roots.sys = dir.path().join("nowhere");
        let silent = HostFacts::read(&roots, &[0]);
        assert!(silent.caveats.is_empty() && silent.facts["kernel"].starts_with("not known"));
    }

    #[test]
    fn nonsense_is_no_load() {
        for stat in [
            "",
            "cpu",
            "cpu  x y z",
            "cpu  18446744073709551615 18446744073709551615 1",
        ] {
            assert_eq!(cpu_ticks(stat), None, "{stat:?}");
        }
        assert_eq!(own_ticks("1 (x"), None);
        assert_eq!(
            moved_pages("numa_pages_migrated x\npgdemote_direct 5\nother 7\n"),
            5
        );
        assert!(megahertz("processor : x\ncpu MHz : 5\n", &[0]).is_empty());
    }
}
