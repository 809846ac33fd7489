// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a sched_ext scheduler runs all tasks. If so, the kernel does not enforce `cpu.max` for them: the
//! scheduler would have to (`ops.cgroup_set_bandwidth`), and nothing in sysfs says whether it does. A limit
//! set then could silently do nothing, so there is none, unless the operator says that the scheduler enforces
//! it (`--trust-cpu-max`). In partial mode (only tasks of policy `SCHED_EXT`) `cpu.max` holds for all others.
//!
//! Source: kernel, `Documentation/scheduler/sched-ext.rst`; `/sys/kernel/sched_ext/`.

use crate::kernel::clock::now;
use crate::kernel::files::read_path;
use crate::options::Roots;
use std::path::PathBuf;
use weir_core::Nanos;

const CHECK_EVERY: Nanos = Nanos::from_millis(1000);
/// Longest name of a scheduler (`SCX_OPS_NAME_LEN`, kernel).
const NAME_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Absent,
    Off,
    /// A scheduler runs the tasks that chose it (`SCHED_EXT`).
    Partial(String),
    Full(String),
}

/// Read at most once a second.
pub(crate) struct SchedExt {
    dir: PathBuf,
    checked_at: Option<Nanos>,
    mode: Mode,
    is_trusted: bool,
}

impl SchedExt {
    pub(crate) fn new(roots: &Roots) -> Self {
        let dir = roots.sys.join("kernel/sched_ext");
        SchedExt {
            dir,
            checked_at: None,
            mode: Mode::Absent,
            is_trusted: false,
        }
    }

    /// Whether a scheduler of all tasks is trusted to enforce `cpu.max`.
    pub(crate) fn trusting(mut self, is_trusted: bool) -> Self {
        self.is_trusted = is_trusted;
        self
    }

    /// What runs now, or ran a second ago.
    pub(crate) fn mode(&mut self) -> &Mode {
        let at = now();
        let fresh = |t: Nanos| at.0.saturating_sub(t.0) < CHECK_EVERY.0;
        if !self.checked_at.is_some_and(fresh) {
            self.checked_at = Some(at);
            self.mode = self.probe();
        }
        &self.mode
    }

    pub(crate) fn refusal(&mut self) -> Option<String> {
        let is_trusted = self.is_trusted;
        match self.mode() {
            Mode::Full(name) if !is_trusted => Some(format!(
                "the sched_ext scheduler {name:?} runs all tasks, and then cpu.max is not enforced by the kernel: unload it, \
                 run it in partial mode, or say --trust-cpu-max if it enforces cpu.max itself"
            )),
            _ => None,
        }
    }

    fn probe(&self) -> Mode {
        let text = |name: &str| {
            let bytes = read_path(&self.dir.join(name)).ok()?;
            let end = bytes.len().min(NAME_MAX);
            Some(String::from_utf8_lossy(bytes[..end].trim_ascii()).into_owned())
        };
        match text("state").as_deref() {
            None => Mode::Absent,
            Some("enabled" | "enabling") => {
                let name = text("root/ops").unwrap_or_else(|| "unknown".into());
                // A kernel that cannot say how much is switched switches all.
                let partial = text("switch_all").as_deref() == Some("0");
                if partial {
                    Mode::Partial(name)
                } else {
                    Mode::Full(name)
                }
            }
            Some(_) => Mode::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn only_full_mode_refuses() {
        let fake = Fake::new();
        let mode = || SchedExt::new(&fake.roots()).mode().clone();
        assert_eq!(mode(), Mode::Absent);
        fake.write("sys/kernel/sched_ext/state", "disabled\n");
        assert_eq!(mode(), Mode::Off);
        fake.write("sys/kernel/sched_ext/state", "enabled\n");
        assert_eq!(mode(), Mode::Full("unknown".into()));
        fake.write("sys/kernel/sched_ext/root/ops", "lavd\n");
        fake.write("sys/kernel/sched_ext/switch_all", "0\n");
        assert_eq!(mode(), Mode::Partial("lavd".into()));
        assert_eq!(SchedExt::new(&fake.roots()).refusal(), None);
        fake.write("sys/kernel/sched_ext/switch_all", "1\n");
        let why = SchedExt::new(&fake.roots()).refusal().unwrap();
        assert!(why.contains("\"lavd\""), "{why}");
        assert!(why.contains("--trust-cpu-max"), "{why}");
        let mut trusted = SchedExt::new(&fake.roots()).trusting(true);
        assert_eq!(trusted.refusal(), None);
        assert_eq!(trusted.mode(), &Mode::Full("lavd".into()));
    }

    #[test]
    fn the_answer_is_kept_for_a_second() {
        let fake = Fake::new();
        let mut sched_ext = SchedExt::new(&fake.roots());
        assert_eq!(sched_ext.mode(), &Mode::Absent);
        fake.write("sys/kernel/sched_ext/state", "enabled\n");
        assert_eq!(sched_ext.mode(), &Mode::Absent);
        sched_ext.checked_at = sched_ext.checked_at.map(|t| Nanos(t.0 - CHECK_EVERY.0));
        assert!(matches!(sched_ext.mode(), Mode::Full(_)));
    }
}
