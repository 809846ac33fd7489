// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons and provenances in words, short for a table's cell and long for a sentence. One place,
//! so that table, explanation and log say the same thing.

use weir_core::rates::attribution::Provenance;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::observation::{Excluded, LatencyReading, LatencySource, LimitedWeight};
use weir_core::seam::plan::{
    Decision, DirectionTraffic, FairShare, SharedResource, TrafficBreakdown, Why,
};
use weir_core::seam::sched_stats::{EnqueueCost, Mode, SchedStats, WorkloadStats};
use weir_core::{BytesPerSec, Nanos};
use weir_figures::text;

/// An age of at least this is shown.
const OLD: Nanos = Nanos::from_millis(1000);

/// The source of a latency in one word; nothing for a model or an unknown source.
pub fn latency_source(latency: &LatencyReading) -> Option<&'static str> {
    match latency.source {
        LatencySource::Probe => Some("probe"),
        LatencySource::PerfEvents => Some("perf"),
        LatencySource::Model | LatencySource::Unknown => None,
    }
}

/// The age of a latency from [`OLD`] on, as text behind the latency.
pub fn latency_age(latency: &LatencyReading, now: Nanos) -> String {
    let age = now.since(latency.mean_ns.at).filter(|age| *age >= OLD);
    age.map_or_else(String::new, |age| format!(", {age} old"))
}

/// A latency in a sentence, or why there is none.
pub fn latency(latency: &LatencyReading, now: Nanos) -> String {
    let by = latency_source(latency).map_or_else(String::new, |source| format!(" by {source}"));
    match &latency.mean_ns.value {
        Ok(mean) => format!("latency {mean}{by}{}", latency_age(latency, now)),
        Err(why) => format!("latency {}", text::harmless(&why.to_string())),
    }
}

/// An earlier limit is still in force, and this tick's decision needs none.
pub fn is_being_released(verdict: &Decision) -> bool {
    let needs_none = matches!(verdict.why, Why::BelowFairShare | Why::Headroom);
    verdict.limit_cpus.is_some() && needs_none
}

/// What weir did to the weight of a limited workload, as text behind its limit. Empty for a workload without
/// a limit, and where the decision has no weight.
pub fn weight(verdict: &Decision) -> String {
    match verdict
        .limited_weight
        .as_ref()
        .filter(|_| verdict.limit_cpus.is_some())
    {
        Some(LimitedWeight::Lowered { ratio }) => {
            format!(", at {} of its weight", text::whole_percent(*ratio))
        }
        Some(LimitedWeight::LeftAlone { why }) => {
            format!(", at its own weight ({})", text::harmless(why))
        }
        None => String::new(),
    }
}

/// Why a workload has the limit it has, or none. At most 11 cells.
pub fn verdict_short(verdict: &Decision) -> &'static str {
    if is_being_released(verdict) {
        "releasing"
    } else {
        why_short(&verdict.why)
    }
}

/// The same as a sentence without its full stop, harmless on a terminal.
pub fn verdict_long(verdict: &Decision) -> String {
    let why = why_long(&verdict.why);
    if is_being_released(verdict) {
        format!("its limit is being lifted: {why}")
    } else {
        why
    }
}

fn why_short(why: &Why) -> &'static str {
    match why {
        Why::ObserveOnly => "observing",
        Why::Excluded { by } => match by {
            Excluded::Kernel => "kernel",
            Excluded::Init => "init",
            Excluded::Root => "root",
            Excluded::Unlisted => "unlisted",
            Excluded::Inner => "inner",
            Excluded::Domain(_) => "domain",
            Excluded::NoCpuMax(_) => "no cpu.max",
            Excluded::Weir => "weir",
            Excluded::RealTime => "real-time",
            Excluded::ByUser(_) => "excluded",
        },
        Why::Learning => "learning",
        Why::BelowFairShare => "below share",
        Why::Headroom => "headroom",
        Why::Limited { .. } => "limited",
        Why::AtFloor => "floor",
        Why::NoData { .. } => "no data",
        Why::NotEnforced { .. } => "unenforced",
    }
}

/// What would have a workload limited that is not, where something would.
pub fn next_move(why: &Why) -> Option<NextMove> {
    match why {
        Why::Excluded {
            by: Excluded::Domain(_),
        } => Some(NextMove {
            act: Act::Command("weir run --limit --limit-domains".into()),
            why: why_long(why),
            needs: Precondition::Operator("all of the domain may be held back".into()),
        }),
        _ => None,
    }
}

