// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics of a recorded run with their times, as a server that scraped it would have them. OpenMetrics wants
//! all samples of a series together, so they are kept until the end, and their number is bounded.

use super::text::{Dialect, head, quoted, write_labels};
use super::{Collect, Metric, SampleLabels, SampleValue};
use crate::error::StoreError;
use std::collections::BTreeMap;
use std::io::Write;

/// Samples in memory at most: half a GiB.
const SAMPLES_MAX: u64 = 20_000_000;

#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    #[error(
        "more than {SAMPLES_MAX} samples: take a part of the recording with --from and --to, or a longer --step"
    )]
    TooMany,
    #[error(transparent)]
    Output(#[from] StoreError),
}

/// A sample and its time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy)]
struct TimedSample {
    unix_ms: u64,
    value: SampleValue,
}

struct Gathered {
    metric: Metric,
    /// Samples by their labels, which are kept as text.
    series: BTreeMap<String, Vec<TimedSample>>,
}

pub struct Backfill {
    /// Labels that all samples get, as text.
    common: String,
    metrics: Vec<Gathered>,
    /// Position of the metric that samples belong to now.
    current: usize,
    unix_ms: u64,
    count: u64,
    key: String,
}

impl Backfill {
    /// All samples get these labels, as those that a server adds to what it scrapes.
    pub fn new(common: &[(&str, &str)]) -> Backfill {
        let each = common.iter();
        let each = each.map(|(name, value)| format!("{name}=\"{}\"", quoted(value)));
        Backfill {
            common: each.collect::<Vec<_>>().join(","),
            metrics: Vec::new(),
            current: 0,
            unix_ms: 0,
            count: 0,
            key: String::new(),
        }
    }

    /// Sets the time of the samples that follow, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// There are too many already.
    pub fn at(&mut self, unix_ms: u64) -> Result<(), BackfillError> {
        self.unix_ms = unix_ms;
        match self.count {
            0..=SAMPLES_MAX => Ok(()),
            _ => Err(BackfillError::TooMany),
        }
    }

    /// Writes all of it, and says how many samples that were.
    ///
    /// # Errors
    /// The output takes no more.
    pub fn write(&self, out: &mut dyn Write) -> Result<u64, BackfillError> {
        self.write_to(out).map_err(StoreError::ExportTo)?;
        Ok(self.count)
    }

    fn write_to(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut text = String::new();
        for gathered in self.metrics.iter().filter(|all| !all.series.is_empty()) {
            text.clear();
            head(&mut text, &gathered.metric, Dialect::OpenMetrics);
            out.write_all(text.as_bytes())?;
            let (name, suffix) = (gathered.metric.name, gathered.metric.suffix());
            for (labels, samples) in &gathered.series {
                for TimedSample { unix_ms, value } in samples {
                    let (secs, ms) = (unix_ms / 1000, unix_ms % 1000);
                    write!(out, "{name}{suffix}{labels} ")?;
                    match value {
                        SampleValue::Count(count) => write!(out, "{count}")?,
                        SampleValue::Real(value) => write!(out, "{value}")?,
                    }
                    writeln!(out, " {secs}.{ms:03}")?;
                }
            }
        }
        out.write_all(b"# EOF\n")?;
        out.flush()
    }
}

impl Collect for Backfill {
    fn metric(&mut self, metric: &Metric) {
        let known = self
            .metrics
            .iter()
            .position(|m| m.metric.name == metric.name);
        self.current = known.unwrap_or_else(|| {
            let (metric, series) = (*metric, BTreeMap::new());
            self.metrics.push(Gathered { metric, series });
            self.metrics.len() - 1
        });
    }

    fn sample(&mut self, labels: SampleLabels<'_>, value: SampleValue) {
        let Some(gathered) = self.metrics.get_mut(self.current) else {
            return;
        };
        self.key.clear();
        write_labels(&mut self.key, labels, &self.common);
        let unix_ms = self.unix_ms;
        let sample = TimedSample { unix_ms, value };
        match gathered.series.get_mut(&self.key) {
            // One sample of a series at a time: of a second tick in the same millisecond, the later.
            Some(series) => match series.last_mut() {
                Some(last) if last.unix_ms >= unix_ms => last.value = value,
                _ => series.push(sample),
            },
            None => {
                gathered.series.insert(self.key.clone(), vec![sample]);
            }
        }
        self.count += 1;
    }
}
