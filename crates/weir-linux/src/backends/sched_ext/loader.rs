// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler in the kernel: loaded, fed and taken out. It is there as long as [`Loaded`] lives;
//! however this process ends, the kernel then takes it out and runs all tasks itself.

use super::intf::{
    self, DeviceCtx, EnqueueStats, ExitInfo, Heartbeat, SchedStats, Settings, WorkloadCfg,
    WorkloadCtx,
};
use super::kernel_enums;
use crate::inventory::sched_ext_state::{Mode, SchedExt};
use crate::options::{Roots, ThesisVariant};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel};
use std::sync::Mutex;

/// The compiled scheduler.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sched.bpf.o"));
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
    #[error("the kernel did not take weir's scheduler ({0}){said}: run weir as root with CAP_BPF and \
             CAP_SYS_ADMIN; if it is, please report this, and use --backend cpu-max", said = said(.1))]
    NotTaken(libbpf_rs::Error, String),
    #[error("weir's scheduler does not take its settings: {0}")]
    Map(libbpf_rs::Error),
}

fn said(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!(", it said: {words}"),
    }
}

/// What libbpf said lately: its warnings hold the reasons of the kernel's verifier.
static SAID: Mutex<String> = Mutex::new(String::new());
const SAID_MAX: usize = 32 << 10;

fn hear(_: PrintLevel, words: String) {
    let Ok(mut said) = SAID.lock() else { return };
    if said.len() + words.len() <= SAID_MAX {
        said.push_str(&words);
    }
}

/// The last lines that say something.
fn last_words() -> String {
    let said = SAID.lock().map(|said| said.clone()).unwrap_or_default();
    tracing::debug!(said, "libbpf");
    let telling =
        |l: &&str| !l.trim().is_empty() && !l.contains("-- END") && !l.starts_with("processed");
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

/// The scheduler, in the kernel.
pub(crate) struct Loaded {
    // The order matters: the link first, so that the scheduler leaves before its maps.
    link: Option<Link>,
    beat: MapHandle,
    rates: MapHandle,
    devices: MapHandle,
    owners: MapHandle,
    shares: MapHandle,
    counts: MapHandle,
    seen: MapHandle,
    meters: MapHandle,
    life: MapHandle,
    costs: MapHandle,
    end: MapHandle,
    object: Object,
    rule: Rule,
}

impl Loaded {
    /// Loads it; the kernel's verifier checks it here. It schedules no task before [`Loaded::start`].
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
        let object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .and_then(|opened| choose(opened, rule))
            .and_then(libbpf_rs::OpenObject::load)
            .map_err(not_taken)?;
        let map = |name: &str| -> Result<MapHandle, ScxError> {
            let found = object.maps().find(|m| m.name() == name);
            let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
            let found = found.ok_or_else(missing).map_err(ScxError::Map)?;
            MapHandle::try_from(&found).map_err(ScxError::Map)
        };
        let set = Settings {
            cpu_count: cpus,
            queue_count: if rule == Rule::Full {
                possible_nodes()
            } else {
                1
            },
            ..settings
        };
        put(&map("sched_settings")?, 0, &set.to_bytes())?;
        let (beat, rates, devices) = (
            map("heartbeat")?,
            map("workload_cfgs")?,
            map("device_cfgs")?,
        );
        let (owners, counts, meters) = (
            map("cgroup_to_workload")?,
            map("workload_ctxs")?,
            map("device_ctxs")?,
        );
        let (shares, seen) = (map("cgroup_hweights")?, map("device_samples")?);
        let (life, costs, end) = (
            map("sched_stats")?,
            map("enqueue_stats")?,
            map("exit_info")?,
        );
        Ok(Loaded {
            link: None,
            beat,
            rates,
            devices,
            owners,
            shares,
            counts,
            seen,
            meters,
            life,
            costs,
            end,
            object,
            rule,
        })
    }

    /// From here on it schedules. No task is limited by that; false if it did so before.
    pub(crate) fn start(&mut self) -> Result<bool, ScxError> {
        if self.link.is_some() {
            return Ok(false);
        }
        let not_taken = |e| ScxError::NotTaken(e, last_words());
        let mut maps = self.object.maps_mut();
        let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
        let ops = maps.find(|m| m.name() == self.rule.ops());
        let mut ops = ops.ok_or_else(missing).map_err(ScxError::Map)?;
        self.link = Some(ops.attach_struct_ops().map_err(not_taken)?);
        Ok(true)
    }

    pub(crate) fn set_beat(&self, beat: Heartbeat) -> Result<(), ScxError> {
        put(&self.beat, 0, &beat.to_bytes())
    }

    pub(crate) fn set_rate(&self, slot: u32, rate: WorkloadCfg) -> Result<(), ScxError> {
        put(&self.rates, slot, &rate.to_bytes())
    }

    pub(crate) fn set_device(&self, index: u32, device: &intf::DeviceCfg) -> Result<(), ScxError> {
        put(&self.devices, index, &device.to_bytes())
    }

    pub(crate) fn set_seen(&self, index: u32, seen: intf::DeviceSample) -> Result<(), ScxError> {
        put(&self.seen, index, &seen.to_bytes())
    }

    /// Clears the count of the last workload in this slot. Only while the slot limits no workload.
    pub(crate) fn clear_count(&self, slot: u32) -> Result<(), ScxError> {
        put(&self.counts, slot, &WorkloadCtx::default().to_bytes())
    }

    /// Sets the slot of a cgroup's tasks (0: none), and their share of the CPUs (0: each task counts for
    /// itself).
    pub(crate) fn own(&self, cgroup: u64, slot: u32, share: u32) -> Result<(), ScxError> {
        let value = (u64::from(slot) | u64::from(share) << 8).to_ne_bytes();
        if slot == 0 && share == 0 {
            // Not there is as good.
            let _ = self.owners.delete(&cgroup.to_ne_bytes());
            return Ok(());
        }
        let done = self
            .owners
            .update(&cgroup.to_ne_bytes(), &value, MapFlags::ANY);
        done.map_err(ScxError::Map)
    }

    pub(crate) fn set_share(&self, index: u32, weight: u64) -> Result<(), ScxError> {
        put(&self.shares, index, &weight.to_ne_bytes())
    }

    pub(crate) fn count(&self, slot: u32) -> Option<WorkloadCtx> {
        get(&self.counts, slot).map(|b| WorkloadCtx::from_bytes(&b))
    }

    pub(crate) fn meter(&self, device: u32) -> Option<DeviceCtx> {
        get(&self.meters, device).map(|b| DeviceCtx::from_bytes(&b))
    }

    pub(crate) fn life(&self) -> Option<SchedStats> {
        get(&self.life, 0).map(|b| SchedStats::from_bytes(&b))
    }

    /// What queueing costs, by CPU.
    pub(crate) fn costs(&self) -> Vec<EnqueueStats> {
        let found = self
            .costs
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let rows = found.ok().flatten().unwrap_or_default();
        rows.iter()
            .map(|row| EnqueueStats::from_bytes(row))
            .collect()
    }

    /// Why the kernel threw it out, if it did.
    pub(crate) fn end(&self) -> Option<ExitInfo> {
        get(&self.end, 0).and_then(|b| ExitInfo::from_bytes(&b))
    }
}

