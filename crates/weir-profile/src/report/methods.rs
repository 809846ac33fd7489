// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each figure is, and what each rule looks for: the text of `weir profile methods`.

use crate::findings::RULES;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Method {
    /// Its name in reports.
    pub name: &'static str,
    pub is: &'static str,
    /// Counts that it needs, by role.
    pub needs: &'static str,
    /// When there is none.
    pub refused: &'static str,
}

pub const METHODS: &[Method] = &[
    Method {
        name: "loads by where they were found",
        is: "retired load instructions by the cache or memory that had the data; shares of those that were counted",
        needs: "l1d.drd.own.loads, lfb.drd.own.loads, l2.drd.own.loads, llc.drd.own.loads, imc.drd.dram-own.loads, \
                device.drd.cxl-own.loads …",
        refused: "a count is missing, or ran for less than 5 % of the time",
    },
    Method {
        name: "lines by supplier",
        is: "lines that a core asked for, demand and prefetch, by what supplied them. Not the same as loads: several \
             loads find one line, and speculation and prefetch have no load",
        needs: "sq.PATH.TARGET.lines; on AMD l1d.PATH.TARGET.lines. Prefetch without counts of its own is all reads \
                less demand",
        refused: "a count is missing, or all reads are less than their parts",
    },
    Method {
        name: "share of CXL memory",
        is: "its lines ÷ lines of the same path from all suppliers that were counted, which stand behind the figure",
        needs: "sq.PATH.cxl.lines and the other suppliers of that path",
        refused: "parts are above their whole; or the rest without a name is above 5 %: then a range is given",
    },
    Method {
        name: "residence",
        is: "occupancy ÷ inserts (Little's law): mean cycles of a request in a queue; ns by the clock of the stage, \
             which must have run at the same time",
        needs: "STAGE.PATH.TARGET.occupancy and .inserts; tor.any.any.clock, imc.any.any.clock; for cores \
                core.any.any.clock and core.any.any.time-ns",
        refused: "no clock; a clock that stood still or has an impossible rate; counts of other times; a hot box; \
                  memory that would answer within 20 ns; an occupancy that nothing entered",
    },
    Method {
        name: "waiting time",
        is: "residence less the residence in a recording of the idle machine (--idle). Where requests go to several \
             targets, that of the idle machine is taken by target, in today's mix",
        needs: "the same counts in both recordings; for several targets their parts in both",
        refused: "there is no such recording, or it had another mix of requests",
    },
    Method {
        name: "requests in one such queue, pressure",
        is: "occupancy ÷ cycles, and the same ÷ the entries of the queue",
        needs: "an occupancy, the clock of its stage, and entries that the maker publishes",
        refused: "more is in the queue than it holds",
    },
    Method {
        name: "requests in it while busy",
        is: "occupancy ÷ cycles in which the queue is not empty. Such a cycle is busy; nothing need wait in it",
        needs: "STAGE.PATH.TARGET.occupancy and .busy",
        refused: "it was never busy",
    },
    Method {
        name: "full",
        is: "cycles in which a queue, or what feeds it, is full ÷ cycles of its clock",
        needs: "STAGE.PATH.TARGET.full and the clock",
        refused: "it is above 1",
    },
    Method {
        name: "mesh and ingress",
        is: "residence of demand reads at the core less that in the table of requests; Granite Rapids counts the \
             ingress queue itself",
        needs: "sq.drd.any.occupancy and tor.drd.any.occupancy with inserts and clocks",
        refused: "it is below 0",
    },
    Method {
        name: "parts ÷ whole",
        is: "requests to DRAM and CXL memory ÷ all that missed the last-level cache; the rest has no name, and its \
             residence is by subtraction",
        needs: "tor.PATH.miss.inserts and the parts",
        refused: "the parts are above the whole",
    },
    Method {
        name: "sources",
        is: "lines from CXL memory as cores, table of requests, port and device count them, as ratios of neighbours",
        needs: "sq.reads.cxl.lines, tor.reads.cxl.inserts, port.reads.cxl.lines, device.reads.cxl.lines",
        refused: "only one of them was counted",
    },
    Method {
        name: "stalls by stage, path and target",
        is: "stalled cycles that the core counted, split by a small model of a core: a window of 512 instructions, retirement \
             in order, 16 fill buffers, loads of which a part needs the load before. That part is fitted until the model stalls \
             as much as the core; the split is read off. Stores have a branch of their own. A stall belongs to the place of the \
             request that the core waits for. Measured stalls, split by a model: the parts sum to what was measured",
        needs: "l1d.drd.miss.stalls, sb.any.any.stalls, core.any.any.clock, .instructions and .time-ns; lines or loads by \
                supplier (sq.drd.*.lines, *.drd.*.loads); tor.*.dram-own and tor.*.cxl-own .occupancy and .inserts with \
                tor.any.any.clock; better with sq.drd.any and sq.drd.miss, lfb.drd.any.occupancy, tor.drd.own, device.reads.cxl",
        refused: "one of these is missing, stalls are above all cycles, or there are none",
    },
    Method {
        name: "± of a part of the stalls",
        is: "the share is within it of the truth in nine of ten simulated cores: 3 points, what half a window changes, and what \
             is waited for prefetches and stores, with a supplier that is less well known",
        needs: "the same",
        refused: "the stalls are not split",
    },
    Method {
        name: "what if",
        is: "time now ÷ time then: the same loads, stores and dependence in the same model, where lines of CXL memory come from \
             DRAM, where all takes as long as in --idle, or without a neighbour's part of the waiting time. DRAM is busier with \
             those lines: its time is the one at which the models of all workloads and a queue of DRAM's bandwidth agree. Where \
             the bandwidth is not known, or --idle is missing, DRAM is taken to be no busier",
        needs: "those of the stalls; --idle but for the first; imc and port lines; dram_bytes_per_sec of the file, or \
                --dram-bandwidth",
        refused: "the stalls are not split; DRAM's residence, or --idle, is missing",
    },
    Method {
        name: "waits at shared stages",
        is: "at DRAM, port and device: the requests of a workload × (residence less that of --idle), shared out by the lines that \
             each workload moves there meanwhile. Writes are apportioned by the lines that stores fetch and those past the caches. \
             The bottleneck has most waiting requests, of the stages where these wait for 30 % of the idle residence or more",
        needs: "tor.*.dram-own, tor.*.cxl-own, device.reads.cxl .occupancy and .inserts; sq.reads.*.lines of each workload; --idle",
        refused: "--idle or the residences are missing",
    },
    Method {
        name: "sockets, ports and devices one by one",
        is: "of kinds of which there are several: each queue's residence, waiting time and pressure by counts of the place alone, \
             its part of the requests at all such places, its lines, and how busy a port's link is. The rules on devices, links \
             and DRAM look at each place, and name those at which they find something. A workload with nine tenths of its CPU \
             time on one socket, and nine tenths of its lines from there, is judged by that socket alone",
        needs: "counts by socket:N, port:N, device:N. What the table of requests holds is told apart by socket, not by device; \
                what a workload does is told apart by socket, if its CPU time is counted by socket",
        refused: "the place has no counts, or none in --idle for waiting times",
    },
    Method {
        name: "phases",
        is: "when what a subject does changes: seeded binary segmentation of each figure, Student's t by the scatter near it and \
             the likeness of windows that follow each other. A figure without any change shows one in a thousand recordings. \
             A phase has 4 windows or more, and begins where a figure changes by 5 % (a share: 2 points) or more. Phases are \
             alike where no figure differs by 10 % (4 points) and 3 standard errors",
        needs: "12 windows with: l1d.drd.miss.stalls, core.any.any.clock and .instructions; sq.reads (or sq.drd, tor, port, \
                device) .cxl and .dram lines; sq.reads.any, sq.pf.any; tor.drd.cxl (or sq.drd) .occupancy and .inserts",
        refused: "there are fewer windows. A window without a count is absent: it is never zero. Of a figure the formula is taken \
                  that most windows have counts for",
    },
    Method {
        name: "trend, season, forecast",
        is: "trend: the slope of a straight line in the last phase, where its interval of 99 % does not hold 0. Season: what \
             comes round after the same number of windows, four times or more (STL). Forecast: exponential smoothing \
             (Holt-Winters) of the last phase, with intervals that hold nine of ten windows to come",
        needs: "16 windows at the end of the last phase, as long as each other and without a gap",
        refused: "there are fewer, or it is the same in all",
    },
    Method {
        name: "workloads that go together",
        is: "correlation of what is new in a window (less what the window before says of it) of one workload's lines with \
             another's stalls or residence, in the same window or up to 10 later. None where chance makes as large a one \
             more often than once in a thousand recordings. It is no proof of a cause",
        needs: "30 pairs of windows of both workloads",
        refused: "it is below 0.3, or may be chance",
    },
    Method {
        name: "as PathFinder counts",
        is: "figures of its Table 7, and shares of a stall by lines alone, by fixed latencies, by residences and by its \
             Algorithm 2, mended: yardsticks, which err by 0.2 to 0.4 in a trial",
        needs: "--method pathfinder, and the counts of Table 7",
        refused: "a cell of the table is missing",
    },
];

