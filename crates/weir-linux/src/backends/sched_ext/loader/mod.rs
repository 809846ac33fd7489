// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler in the kernel: loaded, fed and taken out. It is there as long as [`Loaded`] lives;
//! however this process ends, the kernel then takes it out and runs all tasks itself.

mod kernel_enums;

use super::intf::{
    self, DeviceCfg, DeviceCtx, DeviceSample, EnqueueStats, ExitInfo, Heartbeat, SchedStats,
    Settings, WorkloadCfg, WorkloadCtx,
};
use crate::inventory::sched_ext_state::{Mode, SchedExt};
use crate::kernel::bpf::{self, BpfValue};
use crate::kernel::privilege::next_move;
use crate::kernel::skeletons::sched::{OpenSchedMaps, SchedSkel, SchedSkelBuilder};
use crate::options::Roots;
#[cfg(feature = "thesis")]
use crate::options::ThesisVariant;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, PrintLevel};
use std::sync::Mutex;

/// The first kernel that gives tasks of `SCHED_EXT` time although ordinary tasks could use all of it.
const KERNEL: (u32, u32) = (7, 0);

/// Why the scheduler is not in the kernel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScxError {
    #[error(
        "Linux {0} is too old for weir's scheduler: it needs 7.0, the first that gives time to \
         SCHED_EXT tasks beside busy ordinary ones; use --backend cpu-max"
    )]
    Old(String),
    #[error(
        "this kernel has no sched_ext: it is built without CONFIG_SCHED_CLASS_EXT; use --backend cpu-max"
    )]
    Absent,
    #[error("the sched_ext scheduler {0:?} is loaded: unload it, or use --backend cpu-max")]
    Taken(String),
    #[error(
        "no type information of the kernel under {0}: use a kernel with CONFIG_DEBUG_INFO_BTF, or \
         --backend cpu-max"
    )]
    NoTypes(String),
    #[error(
        "this kernel has another value for {0} ({2:?}) than weir's scheduler was built for ({1}): use --backend cpu-max, \
         and please report this"
    )]
    Number(&'static str, u64, Option<u64>),
    #[error("this machine has {0} CPUs, weir's scheduler can do with {max}; use --backend cpu-max", max = intf::MAX_CPUS)]
    TooManyCpus(u64),
    #[error("the kernel did not take weir's scheduler ({0}){said}: {help}; or use --backend cpu-max", said = said(.1), help = help(.0))]
    NotTaken(libbpf_rs::Error, String),
    #[error("weir's scheduler does not take its settings: {0}")]
    Map(libbpf_rs::Error),
}

fn help(answer: &libbpf_rs::Error) -> String {
    match answer.kind() {
        ErrorKind::PermissionDenied => next_move(&Roots::default()).to_string(),
        _ => "please report this".into(),
    }
}

fn said(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!(", it said: {words}"),
    }
}

/// The last messages of libbpf: its warnings hold the reasons of the kernel's verifier.
static SAID: Mutex<String> = Mutex::new(String::new());
const SAID_MAX: usize = 32 << 10;

fn hear(_: PrintLevel, words: String) {
    let Ok(mut said) = SAID.lock() else { return };
    if said.len() + words.len() <= SAID_MAX {
        said.push_str(&words);
    }
}

fn last_words() -> String {
    let said = SAID.lock().map(|said| said.clone()).unwrap_or_default();
    tracing::debug!(said, "libbpf");
    last_lines(&said)
}

fn last_lines(said: &str) -> String {
    // A skeleton adds that it was not loaded, after the reason.
    let is_filler = |l: &str| l.contains("-- END") || l.contains("failed to load BPF skeleton");
    let telling = |l: &&str| !l.trim().is_empty() && !is_filler(l) && !l.starts_with("processed");
    let lines: Vec<&str> = said.lines().filter(telling).map(str::trim).collect();
    lines
        .get(lines.len().saturating_sub(3)..)
        .unwrap_or_default()
        .join("; ")
}

