// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recording says of itself: how many windows it has, what could not be counted and why, and what to
//! type next.

use super::window_sink::WindowSink;
use crate::profile::shown;
use std::fmt::Write;
use std::path::Path;
use weir_figures::text::harmless;
use weir_linux::windows::{NotCounted, WindowRecorder};

/// Reasons that are said; the file has all.
const REASONS_MAX: usize = 6;
/// Roles that are named for a reason.
const ROLES_MAX: usize = 4;

pub fn notes(recorder: &WindowRecorder) -> Vec<String> {
    let not_counted = recorder.not_counted();
    let not_counted = not_counted.iter().map(|group| line(group, usize::MAX));
    let places = recorder.places().into_iter();
    places
        .chain(events_apart(recorder))
        .chain(not_counted)
        .collect()
}

/// That each cgroup has events of its own, if it is so.
fn events_apart(recorder: &WindowRecorder) -> Option<String> {
    let why = recorder.events_apart()?;
    Some(format!(
        "each cgroup has events of its own, which cost more: {why}"
    ))
}

pub fn summary(recorder: &mut WindowRecorder, sink: &WindowSink, path: &Path) -> String {
    let mut out = format!("{} in {}", sink.so_far(), shown(path));
    let gone = recorder.gone();
    let command = recorder.command().is_some();
    if !gone.is_empty() && !command {
        // Writing into a String cannot fail.
        let _ = write!(out, "; gone: {}", harmless(&gone.join(", ")));
    }
    if let Some(command) = recorder.command()
        && command.ended().is_none()
    {
        let (name, pid) = (harmless(command.name()), command.pid());
        let _ = write!(out, "; {name} runs on as process {pid}");
    }
    if let Some(why) = events_apart(recorder) {
        let _ = write!(out, "\n{}", harmless(&why));
    }
    let groups = [recorder.not_counted(), recorder.never_ran()].concat();
    for group in groups.iter().take(REASONS_MAX) {
        let _ = write!(out, "\n{}", harmless(&line(group, ROLES_MAX)));
    }
    if groups.len() > REASONS_MAX {
        let more = groups.len() - REASONS_MAX;
        let _ = write!(out, "\n{more} more reasons: see the file's first line");
    }
    if recorder.unread() > 0 {
        let unread = recorder.unread();
        let _ = write!(
            out,
            "\n{unread} reads of counters failed: their counts are too low"
        );
    }
    let _ = write!(out, "\nnext: weir profile report {}", shown(path));
    out
}

/// Roles and their reason.
fn line(group: &NotCounted, named_max: usize) -> String {
    let roles = group.roles.iter().take(named_max).map(ToString::to_string);
    let more = match group.roles.len().saturating_sub(named_max) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let names = roles.collect::<Vec<_>>().join(", ");
    format!("not counted: {names}{more}: {}", group.why)
}
