// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts one event of a PMU for the whole machine while a command runs, as `perf stat -e PMU/EVENT,FIELD=N/`
//! does: event and field are read from the PMU's own files in sysfs.

use perf_event::Builder;
use perf_event::events::Dynamic;
use std::io::{Error, Result};
use std::process::Command;

/// Prints the count, and for how many nanoseconds it was enabled and ran. `field` is `name=number`.
pub fn count(pmu: &str, event: &str, field: &str, command: &str) -> Result<()> {
    let (name, value) = field
        .split_once('=')
        .ok_or_else(|| Error::other(format!("{field}: name=number is wanted")))?;
    let value = value.parse::<u64>().map_err(Error::other)?;
    let mut dynamic = Dynamic::builder(pmu)?;
    dynamic.event(event).map_err(Error::other)?;
    dynamic.field(name, value).map_err(Error::other)?;
    let mut counter = Builder::new(dynamic.build().map_err(Error::other)?)
        .any_pid()
        .one_cpu(0)
        .include_kernel()
        .include_hv()
        .build()?;
    counter.enable()?;
    let status = Command::new("sh").args(["-c", command]).status()?;
    counter.disable()?;
    let seen = counter.read_full()?;
    println!(
        "{} {} {}",
        seen.count(),
        seen.time_enabled().unwrap_or_default().as_nanos(),
        seen.time_running().unwrap_or_default().as_nanos()
    );
    if status.success() {
        Ok(())
    } else {
        Err(Error::other(format!("{command}: {status}")))
    }
}
