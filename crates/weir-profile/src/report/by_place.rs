// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets, ports and devices one by one, where a recording has several: the queues of each with its part of
//! the requests, lines that it moves, and how busy its link is. Only counts of the place itself are used.

use super::scene::total_length;
use crate::Answer;
use crate::counts::Counts;
use crate::figure::Unit;
use crate::figure::places::places_apart;
use crate::quality::Refusal;
use crate::stages::{StageFigures, clock_of, queue};
use crate::window_file::WindowFile;
use serde::Serialize;
use weir_core::window::CountScope;
use weir_core::window::role::{Quantity, Stage};
use weir_core::{Role, Window};

/// Figures of one place of several.
#[derive(Debug, Serialize)]
pub struct PlaceFigures {
    /// Which: `socket:0`, `port:1`, `device:1`.
    pub place: CountScope,
    pub queues: Vec<PlaceQueue>,
    /// Lines that it moves.
    pub lines: Vec<PlaceLines>,
    /// Cycles in which a direction of a port's link is busy ÷ cycles of its clock.
    pub busy: Vec<(Role, Answer)>,
}

#[derive(Debug, Serialize)]
pub struct PlaceQueue {
    #[serde(flatten)]
    pub figures: StageFigures,
    /// Its requests ÷ those at all such places.
    pub share: Answer,
}

#[derive(Debug, Serialize)]
pub struct PlaceLines {
    pub role: Role,
    pub per_sec: Answer,
    /// Lines of this place ÷ those of all such places.
    pub share: Answer,
}

/// Counts of a place, without those of anything else.
fn counts_at(windows: &[Window], place: CountScope) -> Counts {
    let counts = windows.iter().flat_map(|window| &window.machine);
    Counts::new(
        counts.filter(|count| count.of == place),
        total_length(windows),
    )
}

/// All places, in order; none where there is one of each kind at most.
pub fn by_place(file: &WindowFile, idle: Option<&WindowFile>) -> Vec<PlaceFigures> {
    let places = places_apart(&file.windows);
    if places.is_empty() {
        return Vec::new();
    }
    let machine = file.windows.iter().flat_map(|window| &window.machine);
    let all = Counts::new(machine, total_length(&file.windows));
    let figures = places.into_iter().map(|place| {
        let own = counts_at(&file.windows, place);
        let quiet = idle.map(|idle| counts_at(&idle.windows, place));
        PlaceFigures::new(file, place, [&own, &all], quiet.as_ref())
    });
    figures.collect()
}

impl PlaceFigures {
    fn new(
        file: &WindowFile,
        place: CountScope,
        [own, all]: [&Counts; 2],
        idle: Option<&Counts>,
    ) -> PlaceFigures {
        let with = |quantity| own.roles().filter(move |role| role.quantity == quantity);
        let share = |role: Role| {
            let whole = all.get(role)?;
            own.get(role)?.share_of(&whole, "those at all such places")
        };
        let queues = with(Quantity::Occupancy).map(|role| PlaceQueue {
            figures: queue(own, idle, role, &file.header.capacities),
            share: share(role.with(Quantity::Inserts)),
        });
        let lines = with(Quantity::Lines).map(|role| PlaceLines {
            role,
            per_sec: per_sec(own, role),
            share: share(role),
        });
        let busy = with(Quantity::Busy).filter(|role| role.stage == Stage::Port);
        PlaceFigures {
            place,
            queues: queues.collect(),
            lines: lines.collect(),
            busy: busy.map(|role| (role, busy_part(own, role))).collect(),
        }
    }
}

fn per_sec(counts: &Counts, role: Role) -> Answer {
    let lines = counts.get(role)?;
    let length = counts.length().ok_or(Refusal::NoTime)?;
    Ok(lines.and(&lines, lines.value / length.secs_f64(), Unit::LinesPerSec))
}

