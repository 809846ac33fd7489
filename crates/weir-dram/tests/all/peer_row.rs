// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of `data/dram-peers.csv`: for the tests, and for the example that prints them.

use weir_dram::{
    AddressMapping, ChannelSettings, DramProfile, OrderKind, PagePolicy, TracePattern,
};

const ROWS: &str = include_str!("../../data/peers.csv");

/// A file of `data/dram-parts`, by name.
macro_rules! part {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../data/parts/", $name, ".toml")),
        )
    };
}

const PARTS: [(&str, &str); 9] = [
    part!("ddr3-1600-4gb-x8"),
    part!("ddr4-1600-2gb-x8"),
    part!("ddr4-2400-4gb-x4"),
    part!("ddr4-2666-16gb-x16"),
    part!("ddr4-2933-16gb-x8"),
    part!("ddr4-3200-32-bits"),
    part!("ddr5-3200-8gb-x8"),
    part!("ddr5-5600-16gb-x4"),
    part!("ddr5-6400-32gb-x16"),
];

#[derive(Clone, Debug)]
pub struct PeerRow {
    pub peer: String,
    pub profile: String,
    pub ranks: u32,
    pub mapping: String,
    pub order: OrderKind,
    pub entries: u32,
    pub page: PagePolicy,
    pub trace: String,
    pub writes_percent: u32,
    pub gb_per_sec: f64,
    pub hit_percent: Option<f64>,
    pub read_ns: Option<f64>,
}

pub fn rows() -> Vec<PeerRow> {
    let number = |text: &str| (!text.is_empty()).then(|| text.parse::<f64>().expect("a figure"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [
            peer,
            profile,
            ranks,
            mapping,
            order,
            entries,
            page,
            trace,
            writes,
            rate,
            hits,
            read,
        ] = cells[..]
        else {
            panic!("a row of twelve cells is needed: {line}");
        };
        PeerRow {
            peer: peer.to_owned(),
            profile: profile.to_owned(),
            ranks: ranks.parse().expect("ranks"),
            mapping: mapping.to_owned(),
            order: OrderKind::named(order).expect("an order"),
            entries: entries.parse().expect("entries"),
            page: match page {
                "open" => PagePolicy::Open,
                most => PagePolicy::Capped(most.parse().expect("column commands")),
            },
            trace: trace.to_owned(),
            writes_percent: writes.parse().expect("percent"),
            gb_per_sec: rate.parse().expect("GB/s"),
            hit_percent: number(hits),
            read_ns: number(read),
        }
    };
    ROWS.lines().skip(1).map(row).collect()
}

impl PeerRow {
    pub fn profile(&self) -> DramProfile {
        let found = PARTS.iter().find(|(name, _)| *name == self.profile);
        let profile = match found {
            Some((name, text)) => DramProfile::parse(text, name),
            None => DramProfile::named(&self.profile),
        };
        let mut profile = profile.expect("a profile");
        profile.organisation.ranks = self.ranks;
        profile
    }

    pub fn pattern(&self) -> TracePattern {
        TracePattern::named(&self.trace).expect("a pattern")
    }

    /// Settings of the channel. DRAMsim3's mappings are not ours: they are compared with those that are most
    /// like them.
    pub fn settings(&self, bank_entries: Option<u32>) -> ChannelSettings {
        let mapping = match self.mapping.as_str() {
            "dramsim3-default" => AddressMapping::RoBaRaCoCh,
            "dramsim3-bank-group-lsb" => AddressMapping::Mop4ClXor,
            name => AddressMapping::named(name).expect("a mapping"),
        };
        ChannelSettings {
            mapping,
            page: self.page,
            entries: self.entries,
            bank_entries,
            ..ChannelSettings::PEERS
        }
    }
}
