// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DRAM channel beside its peers: the first tables of docs/evidence/dram.md.
//!
//! ```text
//! cargo run --release -p weir-dram --example dram_peers [REQUESTS]
//! ```

#[path = "../tests/all/peer_row.rs"]
mod peer_row;

use peer_row::{PeerRow, rows};
use weir_dram::{DramChannel, PEERS_SEED, PatternTrace, replay};

fn main() {
    let requests = std::env::args().nth(1).map(|text| text.parse());
    let requests = requests.and_then(Result::ok).unwrap_or(1_000_000);
    println!(
        "| peer | profile | ranks | mapping | order | queue | page | trace | GB/s, peer | ours | | hits, peer | ours | read ns, peer | ours |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    rows().iter().for_each(|row| print(row, requests));
}

fn print(row: &PeerRow, requests: usize) {
    let profile = row.profile();
    let is_dramsim = row.peer == "dramsim3";
    let settings = row.settings(is_dramsim.then_some(8));
    let order = row.order.order(&profile, settings.entries);
    let mut channel = DramChannel::new(&profile, settings, order);
    let parts = &profile.organisation;
    let lines = PatternTrace::new(row.pattern(), parts, row.writes_percent, PEERS_SEED);
    let span = replay(&mut channel, lines.take(requests));
    let total = channel.tallies().total();
    let bytes = (span.requests * parts.burst_bytes) as f64;
    let ours = bytes / profile.ns(span.clocks as f64);
    let ratio = if is_dramsim {
        total.row_reuse_ratio()
    } else {
        total.row_hit_ratio()
    };
    let known = |figure: Option<f64>| figure.map_or("–".to_owned(), |figure| figure.to_string());
    println!(
        "| {} | {} | {} | {} | {} | {} | {:?} | {}, {} % | {:.3} | {ours:.3} | {:+.1} % | {} | {:.1} | {} | {:.0} |",
        row.peer,
        row.profile,
        row.ranks,
        row.mapping,
        row.order.name(),
        row.entries,
        row.page,
        row.trace,
        row.writes_percent,
        row.gb_per_sec,
        100.0 * (ours / row.gb_per_sec - 1.0),
        known(row.hit_percent),
        100.0 * ratio.unwrap_or(0.0),
        known(row.read_ns),
        profile.ns(total.read_latency.mean().unwrap_or(0.0)),
    );
}
