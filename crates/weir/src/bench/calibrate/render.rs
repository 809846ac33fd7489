// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weir calibrate` prints.

use super::RECOMMENDED;
use crate::cli::device_profile::Profile;
use serde::Serialize;
use std::fmt::Write;
use weir_core::BytesPerSec;
use weir_figures::text::{harmless, rate};
use weir_figures::{Cell, Setting, Table, terminal_table};

pub struct Outcome {
    pub profile: Profile,
    pub verdict: Decision,
    /// File in which the profile is kept; none if it is not kept.
    pub kept_in: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What is to be known of it.
    pub notes: Vec<String>,
    /// Why it is not used.
    pub lacking: Option<String>,
}

#[derive(Serialize)]
pub struct Json<'a> {
    #[serde(flatten)]
    profile: &'a Profile,
    recommended_set_point_bytes_per_sec: Option<f64>,
    notes: &'a [String],
    lacking: Option<&'a String>,
    kept_in: Option<&'a String>,
}

impl Outcome {
    /// What can be held: a little below the knee.
    fn recommended(&self) -> Option<f64> {
        let knee = self.profile.knee.as_ref()?;
        Some(knee.bandwidth_bytes_per_sec * RECOMMENDED)
    }

    pub fn json(&self) -> Json<'_> {
        Json {
            profile: &self.profile,
            recommended_set_point_bytes_per_sec: self.recommended(),
            notes: &self.verdict.notes,
            lacking: self.verdict.lacking.as_ref(),
            kept_in: self.kept_in.as_ref(),
        }
    }
}

/// The outcome as a table: the points by rising bandwidth, then what follows from them.
pub fn page(outcome: &Outcome) -> String {
    let profile = &outcome.profile;
    let per_sec = |value: f64| rate(BytesPerSec::new(value));
    let mut points: Vec<_> = profile.points.iter().collect();
    points.sort_by(|a, b| {
        a.bandwidth_bytes_per_sec
            .total_cmp(&b.bandwidth_bytes_per_sec)
    });
    let ns = |ns: f64| Cell::number(format!("{ns:.0} ns"));
    let rows = points.iter().map(|p| {
        let bandwidth = Cell::number(per_sec(p.bandwidth_bytes_per_sec));
        vec![
            bandwidth,
            ns(p.latency_ns),
            ns(p.latency_median_ns),
            ns(p.latency_p99_ns),
        ]
    });
    let table = Table::new("", &["bandwidth", "latency", "median", "p99"], rows);
    let mut out = format!(
        "{} on node {}, {} threads, {}\n\n{}",
        harmless(&profile.device),
        profile.node,
        profile.threads,
        profile.mix,
        terminal_table(&table, Setting::PLAIN)
    );
    let _ = write!(out, "\nidle       {:.0} ns", profile.idle_latency_ns);
    if let Some(dram) = profile.dram_latency_ns {
        let _ = write!(out, " (the CPU's own memory {dram:.0} ns)");
    }
    out.push('\n');
    if let (Some(knee), Some(recommended)) = (&profile.knee, outcome.recommended()) {
        let (at, latency) = (per_sec(knee.bandwidth_bytes_per_sec), knee.latency_ns);
        let _ = writeln!(out, "knee       {at}, {latency:.0} ns");
        let _ = writeln!(
            out,
            "set-point  {}: weir run --limit --set-point 'knee*{RECOMMENDED}'",
            per_sec(recommended)
        );
    }
    for note in &outcome.verdict.notes {
        let _ = writeln!(out, "– {}", harmless(note));
    }
    if let Some(why) = &outcome.verdict.lacking {
        let _ = writeln!(out, "– {}", harmless(why));
    }
    match &outcome.kept_in {
        Some(path) => {
            let _ = writeln!(out, "kept in {}", harmless(path));
        }
        None => out += "not kept\n",
    }
    out
}
