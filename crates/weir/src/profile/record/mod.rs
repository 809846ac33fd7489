// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile record`: counts of this machine, window by window, in a file that `weir profile report`
//! reads. weir-linux counts; here are the file ([`window_sink`]), the end, and what is said.

mod summary;
mod window_sink;

use super::cli::RecordArgs;
use super::{INTERVAL_MIN, checked_interval, new_file, shown};
use crate::bench::calibrate::watch;
use crate::cli::exit::Exit;
use crate::run::screens::waits_in::WaitsThread;
use anyhow::{Result, bail};
use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::Ordering;
use std::time::Duration;
use summary::{notes, summary};
use weir_core::Nanos;
use weir_figures::text::harmless;
use weir_linux::Roots;
use weir_linux::windows::{Asked, HeldCommand, RecordError, WindowRecorder};
use weir_profile::window_file::Header;
use window_sink::{SinkError, WindowSink};

/// Exit code with which shells say that a command cannot be executed.
const NOT_EXECUTED: u8 = 127;

/// How the recording came to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// A signal came.
    Stopped,
    /// The end of --duration.
    Due,
    /// Nothing is left to count for.
    Over,
    /// The file is as large as a reader takes.
    Full,
}

/// Does it. The exit code is that of the command, if there is one.
///
/// # Errors
/// Nothing can be counted, or the file cannot be written.
pub fn record(args: &RecordArgs, roots: &Roots) -> Result<Exit> {
    let interval = checked_interval(args.interval)?;
    // Before a command starts, and before minutes are spent.
    if args.file.symlink_metadata().is_ok() {
        bail!(
            "{} exists: name a new file, or remove it",
            shown(&args.file)
        );
    }
    let asked = match asked(args) {
        Err(why @ RecordError::Command(_)) => {
            say(&format!("weir: {}", harmless(&why.to_string())));
            return Ok(Exit::OfCommand(NOT_EXECUTED));
        }
        other => other?,
    };
    let stop = watch()?;
    let mut recorder = WindowRecorder::open(roots, asked)?;
    let header = Header {
        family: recorder.family().map(str::to_owned),
        capacities: recorder.capacities().into_iter().collect(),
        sockets: recorder.sockets(),
        notes: notes(&recorder),
        ..Header::new("weir profile record")
    };
    let made = new_file(&args.file)?;
    let sink = WindowSink::new(made.file().try_clone()?, &args.file, &header);
    let mut sink = sink.inspect_err(|_| {
        // Nothing is in it; if it cannot be removed, it is an empty file.
        let _ = made.remove();
    })?;
    let waits = WaitsThread::start(roots, interval, header);
    recorder.start()?;
    let is_stopped = || stop.load(Ordering::Relaxed) != 0;
    let counted = count(args, &mut recorder, &mut sink, &waits, &is_stopped);
    drop(waits);
    if let (Ok(End::Stopped) | Err(_), Some(command)) = (&counted, recorder.command()) {
        command.terminate();
    }
    let end = counted.map_err(anyhow::Error::new)?;
    if end == End::Full {
        say("the file is as large as `weir profile report` reads: record with a longer --interval");
    }
    sink.finish()?;
    say(&summary(&mut recorder, &sink, &args.file));
    Ok(match recorder.command().and_then(HeldCommand::ended) {
        Some(code) if end == End::Over && code != 0 => Exit::OfCommand(code),
        _ => Exit::Done,
    })
}

fn asked(args: &RecordArgs) -> Result<Asked, RecordError> {
    Ok(match args.pid {
        Some(pid) => Asked::Process(pid),
        None if !args.command.is_empty() => Asked::Command(HeldCommand::start(&args.command)?),
        None if !args.cgroup.is_empty() => Asked::Cgroups(args.cgroup.clone()),
        None => Asked::Machine,
    })
}

/// Window after window, to the end.
fn count(
    args: &RecordArgs,
    recorder: &mut WindowRecorder,
    sink: &mut WindowSink,
    waits: &WaitsThread,
    is_stopped: &dyn Fn() -> bool,
) -> Result<End, SinkError> {
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let mut left = args.duration.map(|span| nanos(span.0));
    let is_screen = stderr().is_terminal();
    loop {
        let length = nanos(args.interval.0).min(left.unwrap_or(u64::MAX));
        let window = recorder.window(Nanos(length), is_stopped);
        let counted = window.length().unwrap_or_default();
        left = left.map(|left| left.saturating_sub(counted.0));
        let end = match left {
            _ if is_stopped() => Some(End::Stopped),
            _ if recorder.is_over() => Some(End::Over),
            Some(left) if left < nanos(INTERVAL_MIN) => Some(End::Due),
            _ => None,
        };
        // What a signal leaves of a window is no window, but of a first one that is all there is.
        let is_rest = end.is_some() && counted.0 < nanos(INTERVAL_MIN) && sink.window_count() > 0;
        let has_room = is_rest || sink.write(&window)?;
        waits.add(&window);
        if is_screen {
            progress(sink, end.is_some());
        }
        match end {
            _ if !has_room => return Ok(End::Full),
            Some(end) => return Ok(end),
            None => {}
        }
    }
}

/// A line that stays where it is, and goes at the end.
fn progress(sink: &WindowSink, is_last: bool) {
    let line = if is_last {
        String::new()
    } else {
        format!("recording: {}; Ctrl-C ends it", sink.so_far())
    };
    // A closed stderr is no reason to stop.
    let _ = write!(stderr(), "\r{line}\x1b[K");
}

/// Writes to stderr, because stdout belongs to the command.
fn say(text: &str) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(stderr(), "{text}");
}
