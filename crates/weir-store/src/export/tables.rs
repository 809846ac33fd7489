// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables that can be exported: what they are called by other programs, their columns, and their queries.

use super::Kind::{Real, Text, Whole};
use super::{Column, Table};

/// A table. Its rows come in groups that have a checksum each.
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    /// The numbers of the groups, which must go up.
    pub(super) groups: &'static str,
    /// The rows of a group. The first value is a row's place, which must go up.
    pub(super) query: &'static str,
}

// Groups are those that have rows, and those that have a checksum: rows that a damaged page hides would be a
// gap that no row tells of. A property test met one, a first cell's pointer that led to a later row.
const SPANS: &str = "SELECT id FROM span UNION SELECT id FROM span_check ORDER BY 1";
/// Ticks that have actions.
const TICKS: &str = "SELECT tick FROM action UNION SELECT id FROM action_check ORDER BY 1";

impl Table {
    pub(super) fn source(self) -> &'static Source {
        match self {
            Table::Workloads => &WORKLOADS,
            Table::Devices => &DEVICES,
            Table::Actions => &ACTIONS,
        }
    }
}

const WORKLOADS: Source = Source {
    name: "weir_workload",
    columns: &[
        ("session", Whole),
        ("end_unix_ms", Whole),
        ("span_ns", Whole),
        ("workload", Text),
        ("bytes_per_sec", Whole),
        ("provenance", Text),
        ("unknown_ns", Whole),
        ("cpu_microcpus", Whole),
        ("throttled_microcpus", Whole),
        ("allowed_bytes_per_sec", Whole),
        ("limit_microcpus", Whole),
        ("why", Text),
    ],
    groups: SPANS,
    query: "SELECT f.workload, span.session, span.end_unix_ms, span.span_ns, text.text,
        f.bytes_per_sec, provenance.word, f.unknown_ns, f.cpu_microcpus, f.throttled_microcpus,
        f.allowed_bytes_per_sec, f.limit_microcpus, why.word
        FROM span CROSS JOIN workload_figures AS f ON f.span = span.id
        LEFT JOIN text ON text.id = f.workload
        LEFT JOIN word AS provenance ON provenance.kind = 'provenance' AND provenance.code = f.provenance
        LEFT JOIN word AS why ON why.kind = 'why' AND why.code = f.why
        WHERE span.id = ?1 ORDER BY f.workload",
};

const DEVICES: Source = Source {
    name: "weir_device",
    columns: &[
        ("session", Whole),
        ("end_unix_ms", Whole),
        ("span_ns", Whole),
        ("device", Whole),
        ("read_bytes_per_sec", Whole),
        ("write_bytes_per_sec", Whole),
        ("unattributed_bytes_per_sec", Whole),
        ("set_point_bytes_per_sec", Whole),
        ("correction_ratio", Real),
        ("latency_ns", Whole),
        ("unknown_ns", Whole),
    ],
    groups: SPANS,
    query: "SELECT f.device, span.session, span.end_unix_ms, span.span_ns, f.device,
        f.read_bytes_per_sec, f.write_bytes_per_sec, f.unattributed_bytes_per_sec,
        f.set_point_bytes_per_sec, f.correction_ratio, f.latency_ns, f.unknown_ns
        FROM span CROSS JOIN device_figures AS f ON f.span = span.id
        WHERE span.id = ?1 ORDER BY f.device",
};

const ACTIONS: Source = Source {
    name: "weir_action",
    columns: &[
        ("session", Whole),
        ("wall_unix_ms", Whole),
        ("workload", Text),
        ("limit_cpus", Real),
        ("outcome", Text),
        ("detail", Text),
    ],
    groups: TICKS,
    query: "SELECT action.position, tick.session, tick.wall_unix_ms, text.text,
        action.limit_cpus, outcome.word, detail.text
        FROM action CROSS JOIN tick ON tick.id = action.tick
        LEFT JOIN text ON text.id = action.workload
        LEFT JOIN text AS detail ON detail.id = action.detail
        LEFT JOIN word AS outcome ON outcome.kind = 'outcome' AND outcome.code = action.outcome
        WHERE action.tick = ?1 ORDER BY action.position",
};