#[derive(Clone, Copy, Debug, Serialize)]
pub struct RuleText {
    pub name: &'static str,
    pub looks_for: &'static str,
    pub condition: &'static str,
    pub refuted_by: &'static str,
    pub next_move: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct Methods {
    /// Version of the formulas.
    pub method_version: u32,
    pub figures: &'static [Method],
    pub rules: Vec<RuleText>,
}

pub fn methods() -> Methods {
    let rules = RULES.iter().map(|rule| RuleText {
        name: rule.name,
        looks_for: rule.looks_for,
        condition: rule.condition,
        refuted_by: rule.refuted_by,
        next_move: rule.next_move,
    });
    Methods {
        method_version: super::METHOD_VERSION,
        figures: METHODS,
        rules: rules.collect(),
    }
}

/// The same for people.
pub fn text(methods: &Methods) -> String {
    let mut out = format!("Figures, method version {}\n", methods.method_version);
    for method in methods.figures {
        out += &format!(
            "\n{}\n  is: {}\n  needs: {}\n  none where: {}\n",
            method.name, method.is, method.needs, method.refused
        );
    }
    out += "\nRules\n";
    for rule in &methods.rules {
        out += &format!(
            "\n{}\n  looks for: {}\n  found where: {}\n  refuted by: {}\n  next: {}\n",
            rule.name, rule.looks_for, rule.condition, rule.refuted_by, rule.next_move
        );
    }
    out
}
