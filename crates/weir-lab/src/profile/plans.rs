// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a run is counted: all events all the time, which no machine can; in turns; occupancies shared out over
//! home agents.

use super::comparison::Aims;
use clap::ValueEnum;
use weir_server_model::CountingPlan;
use weir_server_model::pmu::{EventSet, UnitKind};

/// Length of a turn, µs.
const TURN_US: f64 = 5.0;
/// Windows with turns are so many times as long as those without: a set runs for a fifth of them or less.
const TURNS_WINDOW_RATIO: f64 = 5.0;

/// How a run is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Counting {
    /// All events, all the time
    All,
    /// Sets of events that real counters can hold, in turns
    Turns,
    /// Different home agents count different occupancies at the same time
    Spread,
}

/// Paths and targets of the table of requests, one set each: they all need its counter 0.
const TABLE: &[&str] = &[
    "drd.all",
    "drd.hit",
    "drd.dram",
    "drd.cxl",
    "rfo.hit",
    "rfo.dram",
    "rfo.cxl",
    "drd_pref.hit",
    "drd_pref.dram",
    "drd_pref.cxl",
    "wb.dram",
    "wb.cxl",
];

/// Those of the roles above that home agents share out.
const SHARED: &[&str] = &["drd.all", "drd.hit", "drd.dram", "drd.cxl", "drd_pref.cxl"];

/// Demand reads in the super queue, and those of them that missed the last-level cache; by what supplied
/// them, of the same time.
const SUPER_QUEUE: &str = "offcore_outstanding.drd offcore_requests.drd offcore_outstanding.l3_miss_drd \
                           offcore_requests.l3_miss_drd ocr.drd.dram ocr.drd.cxl";

/// Sets of a CPU: four of these events fit at once, and two responses.
const CPU: &[&str] = &[
    "stalls.l1d_miss stalls.l2_miss stalls.l3_miss stalls.bound_on_stores",
    "stalls.total store_buffer.full l1d_pend_miss.fb_full l1d_pend_miss.l2_stalls",
    "l1d_pend_miss.pending l1d_pend_miss.pending_cycles l1d.replacement stores.all",
    SUPER_QUEUE,
    "offcore_outstanding.rfo offcore_requests.rfo offcore_outstanding.drd_cycles offcore_requests.all",
    "loads.all loads.l1_hit loads.fb_hit loads.l2_hit ocr.drd.l3_hit ocr.rfo.l3_hit",
    "loads.l3_hit loads.dram loads.cxl loads.l3_miss",
    "l2.drd_hit l2.drd_miss l2.rfo_hit l2.rfo_miss ocr.rfo.dram ocr.rfo.cxl",
    "l2.pf_hit l2.pf_miss l2.out_clean l2.out_dirty ocr.reads.dram ocr.reads.cxl",
];

/// Sets of the other boxes.
const OTHERS: &[(UnitKind, &str)] = &[
    (UnitKind::Imc, "clock rpq_inserts rpq_occupancy cas.rd"),
    (UnitKind::Imc, "clock wpq_inserts wpq_occupancy cas.wr"),
    (
        UnitKind::M2p,
        "clock rxc_req_inserts rxc_req_occupancy rxc_req_cycles_ne",
    ),
    (
        UnitKind::M2p,
        "clock rxc_data_inserts rxc_data_occupancy rxc_data_cycles_ne",
    ),
    (
        UnitKind::CxlCm,
        "clock rxc_inserts.mem_rsp rxc_inserts.mem_data rxc_occupancy",
    ),
    (
        UnitKind::CxlCm,
        "clock txc_inserts.mem_req txc_inserts.mem_data txc_occupancy",
    ),
    (
        UnitKind::CxlDevice,
        "clock queue_inserts queue_occupancy m2s.rwd",
    ),
];

impl Counting {
    pub const ALL: [Counting; 3] = [Counting::All, Counting::Turns, Counting::Spread];

    /// Its name, in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Counting::All => "all",
            Counting::Turns => "turns",
            Counting::Spread => "spread",
        }
    }

    /// The plan; none counts everything.
    pub fn plan(self) -> Option<CountingPlan> {
        let table = |cells: &[&str]| -> Vec<EventSet> {
            let of = |cell: &&str| format!("clock tor_occupancy.{cell} tor_inserts.{cell}");
            cells
                .iter()
                .map(|cell| set(UnitKind::Cha, &of(cell)))
                .collect()
        };
        let sets = match self {
            Counting::All => return None,
            Counting::Turns => {
                let cpu = CPU
                    .iter()
                    .map(|events| set(UnitKind::Cpu, &format!("cycles instructions {events}")));
                let others = OTHERS.iter().map(|(unit, events)| set(*unit, events));
                let sets = table(TABLE).into_iter().chain(cpu).chain(others);
                sets.collect()
            }
            Counting::Spread => {
                let mut sets = table(SHARED);
                sets.push(set(
                    UnitKind::Cpu,
                    &format!("cycles instructions {SUPER_QUEUE}"),
                ));
                sets
            }
        };
        Some(CountingPlan {
            turn_us: Some(TURN_US),
            // Events take turns as weir records them: home agents, channels and ports begin at different
            // sets.
            is_spread: true,
            is_unlimited: false,
            set: sets,
            fault: Vec::new(),
        })
    }

    /// Windows are so many times as long as the scenario says.
    pub fn window_ratio(self) -> f64 {
        match self {
            Counting::Turns | Counting::Spread => TURNS_WINDOW_RATIO,
            Counting::All => 1.0,
        }
    }

    /// What is aimed at.
    pub fn aim(self, aims: Aims) -> f64 {
        match self {
            Counting::All => aims.all,
            Counting::Turns => aims.turns,
            Counting::Spread => aims.spread,
        }
    }
}

fn set(unit: UnitKind, events: &str) -> EventSet {
    EventSet {
        unit,
        events: events.split(' ').map(str::to_owned).collect(),
    }
}
