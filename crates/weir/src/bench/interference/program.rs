// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of the user as streams: bound and pinned as weir's own threads, in a cgroup of their own where
//! one can be made, and ended with all that they started.

use super::super::cli::BenchInterferenceArgs;
use super::progress::BenchProgress;
use crate::output::text::harmless;
use anyhow::{Context, Result, bail};
use regex::Regex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_linux::Roots;

/// Of the output, its end is kept.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// A victim that runs longer is ended.
const RUN_MAX: Duration = Duration::from_secs(600);
/// What a program has to end by itself.
const END_GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
/// The shell goes to its cgroup, where there is one, before it becomes the command: no part of it runs elsewhere.
/// weir holds the other end of its input. Once that is closed, also by a SIGKILL of weir, what reads it ends the
/// process group. The reader has no parent in the group: the command has no child that it did not start.
const BEGIN: &str = r#"
[ -z "$1" ] || echo $$ > "$1/cgroup.procs" || exit
exec 3<&0 </dev/null
( (read -r _ <&3; kill -s KILL 0) >/dev/null 2>&1 & )
exec /bin/sh -c "$2" 3<&-
"#;
/// Of the output, in an error.
const TAIL_CHARS: usize = 300;

/// A command, and where it runs.
#[derive(Clone, Debug)]
pub struct ProgramSpec {
    /// For the shell.
    pub command: String,
    /// CPUs that it may use.
    pub cpus: Vec<u32>,
    /// Node that its memory is bound to.
    pub node: u32,
    /// Its cgroup; nothing where none can be made.
    pub cgroup: Option<PathBuf>,
}

/// A command that runs. It ends with this value, and all that it started with it.
pub struct RunningProgram {
    child: Child,
    command: String,
    group: Option<Pid>,
    cgroup: Option<PathBuf>,
    output: Arc<Mutex<VecDeque<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl ProgramSpec {
    /// Starts it.
    ///
    /// # Errors
    /// Its CPUs or its node are refused, or there is no shell.
    pub fn start(&self) -> Result<RunningProgram> {
        let mut command = Command::new("/bin/sh");
        let cgroup = self.cgroup.as_deref().unwrap_or(Path::new(""));
        command.args(["-c", BEGIN, "sh"]).arg(cgroup);
        command
            .arg(&self.command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.process_group(0);
        // CPUs and memory policy are inherited from the thread that starts it.
        let started = std::thread::scope(|scope| {
            let start = || -> Result<Child> {
                weir_bench::cpu::pin_to(&self.cpus)?;
                weir_linux::bind_self(self.node)?;
                command.spawn().context("cannot start /bin/sh")
            };
            scope.spawn(start).join()
        });
        let child = started.unwrap_or_else(|_| bail!("the thread that starts it panicked"));
        let mut child = child.with_context(|| format!("{:?}", self.command))?;
        let output = Arc::new(Mutex::new(VecDeque::new()));
        let mut readers = Vec::new();
        let pipes = [
            child
                .stdout
                .take()
                .map(|p| Box::new(p) as Box<dyn Read + Send>),
            child
                .stderr
                .take()
                .map(|p| Box::new(p) as Box<dyn Read + Send>),
        ];
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let mut running = RunningProgram {
            child,
            command: self.command.clone(),
            group,
            cgroup: self.cgroup.clone(),
            output: Arc::clone(&output),
            readers: Vec::new(),
        };
        for pipe in pipes.into_iter().flatten() {
            let output = Arc::clone(&output);
            let reader = std::thread::Builder::new().name("weir-output".into());
            readers.push(
                reader
                    .spawn(move || keep_end(pipe, &output))
                    .context("cannot start a thread")?,
            );
        }
        running.readers = readers;
        Ok(running)
    }
}

/// Reads all of a pipe, and keeps its end.
fn keep_end(mut pipe: Box<dyn Read + Send>, output: &Mutex<VecDeque<u8>>) {
    let mut piece = [0; 1 << 16];
    while let Ok(count @ 1..) = pipe.read(&mut piece) {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        output.extend(&piece[..count]);
        let beyond = output.len().saturating_sub(OUTPUT_BYTES_MAX);
        output.drain(..beyond);
    }
}

impl RunningProgram {
    /// Waits for its end. Nothing if it was stopped before.
    ///
    /// # Errors
    /// It failed, or runs for too long.
    pub fn wait(mut self, is_over: &dyn Fn() -> bool) -> Result<Option<String>> {
        let begun = Instant::now();
        while !self.has_ended() {
            if is_over() {
                return Ok(None);
            }
            if begun.elapsed() > RUN_MAX {
                bail!(
                    "{:?} runs for more than {} s: a shorter load is needed",
                    self.command,
                    RUN_MAX.as_secs()
                );
            }
            std::thread::sleep(LOOK);
        }
        match self.end() {
            Some(status) if !status.success() => {
                bail!(
                    "{:?} ended with {status}: {}",
                    self.command,
                    tail(&self.text())
                )
            }
            _ => Ok(Some(self.text())),
        }
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// It has ended, which a background must not while it is measured.
    pub fn check(&mut self) -> Result<()> {
        if !self.has_ended() {
            return Ok(());
        }
        let status = self
            .end()
            .map_or_else(String::new, |status| format!(" with {status}"));
        bail!(
            "{:?} ended{status} while it was the background: it must run until it is ended; {}",
            self.command,
            tail(&self.text())
        )
    }

    fn text(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = output.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Leaves it to be waited for: until then no other process gets its number.
    fn has_ended(&self) -> bool {
        let Some(group) = self.group else { return true };
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(group), how), Ok(None))
    }

    /// Ends it and all that it started.
    fn end(&mut self) -> Option<ExitStatus> {
        let group = self.group?;
        let _ = kill_process_group(group, Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < END_GRACE && !self.has_ended() {
            std::thread::sleep(LOOK);
        }
        let _ = kill_process_group(group, Signal::KILL);
        if let Some(dir) = &self.cgroup {
            // Those that left the process group. Kernels before 5.14 have no such file.
            let _ = std::fs::write(dir.join("cgroup.kill"), "1");
        }
        self.group = None;
        let status = self.child.wait().ok();
        // A process that left group and cgroup may hold the pipes open for ever.
        let begun = Instant::now();
        while begun.elapsed() < END_GRACE && !self.readers.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(LOOK);
        }
        status
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.end();
    }
}

fn tail(text: &str) -> String {
    let end: String = {
        let all: Vec<char> = text.trim_end().chars().collect();
        all[all.len().saturating_sub(TAIL_CHARS)..].iter().collect()
    };
    match end.is_empty() {
        true => "it printed nothing".into(),
        false => format!("it printed: {}", harmless(&end)),
    }
}

/// The figure in an output: the last match, its first group if it has one.
///
/// # Errors
/// There is no match, or it is no number above 0.
pub fn figure(output: &str, expression: &Regex) -> Result<f64> {
    let Some(found) = expression.captures_iter(output).last() else {
        bail!(
            "--figure {:?} matches nothing; {}",
            expression.as_str(),
            tail(output)
        );
    };
    let text = found
        .get(1)
        .or_else(|| found.get(0))
        .map_or("", |m| m.as_str());
    let number = text.trim().replace(',', "").parse::<f64>();
    number
        .ok()
        .filter(|n| n.is_finite() && *n > 0.0)
        .with_context(|| {
            format!(
                "--figure {:?} matches {text:?}, which is no number above 0",
                expression.as_str()
            )
        })
}

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

    /// Its directory.
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

    /// Their directories.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn program(command: &str) -> ProgramSpec {
        ProgramSpec {
            command: command.into(),
            cpus: weir_bench::cpu::allowed().unwrap()[..1].to_vec(),
            node: 0,
            cgroup: None,
        }
    }