/// Whether it could be loaded here, as far as can be said without trying.
pub(crate) fn refusal(roots: &Roots) -> Option<ScxError> {
    match SchedExt::new(roots).mode() {
        Mode::Absent => return Some(ScxError::Absent),
        Mode::Partial(name) | Mode::Full(name) => return Some(ScxError::Taken(name.clone())),
        Mode::Off => {}
    }
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    if is_old(&release) {
        return Some(ScxError::Old(release));
    }
    let types = roots.sys.join("kernel/btf/vmlinux");
    (!types.exists()).then(|| ScxError::NoTypes(types.display().to_string()))
}

fn is_old(release: &str) -> bool {
    let mut numbers = release
        .split(['.', '-', '+'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < KERNEL
}

pub(crate) struct Loaded {
    // The order matters: the link first, so that the scheduler leaves before its maps.
    link: Option<Link>,
    /// What tells the scheduler where a task is preempted.
    sched_entry: Option<Link>,
    skel: SchedSkel<'static>,
    rule: Rule,
}

impl Loaded {
    /// Loads it; the kernel's verifier checks it here. It schedules no task before [`Loaded::start`].
    ///
    /// The numbers of the kernel's enumerations are compared with those that the program was built with,
    /// before anything is loaded: a kernel with other ones would take the program and do something else.
    pub(crate) fn new(settings: Settings, rule: Rule) -> Result<Self, ScxError> {
        if let Ok(mut said) = SAID.lock() {
            said.clear();
        }
        libbpf_rs::set_print(Some((PrintLevel::Warn, hear)));
        let not_taken = |e| ScxError::NotTaken(e, last_words());
        let cpus = libbpf_rs::num_possible_cpus().map_err(not_taken)? as u64;
        if cpus > intf::MAX_CPUS {
            return Err(ScxError::TooManyCpus(cpus));
        }
        let types = libbpf_rs::btf::Btf::from_vmlinux().map_err(not_taken)?;
        if let Some((name, ours, theirs)) = kernel_enums::difference(&types) {
            return Err(ScxError::Number(name, ours, theirs));
        }
        let mut opened = bpf::open::<SchedSkelBuilder>().map_err(not_taken)?;
        choose(&mut opened.maps, rule).map_err(not_taken)?;
        let skel = opened.load().map_err(not_taken)?;
        let set = Settings {
            cpu_count: cpus,
            queue_count: if rule == Rule::Full {
                possible_nodes()
            } else {
                1
            },
            ..settings
        };
        put(&skel.maps.sched_settings, 0, &set)?;
        Ok(Loaded {
            link: None,
            sched_entry: None,
            skel,
            rule,
        })
    }

    /// From here on it schedules. No task is limited by that; false if it did so before.
    pub(crate) fn start(&mut self) -> Result<bool, ScxError> {
        if self.link.is_some() {
            return Ok(false);
        }
        let not_taken = |e| ScxError::NotTaken(e, last_words());
        let entry = self.skel.progs.weir_sched_entry.attach();
        self.sched_entry = Some(entry.map_err(not_taken)?);
        let maps = &mut self.skel.maps;
        let ops = match self.rule {
            Rule::Partial => &mut maps.weir_partial,
            Rule::Full => &mut maps.weir_full,
            #[cfg(feature = "thesis")]
            Rule::Thesis(_) => &mut maps.weir_thesis,
        };
        self.link = Some(ops.attach_struct_ops().map_err(not_taken)?);
        Ok(true)
    }

    pub(crate) fn set_beat(&self, beat: Heartbeat) -> Result<(), ScxError> {
        put(&self.skel.maps.heartbeat, 0, &beat)
    }

    pub(crate) fn set_rate(&self, slot: u32, rate: WorkloadCfg) -> Result<(), ScxError> {
        put(&self.skel.maps.workload_cfgs, slot, &rate)
    }

    pub(crate) fn set_device(&self, index: u32, device: &DeviceCfg) -> Result<(), ScxError> {
        put(&self.skel.maps.device_cfgs, index, device)
    }

    pub(crate) fn set_seen(&self, index: u32, seen: DeviceSample) -> Result<(), ScxError> {
        put(&self.skel.maps.device_samples, index, &seen)
    }

    /// Clears the count of the last workload in this slot. Only while the slot limits no workload.
    pub(crate) fn clear_count(&self, slot: u32) -> Result<(), ScxError> {
        put(&self.skel.maps.workload_ctxs, slot, &WorkloadCtx::default())
    }

    /// Sets the slot of a cgroup's tasks (0: none), and their share of the CPUs (0: each task counts for
    /// itself).
    pub(crate) fn own(&self, cgroup: u64, slot: u32, share: u32) -> Result<(), ScxError> {
        let owners = &self.skel.maps.cgroup_to_workload;
        let value = (u64::from(slot) | u64::from(share) << 8).to_ne_bytes();
        if slot == 0 && share == 0 {
            // Not there is as good.
            let _ = owners.delete(&cgroup.to_ne_bytes());
            return Ok(());
        }
        let done = owners.update(&cgroup.to_ne_bytes(), &value, MapFlags::ANY);
        done.map_err(ScxError::Map)
    }

    pub(crate) fn set_share(&self, index: u32, weight: u64) -> Result<(), ScxError> {
        put(&self.skel.maps.cgroup_hweights, index, &weight)
    }

    pub(crate) fn count(&self, slot: u32) -> Option<WorkloadCtx> {
        get(&self.skel.maps.workload_ctxs, slot)
    }

    pub(crate) fn meter(&self, device: u32) -> Option<DeviceCtx> {
        get(&self.skel.maps.device_ctxs, device)
    }

    pub(crate) fn life(&self) -> Option<SchedStats> {
        get(&self.skel.maps.sched_stats, 0)
    }

    /// What queueing costs, by CPU.
    pub(crate) fn costs(&self) -> Vec<EnqueueStats> {
        let costs = &self.skel.maps.enqueue_stats;
        let found = costs.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let rows = found.ok().flatten().unwrap_or_default();
        rows.iter()
            .map(|row| EnqueueStats::from_bytes(row))
            .collect()
    }

    /// Why the kernel threw it out, if it did.
    pub(crate) fn end(&self) -> Option<ExitInfo> {
        get(&self.skel.maps.exit_info, 0).and_then(|info| ExitInfo::of(&info))
    }
}

/// The tasks that the scheduler has, and the rule by which it schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Tasks of limited workloads.
    Partial,
    Full,
    /// All ordinary tasks, as the thesis does.
    #[cfg(feature = "thesis")]
    Thesis(ThesisVariant),
}

impl Rule {
    /// Whether all ordinary tasks are the scheduler's.
    pub(crate) fn takes_all(self) -> bool {
        self != Rule::Partial
    }

    /// The tasks that the scheduler has, in words.
    pub(crate) fn scheduled_tasks(self) -> &'static str {
        match self {
            Rule::Partial => "limited workloads only",
            Rule::Full => "all ordinary tasks: cpu.max is not enforced on any cgroup meanwhile",
            #[cfg(feature = "thesis")]
            Rule::Thesis(_) => {
                "all ordinary tasks, by a rule of the thesis: it does not hold the set-point"
            }
        }
    }

    /// `full_mode` and `thesis_variant` of `bpf/sched/main.bpf.c`.
    fn words(self) -> [u64; 2] {
        match self {
            Rule::Partial => [0, 0],
            Rule::Full => [1, 0],
            #[cfg(feature = "thesis")]
            Rule::Thesis(ThesisVariant::RoundRobin) => [0, 1],
            #[cfg(feature = "thesis")]
            Rule::Thesis(ThesisVariant::Vtime) => [0, 2],
            #[cfg(feature = "thesis")]
            Rule::Thesis(ThesisVariant::ThrottleQueue) => [0, 3],
        }
    }
}