/// Which tasks are the scheduler's, and by what rule it schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Tasks of limited workloads.
    Partial,
    /// All ordinary tasks.
    Full,
    /// All ordinary tasks, as the thesis does.
    Thesis(ThesisVariant),
}

impl Rule {
    /// All there are: the name of their operations.
    const OPS: [&str; 3] = ["weir_partial", "weir_full", "weir_thesis"];

    fn ops(self) -> &'static str {
        match self {
            Rule::Partial => Self::OPS[0],
            Rule::Full => Self::OPS[1],
            Rule::Thesis(_) => Self::OPS[2],
        }
    }

    /// Whether all ordinary tasks are the scheduler's.
    pub(crate) fn takes_all(self) -> bool {
        self != Rule::Partial
    }

    /// Which tasks the scheduler has, in words.
    pub(crate) fn scheduled_tasks(self) -> &'static str {
        match self {
            Rule::Partial => "limited workloads only",
            Rule::Full => "all ordinary tasks: cpu.max is not enforced on any cgroup meanwhile",
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
            Rule::Thesis(ThesisVariant::RoundRobin) => [0, 1],
            Rule::Thesis(ThesisVariant::Vtime) => [0, 2],
            Rule::Thesis(ThesisVariant::ThrottleQueue) => [0, 3],
        }
    }
}

/// Only the operations of one rule are made, and with them only their programs.
fn choose(
    mut opened: libbpf_rs::OpenObject,
    rule: Rule,
) -> Result<libbpf_rs::OpenObject, libbpf_rs::Error> {
    for mut map in opened.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if Rule::OPS.contains(&name.as_str()) && name != rule.ops() {
            map.set_autocreate(false)?;
        }
        if name.ends_with(".rodata")
            && let Some(first) = map
                .initial_value_mut()
                .and_then(|v| v.first_chunk_mut::<16>())
        {
            let [is_full, thesis] = rule.words().map(u64::to_ne_bytes);
            first[..8].copy_from_slice(&is_full);
            first[8..].copy_from_slice(&thesis);
        }
    }
    Ok(opened)
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

fn put(map: &MapHandle, key: u32, value: &[u8]) -> Result<(), ScxError> {
    map.update(&key.to_ne_bytes(), value, MapFlags::ANY)
        .map_err(ScxError::Map)
}

fn get(map: &MapHandle, key: u32) -> Option<Vec<u8>> {
    map.lookup(&key.to_ne_bytes(), MapFlags::ANY).ok().flatten()
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