/// What weir's scheduler did and what that costs, as a line.
pub fn scheduler(stats: &SchedStats) -> String {
    let tasks = match stats.mode {
        Mode::Partial => "the limited tasks",
        Mode::Full => "all ordinary tasks",
    };
    let mut line = format!("weir's scheduler has {tasks}");
    if let Some(each) = stats.tick_cost_ns.0.checked_div(stats.ticks) {
        line += &format!(": {} ticks of {}", stats.ticks, Nanos(each));
    }
    if stats.longest_gap_ns > Nanos(0) {
        line += &format!(", {} apart at most", stats.longest_gap_ns);
    }
    if let Some(mean) = stats.enqueue.mean_ns() {
        let EnqueueCost {
            count, worst_ns, ..
        } = stats.enqueue;
        line += &format!(", {count} times queued at {mean} each, {worst_ns} at most");
    }
    let capped: u64 = stats.devices.iter().map(|d| d.capped_ticks).sum();
    if capped > 0 {
        line += &format!("; its overload cap held for {capped} ticks");
    }
    for device in stats.devices.iter().filter(|d| d.ext_updates > 0) {
        line += &format!(
            "; {} counted by weir for it {} times",
            device.id, device.ext_updates
        );
    }
    let lost: u64 = stats.devices.iter().map(|d| d.lost_intervals).sum();
    let failed: u64 = stats.devices.iter().map(|d| d.failed_reads).sum();
    if lost > 0 {
        line += &format!("; counters not read at {lost} ticks, {failed} tries");
    }
    if stats.suspensions > 0 {
        line += &format!(
            "; suspended all limits {} times without weir's heartbeat",
            stats.suspensions
        );
    }
    if stats.stalled_dispatches > 0 {
        line += &format!(
            "; {} dispatches of tasks that had waited for seconds",
            stats.stalled_dispatches
        );
    }
    line
}

/// What it did to one workload, where there is little room.
pub fn scheduled_short(stats: &WorkloadStats) -> String {
    format!(
        "parked {} times for up to {}, {} wait now; {} preemptions",
        stats.parks, stats.worst_wait_ns, stats.waiting, stats.preempts
    )
}

/// What it did to one workload, as a line.
pub fn scheduled(stats: &WorkloadStats) -> String {
    format!(
        "parked {} times, {} altogether, for {} at most; {} preemptions, {} runs in debt; {} wait now",
        stats.parks,
        stats.parked_ns,
        stats.worst_wait_ns,
        stats.preempts,
        stats.starvation_runs,
        stats.waiting
    )
}

/// A sentence without its full stop, harmless on a terminal.
pub fn why_long(why: &Why) -> String {
    match why {
        Why::ObserveOnly => "weir observes only; --limit makes it act".to_owned(),
        Why::Excluded { by } => text::harmless(&by.to_string()),
        Why::Learning => "not enough is known yet to limit it".to_owned(),
        Why::BelowFairShare => "it takes less than its fair share of the set-point".to_owned(),
        Why::Headroom => "the device has headroom".to_owned(),
        Why::Limited {
            policy,
            demand_bytes_per_sec,
            seen_free_ago_ns,
            ..
        } => {
            let moved = text::rate(*demand_bytes_per_sec);
            let policy = text::harmless(policy);
            match seen_free_ago_ns {
                Some(ago) => format!(
                    "limited by {policy}: it moved {moved} when no limit held it back, {} ago",
                    text::ago(ago.0 / 1_000_000)
                ),
                None => format!("limited by {policy}: it was never seen without a limit"),
            }
        }
        Why::AtFloor => "limited to the floor that every workload keeps".to_owned(),
        Why::NoData { detail } => {
            format!(
                "its traffic is not known at the moment: {}",
                text::harmless(detail)
            )
        }
        Why::NotEnforced { detail } => {
            format!(
                "it should be limited and is not: {}",
                text::harmless(detail)
            )
        }
    }
}

/// A workload's dominant share beside its part, as a line.
pub fn fair_share(fair: &FairShare) -> String {
    let name = |resource: SharedResource| match resource {
        SharedResource::Cpu => "CPU time".to_owned(),
        SharedResource::Device(device) => device.to_string(),
    };
    let mut line = format!(
        "needs {} most: has {} of it, its part is {}",
        name(fair.dominant),
        text::whole_percent(fair.used_ratio),
        text::whole_percent(fair.target_ratio)
    );
    match fair.held_back_by {
        Some(SharedResource::Cpu) => line += "; no more, because CPUs are full",
        Some(SharedResource::Device(device)) => {
            line += &format!("; no more, because the budget of {device} is shared out");
        }
        None => {}
    }
    if fair.is_by_cpu_alone {
        line += "; its traffic is not known, so that it counts by CPU time alone";
    }
    line
}

