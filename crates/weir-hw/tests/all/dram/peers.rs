// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of the peers with the same settings and traces (`data/dram-peers.csv`), of which the channel must
//! not drift away.

use super::{Run, settings};
use weir_hw::dram::{AddressMapping, ChannelSettings, DramProfile, OrderKind, TracePattern};

const ROWS: &str = include_str!("../../../data/dram-peers.csv");

/// Requests of a replay; the peers had a million. Bandwidths differ by less than 0.2 % between the two.
const REQUESTS: usize = 150_000;

/// A row of the table.
#[derive(Clone, Debug)]
struct PeerRow {
    peer: String,
    profile: String,
    mapping: String,
    order: OrderKind,
    entries: u32,
    pattern: TracePattern,
    writes_percent: u32,
    gb_per_sec: f64,
    hit_percent: Option<f64>,
    read_ns: Option<f64>,
}

fn rows() -> Vec<PeerRow> {
    let number = |text: &str| (!text.is_empty()).then(|| text.parse::<f64>().expect("a figure"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [
            peer,
            profile,
            mapping,
            order,
            entries,
            trace,
            writes,
            rate,
            hits,
            read,
        ] = cells[..]
        else {
            panic!("{line}");
        };
        PeerRow {
            peer: peer.to_owned(),
            profile: profile.to_owned(),
            mapping: mapping.to_owned(),
            order: OrderKind::named(order).expect("an order"),
            entries: entries.parse().expect("entries"),
            pattern: TracePattern::named(trace).expect("a pattern"),
            writes_percent: writes.parse().expect("percent"),
            gb_per_sec: rate.parse().expect("GB/s"),
            hit_percent: number(hits),
            read_ns: number(read),
        }
    };
    ROWS.lines().skip(1).map(row).collect()
}

impl PeerRow {
    /// DRAMsim3's mappings are not ours: they are compared with those that are most like them.
    fn run(&self, bank_entries: Option<u32>) -> Run {
        let profile = DramProfile::named(&self.profile).expect("built in");
        let mapping = match self.mapping.as_str() {
            "dramsim3-default" => AddressMapping::RoBaRaCoCh,
            "dramsim3-bank-group-lsb" => AddressMapping::Mop4ClXor,
            name => AddressMapping::named(name).expect("a mapping"),
        };
        let trace = (self.pattern, self.writes_percent);
        let settings = ChannelSettings {
            bank_entries,
            ..settings(mapping, self.entries)
        };
        Run::of(&profile, settings, self.order, trace, REQUESTS)
    }

    /// The row of Ramulator 2.1 for the same question, if there is one.
    fn ramulator<'a>(&self, all: &'a [PeerRow]) -> Option<&'a PeerRow> {
        all.iter().find(|other| {
            let same_trace =
                (other.pattern, other.writes_percent) == (self.pattern, self.writes_percent);
            other.peer == "ramulator-2.1"
                && other.profile == self.profile
                && other.mapping == "RoBaRaCoCh"
                && other.order == self.order
                && other.entries == self.entries
                && same_trace
        })
    }
}

/// How far a figure is from that of the peer, percent.
fn off_percent(ours: f64, theirs: f64) -> f64 {
    100.0 * (ours / theirs - 1.0)
}

#[test]
fn bandwidth_hits_and_latency_are_those_of_ramulator() {
    let mut compared = 0;
    for row in rows()
        .iter()
        .filter(|row| row.peer.starts_with("ramulator"))
    {
        let run = row.run(None);
        let off = off_percent(run.bytes_per_sec() / 1e9, row.gb_per_sec);
        assert!(off.abs() <= 2.0, "{off:+.2} % of bandwidth: {row:?}");
        if let Some(hits) = row.hit_percent {
            let ours = 100.0 * run.channel.tallies().total().row_hit_ratio().unwrap();
            assert!(
                (ours - hits).abs() <= 1.0,
                "{ours:.2} % of row hits: {row:?}"
            );
        }
        if let Some(read_ns) = row.read_ns {
            let off = off_percent(run.read_ns().unwrap(), read_ns);
            assert!(off.abs() <= 5.0, "{off:+.2} % of read latency: {row:?}");
        }
        compared += 1;
    }
    assert!(compared >= 40, "only {compared} rows");
}

/// Whether the two peers agree on a row of DRAMsim3.
fn peers_agree(row: &PeerRow, all: &[PeerRow]) -> bool {
    let other = row.ramulator(all);
    other.is_some_and(|other| off_percent(row.gb_per_sec, other.gb_per_sec).abs() <= 2.0)
}

#[test]
fn bandwidth_is_that_of_dramsim3_where_the_peers_agree() {
    let all = rows();
    let of_dramsim = all.iter().filter(|row| row.peer == "dramsim3");
    let agreed: Vec<_> = of_dramsim.filter(|row| peers_agree(row, &all)).collect();
    assert!(agreed.len() >= 7, "only {} rows", agreed.len());
    for row in agreed {
        let off = off_percent(row.run(None).bytes_per_sec() / 1e9, row.gb_per_sec);
        assert!(off.abs() <= 2.0, "{off:+.2} % of bandwidth: {row:?}");
    }
}

#[test]
fn with_a_queue_for_each_bank_bandwidth_and_hits_are_those_of_dramsim3() {
    let all = rows();
    for row in all.iter().filter(|row| row.peer == "dramsim3") {
        let run = row.run(Some(8));
        let off = off_percent(run.bytes_per_sec() / 1e9, row.gb_per_sec);
        // Its second mapping is not ours either: MOP4CLXOR has bank groups nearly as low.
        let is_own_mapping = row.mapping == "dramsim3-bank-group-lsb";
        let allowed = if is_own_mapping { 2.5 } else { 2.0 };
        assert!(off.abs() <= allowed, "{off:+.2} % of bandwidth: {row:?}");
        if let (Some(hits), false) = (row.hit_percent, is_own_mapping) {
            let ours = 100.0 * run.channel.tallies().total().row_reuse_ratio().unwrap();
            assert!(
                (ours - hits).abs() <= 1.1,
                "{ours:.2} % of reused rows: {row:?}"
            );
        }
    }
}