/// Only the operations of one rule are made, and with them only their programs.
fn choose(maps: &mut OpenSchedMaps<'_>, rule: Rule) -> Result<(), libbpf_rs::Error> {
    maps.weir_partial.set_autocreate(rule == Rule::Partial)?;
    maps.weir_full.set_autocreate(rule == Rule::Full)?;
    let is_thesis = !matches!(rule, Rule::Partial | Rule::Full);
    maps.weir_thesis.set_autocreate(is_thesis)?;
    if let Some(set) = &mut maps.rodata_data {
        [set.full_mode, set.thesis_variant] = rule.words();
    }
    Ok(())
}

/// Memory nodes that can exist, as many as have a queue.
fn possible_nodes() -> u64 {
    let text = std::fs::read_to_string("/sys/devices/system/node/possible").unwrap_or_default();
    let last = text
        .trim()
        .rsplit(['-', ','])
        .next()
        .and_then(|n| n.parse::<u64>().ok());
    (last.unwrap_or(0) + 1).min(intf::MAX_QUEUES)
}

fn put(map: &impl MapCore, key: u32, value: &impl BpfValue) -> Result<(), ScxError> {
    map.update(&key.to_ne_bytes(), value.as_bytes(), MapFlags::ANY)
        .map_err(ScxError::Map)
}