/// Names of provenances are at most 8 cells wide.
pub fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Counted => "counted",
        Provenance::Sampled => "sampled",
        Provenance::Apportioned => "estimate",
        Provenance::Unknown => "unknown",
    }
}

/// A bandwidth by direction, each with how it is known, and how old it is. `writes` is what the devices
/// count.
pub fn traffic(traffic: &TrafficBreakdown, writes: Option<BytesPerSec>) -> String {
    let flow = |flow: &DirectionTraffic, shared: &str| {
        let how = match flow.provenance {
            Provenance::Counted => "counted",
            Provenance::Sampled => "shared out by accesses of each task",
            Provenance::Apportioned => shared,
            Provenance::Unknown => "not known",
        };
        format!("{} ({how})", text::rate(flow.bytes_per_sec))
    };
    let by_time = "an estimate, by CPU time and resident memory";
    // Reads and writes of a device are apportioned alike, whatever a workload does.
    let mut guessed = "guessed: no count says which task writes".to_owned();
    if let Some(writes) = writes {
        guessed += &format!("; the device counts {}", text::rate(writes));
    }
    let mut line = format!(
        "reads {}, writes {}",
        flow(&traffic.read, by_time),
        flow(&traffic.write, &guessed)
    );
    let age_ms = traffic.age_ns.0 / 1_000_000;
    if age_ms > 0 {
        line += &format!("; readings up to {age_ms} ms old");
    }
    line
}

