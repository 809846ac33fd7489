// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of the peers with the same settings and traces (`data/dram-peers.csv`), of which the channel must
//! not drift away.

use super::Run;
use super::peer_row::{PeerRow, rows};

/// Requests of a replay; the peers had a million. Bandwidths differ by less than 0.2 % between the two.
const REQUESTS: usize = 150_000;

/// The row of the peer as the channel has it.
fn run(row: &PeerRow, bank_entries: Option<u32>) -> Run {
    let settings = row.settings(bank_entries);
    let (pattern, writes) = (row.pattern(), row.writes_percent);
    Run::of(
        &row.profile(),
        settings,
        row.order,
        pattern,
        writes,
        REQUESTS,
    )
}

/// The row of Ramulator 2.1 for the same question, if there is one.
fn ramulator<'a>(row: &PeerRow, all: &'a [PeerRow]) -> Option<&'a PeerRow> {
    all.iter().find(|other| {
        let same_trace = (&other.trace, other.writes_percent) == (&row.trace, row.writes_percent);
        other.peer == "ramulator-2.1"
            && other.profile == row.profile
            && other.mapping == "RoBaRaCoCh"
            && other.order == row.order
            && other.entries == row.entries
            && (other.ranks, other.page) == (row.ranks, row.page)
            && same_trace
    })
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
        let got = run(row, None);
        let off = off_percent(got.bytes_per_sec() / 1e9, row.gb_per_sec);
        assert!(off.abs() <= 2.0, "{off:+.2} % of bandwidth: {row:?}");
        if let Some(hits) = row.hit_percent {
            let ours = 100.0 * got.channel.tallies().total().row_hit_ratio().unwrap();
            assert!(
                (ours - hits).abs() <= 1.0,
                "{ours:.2} % of row hits: {row:?}"
            );
        }
        if let Some(read_ns) = row.read_ns {
            let off = off_percent(got.read_ns().unwrap(), read_ns);
            assert!(off.abs() <= 5.0, "{off:+.2} % of read latency: {row:?}");
        }
        compared += 1;
    }
    assert!(compared >= 40, "only {compared} rows");
}

/// Whether the two peers agree on a row of DRAMsim3.
fn peers_agree(row: &PeerRow, all: &[PeerRow]) -> bool {
    let other = ramulator(row, all);
    other.is_some_and(|other| off_percent(row.gb_per_sec, other.gb_per_sec).abs() <= 2.0)
}

#[test]
fn bandwidth_is_that_of_dramsim3_where_the_peers_agree() {
    let all = rows();
    let of_dramsim = all.iter().filter(|row| row.peer == "dramsim3");
    let agreed: Vec<_> = of_dramsim.filter(|row| peers_agree(row, &all)).collect();
    assert!(agreed.len() >= 7, "only {} rows", agreed.len());
    for row in agreed {
        let off = off_percent(run(row, None).bytes_per_sec() / 1e9, row.gb_per_sec);
        assert!(off.abs() <= 2.0, "{off:+.2} % of bandwidth: {row:?}");
    }
}

#[test]
fn with_a_queue_for_each_bank_bandwidth_and_hits_are_those_of_dramsim3() {
    let all = rows();
    for row in all.iter().filter(|row| row.peer == "dramsim3") {
        let got = run(row, Some(8));
        let off = off_percent(got.bytes_per_sec() / 1e9, row.gb_per_sec);
        // Its second mapping is not ours either: MOP4CLXOR has bank groups nearly as low.
        let is_own_mapping = row.mapping == "dramsim3-bank-group-lsb";
        let allowed = if is_own_mapping { 2.5 } else { 2.0 };
        assert!(off.abs() <= allowed, "{off:+.2} % of bandwidth: {row:?}");
        if let (Some(hits), false) = (row.hit_percent, is_own_mapping) {
            let ours = 100.0 * got.channel.tallies().total().row_reuse_ratio().unwrap();
            assert!(
                (ours - hits).abs() <= 1.1,
                "{ours:.2} % of reused rows: {row:?}"
            );
        }
    }
}
