// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-compile SCRIPT CARGO ARGUMENT…`: the first minutes of `make run`. Runs cargo, and SCRIPT beside it,
//! and says how long all of `make run` still takes, in place of cargo's hundreds of lines. Errors and
//! warnings are shown as they are.
//!
//! SCRIPT is not needed for compiling, and its failure does not end it: what needs its product says so. At
//! the end, the pace of this machine stands on stdout, for the estimate of what comes next.

use std::io::{BufRead, BufReader, Read, Result};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use weir_progress::cargo_lines::{Said, said};
use weir_progress::{LIVE_SEC, Phase, Progress};

/// Fetching the sources of crates.
const CRATES_SEC: f64 = 10.0;
/// CPU time of all units.
const COMPILE_CPU_SEC: f64 = 450.0;
/// Units wait for each other, so that more CPUs than a few do not help.
const COMPILE_MIN_SEC: f64 = 120.0;
/// How many CPUs cargo keeps busy, of each.
const BUSY_RATIO: f64 = 0.9;
/// The guest environment is there by then.
const ENVIRONMENT_SEC: f64 = 1.0;
/// When which part of the units is built, as parts of the time: the last ones are weir's own, and large.
const BUILT_AT: [(f64, f64); 11] = [
    (0.0, 0.0),
    (0.11, 0.04),
    (0.30, 0.17),
    (0.48, 0.29),
    (0.66, 0.37),
    (0.70, 0.45),
    (0.79, 0.53),
    (0.91, 0.61),
    (0.966, 0.73),
    (0.995, 0.85),
    (1.0, 1.0),
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(script), Some(cargo)) = (words.next(), words.next()) else {
        eprintln!("usage: weir-compile SCRIPT CARGO ARGUMENT…");
        return 2.into();
    };
    let mut command = Command::new(cargo);
    command.args(words);
    match compile(&script, &mut command) {
        Ok(code) => code.into(),
        Err(why) => {
            eprintln!("weir-compile: {why}");
            2.into()
        }
    }
}

fn compile(script: &str, cargo: &mut Command) -> Result<u8> {
    let progress = Arc::new(Progress::new("make run", plan()?, 1.0));
    let beside = begin(script, &progress)?;
    let status = build(cargo, &progress)?;
    if !status.success() {
        return Ok(status.code().and_then(|c| c.try_into().ok()).unwrap_or(1));
    }
    let pace = progress.pace();
    finish(script, beside, &progress)?;
    progress.begin(3);
    println!("{pace:.2}");
    Ok(0)
}

/// Where something was compiled before, it is not known how much is to be compiled again: there is no
/// estimate.
fn plan() -> Result<Vec<Phase>> {
    let is_first = !std::env::current_exe()?
        .with_file_name("weir-testbed")
        .exists();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let compile_sec = (COMPILE_CPU_SEC / BUSY_RATIO / cpus).max(COMPILE_MIN_SEC);
    let phases = [
        ("fetching crates", CRATES_SEC),
        ("compiling", compile_sec),
        ("waiting for the guest environment", ENVIRONMENT_SEC),
        ("compiled", LIVE_SEC),
    ];
    let phase = |(name, sec)| Phase::new(name, if is_first { sec } else { 0.0 });
    Ok(phases.map(phase).into())
}

struct Beside {
    child: Child,
    said: Vec<JoinHandle<()>>,
}

/// The script ends when this does, and leaves the CPUs to the compiler, which takes longer.
fn begin(script: &str, progress: &Arc<Progress>) -> Result<Beside> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "nice", "-n", "10", script]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let [of_out, of_err] = [Arc::clone(progress), Arc::clone(progress)];
    let said = vec![
        std::thread::spawn(move || say_lines(out, &of_out)),
        std::thread::spawn(move || say_lines(err, &of_err)),
    ];
    Ok(Beside { child, said })
}

/// An absolute path is the script's product, for programs.
fn say_lines(from: Option<impl Read>, progress: &Progress) {
    let lines = from
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufRead::lines);
    for line in lines.map_while(Result::ok) {
        if !line.starts_with('/') {
            progress.say(&line);
        }
    }
}

fn build(cargo: &mut Command, progress: &Progress) -> Result<std::process::ExitStatus> {
    let stdout = std::io::stderr().as_fd().try_clone_to_owned()?;
    cargo.stdout(stdout).stderr(Stdio::piped());
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always");
    cargo.env("CARGO_TERM_PROGRESS_WIDTH", "80");
    let mut child = cargo.spawn()?;
    let mut fetched = 0;
    let mut is_building = false;
    let mut line = Vec::new();
    for byte in child
        .stderr
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(Read::bytes)
    {
        let byte = byte?;
        if !matches!(byte, b'\n' | b'\r') {
            line.push(byte);
            continue;
        }
        match said(&String::from_utf8_lossy(&line), byte == b'\r') {
            Said::Built(done, all) => {
                if !is_building {
                    is_building = true;
                    if fetched > 0 {
                        progress.say(&format!("fetched {fetched} crates"));
                    }
                    progress.begin(1);
                }
                let part = |n: u32| time_part(f64::from(n) / f64::from(all.max(1)));
                progress.counted([done, all], part(done), part(done + 1));
            }
            Said::Fetching => progress.begin(0),
            Said::Fetched => fetched += 1,
            Said::Usual => {}
            Said::Else(line) => progress.pass_on(line),
        }
        line.clear();
    }
    child.wait()
}

/// The part of the time after which this part of the units is built.
fn time_part(built: f64) -> f64 {
    let built = built.clamp(0.0, 1.0);
    let mut spans = BUILT_AT.windows(2);
    let at = |span: &[(f64, f64)]| match span {
        [(from, begun), (to, ended)] if built <= *to => {
            Some(begun + (built - from) / (to - from) * (ended - begun))
        }
        _ => None,
    };
    spans.find_map(at).unwrap_or(1.0)
}

fn finish(script: &str, mut beside: Beside, progress: &Progress) -> Result<()> {
    if beside.child.try_wait()?.is_none() {
        progress.begin(2);
    }
    for said in beside.said {
        // It does nothing that could fail.
        let _ = said.join();
    }
    let status = beside.child.wait()?;
    if !status.success() {
        progress.say(&format!("{script}: {status}; it is tried again"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_units_take_longest() {
        assert_eq!((time_part(0.0), time_part(1.0)), (0.0, 1.0));
        let mut last = 0.0;
        for part in (0..=1000).map(|n| time_part(f64::from(n) / 1000.0)) {
            assert!((last..=1.0).contains(&part), "{part} after {last}");
            last = part;
        }
        assert!(time_part(0.5) < 0.35 && time_part(0.99) < 0.9);
    }
}