/// A sentence without its full stop.
pub fn provenance_long(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Counted => "counted by the device: it is alone in its group",
        Provenance::Sampled => "the device's count, shared out by accesses of each task",
        Provenance::Apportioned => {
            "an estimate: the device's count, shared out by CPU time and resident memory"
        }
        Provenance::Unknown => "not known",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::DeviceId;
    use weir_core::seam::sched_stats::DeviceStats;

    #[test]
    fn a_limit_that_has_not_yet_ended_is_not_called_none() {
        let snapshot = crate::top::testing::snapshot(0, 200.0);
        let mut verdict = snapshot.plan.workloads[1].clone();
        assert_eq!(verdict_short(&verdict), "below share");
        verdict.limit_cpus = Some(weir_core::CpuShare::new(0.07));
        assert_eq!(verdict_short(&verdict), "releasing");
        let long = verdict_long(&verdict);
        assert!(
            long.contains("less than its fair share") && long.contains("being lifted"),
            "{long}"
        );
        let cut = &snapshot.plan.workloads[0];
        assert_eq!(verdict_short(cut), "limited");
        assert!(!verdict_long(cut).contains("lifted"));
    }

    #[test]
    fn a_domain_that_is_shared_is_named_with_what_it_holds_and_with_the_next_move() {
        let why = |others: &[&str]| Why::Excluded {
            by: Excluded::Domain(others.iter().map(ToString::to_string).collect()),
        };
        let whole = "a limit is possible only for its whole threaded domain";
        assert_eq!(why_long(&why(&[])), whole);
        let shared = why(&["/d/b: web (7)\u{1b}[2J", "2 more processes"]);
        let said = why_long(&shared);
        assert!(said.starts_with(&format!("{whole}, and would hold back /d/b: web (7)")));
        assert!(said.ends_with(", 2 more processes too") && !said.contains('\u{1b}'));
        let command = Act::Command("weir run --limit --limit-domains".into());
        assert!(next_move(&shared).is_some_and(|next| next.act == command));
        assert_eq!(
            next_move(&Why::Excluded {
                by: Excluded::Inner
            }),
            None
        );
    }

    #[test]
    fn a_weight_is_shown_behind_its_limit() {
        let snapshot = crate::top::testing::snapshot(0, 200.0);
        let mut verdict = snapshot.plan.workloads[0].clone();
        assert_eq!(weight(&verdict), "");
        verdict.limited_weight = Some(LimitedWeight::Lowered { ratio: 0.25 });
        assert_eq!(weight(&verdict), ", at 25 % of its weight");
        let why = "cpu.idle is 1\u{1b}[2J".to_owned();
        verdict.limited_weight = Some(LimitedWeight::LeftAlone { why });
        let said = weight(&verdict);
        assert!(
            said.starts_with(", at its own weight (cpu.idle is 1"),
            "{said}"
        );
        assert!(!said.contains('\u{1b}'));
        verdict.limit_cpus = None;
        assert_eq!(weight(&verdict), "", "no limit of ours");
    }

    #[test]
    fn the_figures_of_a_cut_are_those_that_decided() {
        let rate = weir_core::BytesPerSec::new;
        let mib = 1_048_576.0;
        let cut = Why::Limited {
            policy: "max-min".into(),
            demand_bytes_per_sec: rate(64.0 * mib),
            seen_free_ago_ns: Some(weir_core::Nanos::from_millis(54_000)),
            device_bytes_per_sec: rate(0.0),
            asked_bytes_per_sec: Some(rate(1200.0 * mib)),
        };
        assert_eq!(
            why_long(&cut),
            "limited by max-min: it moved 64.0 MiB/s when no limit held it back, 54 s ago"
        );
    }

    #[test]
    fn a_share_is_named_with_its_resource_and_what_holds_it_back() {
        let mut fair = FairShare {
            dominant: SharedResource::Device(DeviceId(1)),
            used_ratio: 0.31,
            target_ratio: 0.3,
            held_back_by: Some(SharedResource::Cpu),
            is_by_cpu_alone: false,
        };
        let said = "needs cxl1 most: has 31 % of it, its part is 30 %";
        let full = "; no more, because CPUs are full";
        assert_eq!(fair_share(&fair), format!("{said}{full}"));
        fair.held_back_by = Some(fair.dominant);
        let shared = "; no more, because the budget of cxl1 is shared out";
        assert_eq!(fair_share(&fair), format!("{said}{shared}"));
        (fair.dominant, fair.held_back_by) = (SharedResource::Cpu, None);
        fair.is_by_cpu_alone = true;
        assert_eq!(
            fair_share(&fair),
            "needs CPU time most: has 31 % of it, its part is 30 %; its traffic is not known, so that it \
             counts by CPU time alone"
        );
    }

    #[test]
    fn writes_that_no_count_explains_are_called_guessed() {
        let flow = |bytes_per_sec: f64, provenance| DirectionTraffic {
            bytes_per_sec: BytesPerSec::new(bytes_per_sec),
            provenance,
        };
        let mut seen = TrafficBreakdown {
            read: flow(2000.0, Provenance::Sampled),
            write: flow(1000.0, Provenance::Apportioned),
            age_ns: Nanos(999_999),
        };
        let guessed = "writes 1000 B/s (guessed: no count says which task writes; the device counts 1.17 KiB/s)";
        let said = traffic(&seen, Some(BytesPerSec::new(1200.0)));
        assert!(said.ends_with(guessed), "{said}");
        seen.read.provenance = Provenance::Apportioned;
        assert!(traffic(&seen, Some(BytesPerSec::new(1200.0))).ends_with(guessed));
        // Alone in its group, or with stores counted.
        for known in [Provenance::Counted, Provenance::Sampled] {
            seen.write.provenance = known;
            assert!(!traffic(&seen, None).contains("guessed"));
        }
        seen.age_ns = Nanos(7_000_000);
        assert!(traffic(&seen, None).ends_with("; readings up to 7 ms old"));
    }

    #[test]
    fn the_line_names_devices_that_weir_counts_for_the_scheduler() {
        let device = DeviceStats {
            id: DeviceId(1),
            scale_ratio: 1.0,
            lost_intervals: 0,
            failed_reads: 0,
            ext_updates: 0,
            capped_ticks: 0,
        };
        let mut stats = SchedStats {
            mode: Mode::Full,
            ticks: 0,
            tick_cost_ns: Nanos(0),
            suspensions: 0,
            stalled_dispatches: 0,
            longest_gap_ns: Nanos(0),
            enqueue: EnqueueCost::default(),
            devices: vec![device],
            workloads: std::collections::BTreeMap::new(),
        };
        let plain = "weir's scheduler has all ordinary tasks";
        assert_eq!(scheduler(&stats), plain);
        stats.devices[0].ext_updates = 7;
        let counted = format!("{plain}; cxl1 counted by weir for it 7 times");
        assert_eq!(scheduler(&stats), counted);
        (
            stats.devices[0].lost_intervals,
            stats.devices[0].failed_reads,
        ) = (2000, 11);
        assert!(scheduler(&stats).ends_with("; counters not read at 2000 ticks, 11 tries"));
    }
}