    fn started(command: &str) -> Option<RunningProgram> {
        let found = program(command).start();
        found
            .map_err(|why| eprintln!("SKIP programs: {why:#}"))
            .ok()
    }

    #[test]
    fn a_figure_is_the_last_match() {
        let of = |text: &str, expression: &str| figure(text, &Regex::new(expression).unwrap());
        assert_eq!(of("a 1\nb 2.5\n", r"\w ([0-9.]+)").unwrap(), 2.5);
        assert_eq!(of("rate: 1,234,567 ops", r"[0-9,]+").unwrap(), 1_234_567.0);
        for (text, wanted) in [
            ("", "printed nothing"),
            ("x", "printed: x"),
            ("n -3", "no number"),
            ("n nan", "no number"),
        ] {
            let said = of(text, "n (.*)").unwrap_err().to_string();
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn a_program_runs_on_its_cpu_and_its_output_comes_back() {
        let Some(running) = started(
            "taskset -p $$ >/dev/null 2>&1; echo out; echo err >&2; grep Cpus_allowed_list /proc/self/status",
        ) else {
            return;
        };
        let text = running.wait(&|| false).unwrap().unwrap();
        assert!(text.contains("out") && text.contains("err"), "{text}");
        let cpu = weir_bench::cpu::allowed().unwrap()[0];
        assert!(
            text.contains(&format!("Cpus_allowed_list:\t{cpu}\n")),
            "{text}"
        );
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        let Some(running) = started("sleep 1000 & echo $!; wait") else {
            return;
        };
        while !running.text().ends_with('\n') {
            std::thread::yield_now();
        }
        let below: i32 = running.text().trim().parse().unwrap();
        drop(running);
        let gone = |pid| match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        // It was signalled before the shell was waited for.
        while !gone(below) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_fails_shows_its_output() {
        let Some(running) = started("echo wrong; exit 3") else {
            return;
        };
        let said = running.wait(&|| false).unwrap_err().to_string();
        assert!(
            said.contains("exit status: 3") && said.contains("printed: wrong"),
            "{said}"
        );
        let stopped = started("sleep 1000").unwrap().wait(&|| true).unwrap();
        assert_eq!(stopped, None);
        let said = program("x");
        let said = ProgramSpec { node: 1023, ..said }.start().err().unwrap();
        assert!(format!("{said:#}").contains("node 1023"), "{said:#}");
    }
}
