// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of the user as streams: bound and pinned as weir's own threads, in a cgroup of their own where
//! one can be made, and ended with all that they started.

pub mod groups;

use anyhow::{Context, Result, bail};
use regex_lite::Regex;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_figures::text::harmless;

/// Bytes of the output that are kept: its end.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// A victim that runs longer is ended.
const RUN_MAX: Duration = Duration::from_secs(600);
/// What a program has to end by itself.
pub(super) const END_GRACE: Duration = Duration::from_secs(2);
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// The shell goes to its cgroup, where there is one, before it becomes the command: no part of it runs
/// elsewhere. weir holds the other end of its input. Once that is closed, also by a SIGKILL of weir, what
/// reads it ends the process group. The reader has no parent in the group: the command has no child that it
/// did not start.
const BEGIN: &str = r#"
[ -z "$1" ] || echo $$ > "$1/cgroup.procs" || exit
exec 3<&0 </dev/null
( (read -r _ <&3; kill -s KILL 0) >/dev/null 2>&1 & )
exec /bin/sh -c "$2" 3<&-
"#;
/// Characters of the output that an error shows.
const TAIL_CHARS: usize = 300;

/// A command, and where it runs.
#[derive(Clone, Debug)]
pub struct ProgramSpec {
    pub command: String,
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

    /// Processes in its cgroup, zombies not among them.
    fn in_cgroup(&self) -> Vec<Pid> {
        let of = |dir: &PathBuf| std::fs::read_to_string(dir.join("cgroup.procs")).ok();
        let text = self.cgroup.as_ref().and_then(of).unwrap_or_default();
        let pids = text.lines().filter_map(|line| line.parse().ok());
        pids.filter_map(Pid::from_raw).collect()
    }

    /// Ends it and all that it started.
    fn end(&mut self) -> Option<ExitStatus> {
        let group = self.group?;
        let _ = kill_process_group(group, Signal::TERM);
        // Those that left the process group, as jobs of fio do: they too may have files to remove.
        for pid in self.in_cgroup() {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < END_GRACE && !(self.has_ended() && self.in_cgroup().is_empty()) {
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
    if end.is_empty() {
        "it printed nothing".into()
    } else {
        format!("it printed: {}", harmless(&end))
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

#[cfg(test)]
mod tests {
    use super::groups::OwnCgroup;
    use super::*;
    use weir_linux::Roots;

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

    /// Jobs of fio are sessions of their own, and have files to remove.
    #[test]
    fn what_left_the_process_group_is_asked_to_end() {
        let cgroup = match OwnCgroup::make(&Roots::default(), "test") {
            Ok(cgroup) => cgroup,
            Err(why) => return eprintln!("SKIP cgroups of programs: {why}"),
        };
        let dir = tempfile::tempdir().unwrap();
        let (begun, ended) = (dir.path().join("begun"), dir.path().join("ended"));
        let job = "trap \"echo > $1; exit\" TERM; echo > $0; while :; do sleep 0.01; done";
        let command = format!(
            "setsid sh -c '{job}' {} {} & wait",
            begun.display(),
            ended.display()
        );
        let spec = ProgramSpec {
            cgroup: Some(cgroup.path().to_owned()),
            ..program(&command)
        };
        let Ok(running) = spec.start() else {
            return eprintln!("SKIP programs: none can be started");
        };
        while !begun.exists() {
            std::thread::yield_now();
        }
        drop(running);
        assert!(ended.exists(), "it was killed at once");
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
