// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cgroups of the commands that are streams: where one can be made, each has its own, so that all that it
//! started can be ended.

use super::{END_GRACE, LOOK};
use crate::bench::cli::BenchInterferenceArgs;
use crate::bench::interference::progress::BenchProgress;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use weir_linux::Roots;

/// A cgroup of its own for a program, removed with this value.
pub struct OwnCgroup(PathBuf);

impl OwnCgroup {
    /// Below weir's own cgroup.
    ///
    /// # Errors
    /// There is no cgroup v2, or it may not be changed.
    pub fn make(roots: &Roots, name: &str) -> Result<OwnCgroup, String> {
        let dir = own_directory(roots)?.join(format!("weir-bench-{}-{name}", std::process::id()));
        match std::fs::create_dir(&dir) {
            Ok(()) => Ok(OwnCgroup(dir)),
            Err(why) => Err(format!("{}: {why}", dir.display())),
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        let begun = Instant::now();
        // The kernel lets processes go a moment after they ended.
        while std::fs::remove_dir(&self.0).is_err() && begun.elapsed() < END_GRACE {
            std::thread::sleep(LOOK);
        }
    }
}

/// Cgroups of the programs, by side.
pub struct ProgramGroups {
    made: [Option<OwnCgroup>; 2],
    why: Option<String>,
}

impl ProgramGroups {
    /// Makes those that are needed. Where none can be made, progress says so.
    pub fn make(
        args: &BenchInterferenceArgs,
        roots: &Roots,
        progress: &BenchProgress,
    ) -> ProgramGroups {
        let mut groups = ProgramGroups {
            made: [None, None],
            why: None,
        };
        let programs = [
            ("victim", &args.victim_run),
            ("background", &args.background_run),
        ];
        for (side, (name, _)) in programs
            .iter()
            .enumerate()
            .filter(|(_, (_, command))| command.is_some())
        {
            match OwnCgroup::make(roots, name) {
                Ok(group) => groups.made[side] = Some(group),
                Err(why) => {
                    progress.say(&format!("the {name} runs in weir's own cgroup: {why}"));
                    groups.why = Some(why);
                }
            }
        }
        groups
    }

    pub fn paths(&self) -> [Option<PathBuf>; 2] {
        [0, 1].map(|side| {
            self.made[side]
                .as_ref()
                .map(|group| group.path().to_owned())
        })
    }

    /// Says whether programs have cgroups of their own.
    pub fn facts(&mut self, facts: &mut BTreeMap<String, String>) {
        if let Some(why) = &self.why {
            facts.insert("program_cgroup".into(), format!("weir's own: {why}"));
        } else if self.made.iter().any(Option::is_some) {
            facts.insert("program_cgroup".into(), "of its own".into());
        }
    }
}

/// The directory of this process's cgroup of version 2.
fn own_directory(roots: &Roots) -> Result<PathBuf, String> {
    let read = |name: &str| {
        let path = roots.proc.join("self").join(name);
        std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
    };
    let mounts = read("mountinfo")?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        (after.split(' ').next() == Some("cgroup2")).then(|| before.split(' ').nth(4))?
    });
    let mount = mount.ok_or("cgroup v2 is not mounted")?;
    let cgroups = read("cgroup")?;
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.ok_or("this process is in no cgroup of version 2")?;
    Ok(Path::new(mount).join(own.trim_start_matches('/')))
}
