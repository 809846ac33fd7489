// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports and differences of any counts: the first half of the bytes is a file of windows, the second the
//! idle machine's. Nothing that they print moves a cursor.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_profile::report::{Options, report, text};
use weir_profile::{WindowFile, diff};

/// Windows of a file: more only take time.
const WINDOWS_MAX: usize = 40;

fuzz_target!(|bytes: &[u8]| {
    let half = bytes.iter().position(|byte| *byte == 0);
    let (first, second) = bytes.split_at(half.unwrap_or(bytes.len()));
    let Ok(mut now) = WindowFile::read(first) else {
        return;
    };
    now.windows.truncate(WINDOWS_MAX);
    let idle = WindowFile::read(second.get(1..).unwrap_or_default()).ok();
    let options = Options {
        idle: idle.as_ref(),
        each: true,
        pathfinder: true,
        over_time: true,
        ..Options::default()
    };
    let made = report(&now, &options);
    let mut said = text::text(&made);
    if let Some(idle) = &idle {
        said += &diff::text(&diff::diff(idle, &now, Some(idle), None), true);
    }
    let moves = |c: char| c.is_control() && c != '\n';
    assert!(!said.contains(moves), "{said:?}");
});