fn busy_part(counts: &Counts, role: Role) -> Answer {
    let clock = clock_of(role.stage).ok_or(Refusal::NoTime)?;
    let (busy, ticks) = counts.with_clock(role, clock)?;
    busy.share_of(&ticks, "cycles of the port")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;
    use crate::figure::places::place_words;
    use crate::findings::RuleOutcome;
    use crate::report::{Options, Report, report};
    use crate::window_file::Header;
    use weir_core::WorkloadId;
    use weir_core::window::{Count, WorkloadCounts};

    const S: u64 = 1_000_000_000;

    /// Two devices on a socket. Requests stay so long in each, ns; the second has a third of them.
    fn machine(device_ns: [u64; 2]) -> Vec<Count> {
        let at = |of, role: &str, value| Count {
            of,
            ..count(role, value)
        };
        let requests = [16_000_000, 8_000_000];
        let held: u64 = (0..2).map(|n| requests[n] * (device_ns[n] + 100)).sum();
        let socket = CountScope::Socket(0);
        let mut all = vec![
            at(socket, "tor.any.any.clock", S),
            at(socket, "tor.drd.cxl-own.inserts", 24_000_000),
            at(socket, "tor.drd.cxl-own.occupancy", held),
            at(socket, "tor.drd.dram-own.inserts", 2_000_000),
            at(socket, "tor.drd.dram-own.occupancy", 2_000_000 * 90),
        ];
        for (n, (requests, ns)) in (0..).zip(requests.into_iter().zip(device_ns)) {
            let device = CountScope::Device(n);
            all.extend([
                at(device, "device.any.any.clock", S),
                at(device, "device.any.cxl.inserts", requests),
                at(device, "device.any.cxl.occupancy", requests * ns),
                at(device, "device.reads.cxl.lines", requests),
            ]);
        }
        all
    }

    /// A chain of loads on CXL memory, 400 ns each.
    fn workload() -> Vec<Count> {
        let all = [
            ("core.any.any.clock", 2 * S),
            ("core.any.any.time-ns", S),
            ("core.any.any.instructions", S / 10),
            ("l1d.drd.miss.stalls", 2 * S * 9 / 10),
            ("sb.any.any.stalls", 0),
            ("device.drd.cxl-own.loads", 24_000_000),
            ("sq.drd.cxl-own.lines", 24_000_000),
            ("sq.reads.cxl-own.lines", 24_000_000),
        ];
        all.map(|(role, value)| count(role, value)).into()
    }

    /// The same, whose reads that miss the last-level cache stay so long at the core.
    fn with_misses(name: &str, ns: u64) -> WorkloadCounts {
        let mut counts = workload();
        counts.push(count("sq.drd.miss.inserts", 24_000_000));
        counts.push(count("sq.drd.miss.occupancy", 24_000_000 * 2 * ns));
        WorkloadCounts {
            id: WorkloadId::new(name),
            counts,
        }
    }

    fn file(machine: Vec<Count>) -> WindowFile {
        WindowFile {
            header: Header::new("a test"),
            windows: vec![Window {
                to: weir_core::Nanos(S),
                machine,
                workloads: vec![WorkloadCounts {
                    id: WorkloadId::new("db"),
                    counts: workload(),
                }],
                ..Window::default()
            }],
        }
    }

    fn made(device_ns: [u64; 2]) -> Report {
        let idle = file(machine([200, 200]));
        let options = Options {
            idle: Some(&idle),
            ..Options::default()
        };
        report(&file(machine(device_ns)), &options)
    }

    fn places(made: &Report, rule: &str, subject: &str) -> Option<(Vec<String>, String)> {
        let mut all = made.rules.iter();
        let said = all.find(|one| one.rule == rule && one.subject == subject)?;
        match &said.outcome {
            RuleOutcome::Found(finding) => {
                let places = finding.places.iter().map(|place| place_words(*place));
                Some((places.collect(), finding.what.clone()))
            }
            _ => None,
        }
    }

    #[test]
    fn each_device_has_its_residence_its_wait_and_its_part() {
        let made = made([200, 2600]);
        let shown: Vec<String> = made
            .by_place
            .iter()
            .map(|one| place_words(one.place))
            .collect();
        assert_eq!(shown, ["device 0", "device 1"]);
        let queue = |n: usize| &made.by_place[n].queues[0];
        let value = |answer: &Answer| answer.as_ref().unwrap().value;
        let figures = |n| {
            let queue = queue(n);
            let times = [&queue.figures.residence_ns, &queue.figures.waiting_ns];
            times.map(|answer| value(answer).round())
        };
        assert_eq!((figures(0), figures(1)), ([200.0, 0.0], [2600.0, 2400.0]));
        assert!((value(&queue(1).share) - 1.0 / 3.0).abs() < 1e-9);
        assert!((value(&made.by_place[0].lines[0].share) - 2.0 / 3.0).abs() < 1e-9);
    }

    /// The mean over both devices hides which of them is full.
    #[test]
    fn a_finding_names_the_device() {
        let (places_at, what) = places(&made([200, 2600]), "device_saturated", "db").unwrap();
        assert_eq!(places_at, ["device 1"]);
        assert!(
            what.contains("13.0 times") && what.ends_with(", at device 1"),
            "{what}"
        );
        let caveat = |ns| {
            let rules = made(ns).rules.into_iter();
            let found = rules.filter_map(|one| match one.outcome {
                RuleOutcome::Found(finding) if one.rule == "device_saturated" => finding.caveat,
                _ => None,
            });
            found.collect::<Vec<String>>()
        };
        assert!(caveat([200, 2600])[0].contains("was not counted"));
        assert_eq!(caveat([2600, 2600]), [""; 0], "it is of all places");
        let (both, _) = places(&made([2600, 2600]), "device_saturated", "db").unwrap();
        assert_eq!(both, ["device 0", "device 1"]);
        assert_eq!(places(&made([200, 200]), "device_saturated", "db"), None);
    }

    /// One of two workloads reads from the full device: the other's reads take no longer than before.
    #[test]
    fn only_the_workload_that_waits_there_has_the_finding() {
        let of = |device_ns, own: [u64; 2]| {
            let mut file = file(machine(device_ns));
            file.windows[0].workloads = ["db", "web"]
                .into_iter()
                .zip(own)
                .map(|(name, ns)| with_misses(name, ns))
                .collect();
            file
        };
        let idle = of([200, 200], [300, 300]);
        let options = Options {
            idle: Some(&idle),
            ..Options::default()
        };
        let made = report(&of([200, 2600], [2700, 310]), &options);
        let found = |subject| places(&made, "device_saturated", subject).map(|(at, _)| at);
        assert_eq!(found("db"), Some(vec!["device 1".to_owned()]));
        assert_eq!(found("web"), None, "{:?}", made.headline);
    }

    /// Where there is no queue of each device, the table of requests has one figure for both: none is named.
    #[test]
    fn what_is_not_told_apart_is_not_named() {
        let only_lines = |ns| {
            let mut machine = machine(ns);
            machine.retain(|count| !count.role.to_string().contains("device.any.cxl"));
            file(machine)
        };
        let idle = only_lines([200, 200]);
        let options = Options {
            idle: Some(&idle),
            ..Options::default()
        };
        let made = report(&only_lines([200, 2600]), &options);
        let (at, what) = places(&made, "device_saturated", "db").unwrap();
        assert!(at.is_empty() && !what.contains(", at device"), "{what}");
    }
}
