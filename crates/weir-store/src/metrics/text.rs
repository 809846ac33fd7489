// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics as a text: OpenMetrics 1.0, or the older format of Prometheus.

use super::{Collect, Metric, MetricKind, SampleLabels, SampleValue};
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `text/plain; version=0.0.4`, for readers that accept nothing better.
    Prometheus,
}

/// The text in the making. Writing into a String cannot fail.
pub(super) struct Page {
    text: String,
    dialect: Dialect,
    name: String,
}

impl Page {
    pub(super) fn new(dialect: Dialect) -> Page {
        Page {
            text: String::new(),
            dialect,
            name: String::new(),
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.dialect == Dialect::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Collect for Page {
    fn metric(&mut self, metric: &Metric) {
        self.name.clear();
        self.name.push_str(metric.name);
        self.name.push_str(metric.suffix());
        head(&mut self.text, metric, self.dialect);
    }

    fn sample(&mut self, labels: SampleLabels<'_>, value: SampleValue) {
        self.text.push_str(&self.name);
        write_labels(&mut self.text, labels, "");
        let _ = match value {
            SampleValue::Count(count) => writeln!(self.text, " {count}"),
            SampleValue::Real(value) => writeln!(self.text, " {value}"),
        };
    }
}

/// What stands before a metric's samples. A name that ends in `_total` or `_info` is, in OpenMetrics, a
/// sample of the metric without it.
pub(super) fn head(text: &mut String, metric: &Metric, dialect: Dialect) {
    let Metric {
        name,
        kind,
        unit,
        help,
    } = metric;
    let (suffix, kind) = match (dialect, kind) {
        (Dialect::OpenMetrics, MetricKind::Info) => ("", "info"),
        (Dialect::OpenMetrics, MetricKind::StateSet) => ("", "stateset"),
        (Dialect::OpenMetrics, MetricKind::Counter) => ("", "counter"),
        (Dialect::Prometheus, MetricKind::Counter) => (metric.suffix(), "counter"),
        (_, _) => (metric.suffix(), "gauge"),
    };
    let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
    if dialect == Dialect::OpenMetrics && !unit.is_empty() {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name}{suffix} {help}");
}

/// All labels in braces, or nothing where there are none. Those in `first` are a text already.
pub(super) fn write_labels(text: &mut String, labels: SampleLabels<'_>, first: &str) {
    let mut open = '{';
    for ready in [first, labels.cgroup.map_or("", |cgroup| cgroup.text())] {
        if !ready.is_empty() {
            text.push(open);
            text.push_str(ready);
            open = ',';
        }
    }
    for (name, value) in labels.more {
        let _ = write!(text, "{open}{name}=\"{}\"", quoted(value));
        open = ',';
    }
    if open == ',' {
        text.push('}');
    }
}

/// Escapes a label's value; both formats do it in the same way.
pub(super) fn quoted(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
