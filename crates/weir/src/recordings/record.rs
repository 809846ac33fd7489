// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir record`: `weir run` with a recording as its purpose. If that cannot be written, it ends.

use super::cli::RecordArgs;
use super::info;
use crate::cli::exit::Exit;
use crate::run;
use crate::run::service::reload::SettingsSource;
use crate::run::settings::args::LoopArgs;
use anyhow::Result;
use std::time::Duration;
use weir_linux::Roots;

/// A recording of hours does not need twenty ticks a second.
const INTERVAL: Duration = Duration::from_secs(1);

/// Records, or says what was recorded.
///
/// # Errors
/// As `weir run`; or the file is not a recording, or cannot be written.
pub fn record(args: &RecordArgs, roots: &Roots) -> Result<Exit> {
    if args.info {
        return info::info(&args.file, args.how.json);
    }
    let how = LoopArgs {
        record: Some(args.file.clone()),
        ..args.how.clone()
    };
    let source = SettingsSource {
        args: &how,
        interval: INTERVAL,
    };
    run::go(&source, run::Purpose::Record, roots)
}