fn get<T: BpfValue>(map: &impl MapCore, key: u32) -> Option<T> {
    let found = map.lookup(&key.to_ne_bytes(), MapFlags::ANY);
    found.ok().flatten().map(|bytes| T::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn releases_are_compared_by_number() {
        for old in ["6.12.3-amd64", "6.99", "", "weird"] {
            assert!(is_old(old), "{old}");
        }
        for new in ["7.0.0", "7.2.12+deb14-cloud-amd64", "10.0", "7.0-rc1"] {
            assert!(!is_old(new), "{new}");
        }
    }

    #[test]
    fn what_stands_in_the_way_is_said() {
        let fake = Fake::new();
        let why = |fake: &Fake| {
            refusal(&fake.roots())
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        assert!(why(&fake).contains("CONFIG_SCHED_CLASS_EXT"));
        fake.write("sys/kernel/sched_ext/state", "enabled\n");
        fake.write("sys/kernel/sched_ext/root/ops", "lavd\n");
        assert!(why(&fake).contains("\"lavd\""));
        fake.write("sys/kernel/sched_ext/state", "disabled\n");
        let text = why(&fake);
        assert!(
            text.contains("too old") || text.contains("kernel/btf"),
            "{text}"
        );
    }

    #[test]
    fn the_reason_is_in_the_last_lines_that_say_something() {
        let said = "libbpf: prog 'weir_init': BPF program load failed: -EINVAL\n\
            R1 invalid mem access\nprocessed 12 insns\n-- END PROG LOAD LOG --\n\
            libbpf: failed to load object 'sched_bpf'\n\
            libbpf: failed to load BPF skeleton 'sched_bpf': -EINVAL\n";
        let last = "libbpf: prog 'weir_init': BPF program load failed: -EINVAL; R1 invalid mem access; \
            libbpf: failed to load object 'sched_bpf'";
        assert_eq!(last_lines(said), last);
        assert_eq!(last_lines("\n \n"), "");
    }

    #[test]
    fn only_the_operations_of_one_rule_are_made() {
        for (rule, made, words) in [
            (Rule::Partial, [true, false, false], [0, 0]),
            (Rule::Full, [false, true, false], [1, 0]),
            (
                Rule::Thesis(ThesisVariant::Vtime),
                [false, false, true],
                [0, 2],
            ),
        ] {
            let mut opened = bpf::open::<SchedSkelBuilder>().unwrap();
            choose(&mut opened.maps, rule).unwrap();
            let maps = &opened.maps;
            let ops = [&maps.weir_partial, &maps.weir_full, &maps.weir_thesis];
            assert_eq!(ops.map(|map| map.autocreate()), made, "{rule:?}");
            let set = maps.rodata_data.as_ref().unwrap();
            assert_eq!([set.full_mode, set.thesis_variant], words, "{rule:?}");
        }
    }

    /// Where sched_ext is lacking, loading must fail with words, and change nothing.
    #[test]
    fn a_kernel_that_cannot_says_so() {
        if std::path::Path::new("/sys/kernel/sched_ext").exists() {
            return;
        }
        let error = Loaded::new(Settings::default(), Rule::Partial)
            .err()
            .map(|e| e.to_string());
        let text = error.unwrap_or_default();
        assert!(text.contains("--backend cpu-max"), "{text}");
    }
}
