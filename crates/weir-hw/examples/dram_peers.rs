// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DRAM channel beside its peers: the first tables of docs/evidence/dram.md.
//!
//! ```text
//! cargo run --release -p weir-hw --example dram_peers [REQUESTS]
//! ```

use weir_hw::dram::{
    AddressMapping, ChannelSettings, DramChannel, DramProfile, OrderKind, PEERS_SEED, PatternTrace,
    TracePattern, replay,
};

const ROWS: &str = include_str!("../data/dram-peers.csv");

fn main() {
    let requests = std::env::args().nth(1).map(|text| text.parse());
    let requests = requests.and_then(Result::ok).unwrap_or(1_000_000);
    println!(
        "| peer | profile | mapping | order | queue | trace | GB/s, peer | ours | | hits, peer | ours | read ns, peer | ours |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    ROWS.lines().skip(1).for_each(|line| row(line, requests));
}

/// Prints one row of the table.
fn row(line: &str, requests: usize) {
    let cells: Vec<&str> = line.split(',').collect();
    let [
        peer,
        profile_name,
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
        panic!("a row of ten cells is needed: {line}");
    };
    let profile = DramProfile::named(profile_name).expect("built in");
    let order = OrderKind::named(order).expect("an order");
    let is_dramsim = peer == "dramsim3";
    let settings = ChannelSettings {
        mapping: AddressMapping::named(mapping).unwrap_or(match mapping {
            "dramsim3-bank-group-lsb" => AddressMapping::Mop4ClXor,
            _ => AddressMapping::RoBaRaCoCh,
        }),
        entries: entries.parse().expect("entries"),
        bank_entries: is_dramsim.then_some(8),
        ..ChannelSettings::PEERS
    };
    let order = order.order(&profile, settings.entries);
    let mut channel = DramChannel::new(&profile, settings, order);
    let pattern = TracePattern::named(trace).expect("a pattern");
    let parts = &profile.organisation;
    let lines = PatternTrace::new(pattern, parts, writes.parse().expect("percent"), PEERS_SEED);
    let span = replay(&mut channel, lines.take(requests));
    let total = channel.tallies().total();
    let bytes = (span.requests * parts.burst_bytes) as f64;
    let ours = bytes / profile.ns(span.clocks as f64);
    let theirs: f64 = rate.parse().expect("GB/s");
    let ratio = match is_dramsim {
        true => total.row_reuse_ratio(),
        false => total.row_hit_ratio(),
    };
    println!(
        "| {peer} | {profile_name} | {mapping} | {} | {entries} | {trace}, {writes} % | {theirs:.3} | {ours:.3} | {:+.1} % | {hits} | {:.1} | {read} | {:.0} |",
        cells[3],
        100.0 * (ours / theirs - 1.0),
        100.0 * ratio.unwrap_or(0.0),
        profile.ns(total.read_latency.mean().unwrap_or(0.0)),
    );
}
