// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two sockets, each a simulated server with its device, without traffic between them: `A+B` runs scenario A
//! on socket 0 and B on socket 1. Their counts stand in one file as `weir profile record` would write them:
//! boxes of a socket in one sum, ports and devices numbered on.

use super::scenarios::ServerRuns;
use super::windows::summed;
use super::{ServerRecording, record_idle, record_server};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use weir_core::window::role::Quantity;
use weir_core::window::{Count, CountScope, WorkloadCounts};
use weir_core::{Nanos, Role, Window, WorkloadId};
use weir_profile::WindowFile;
use weir_server_model::Scenario;

/// What is between two scenarios.
const JOINT: char = '+';
/// Seeds of the second socket are so far from those of the first.
const SEED_STEP: u64 = 1 << 32;

/// What a seed runs: a scenario, or two on a socket each.
pub struct SocketRuns(Vec<ServerRuns>);

impl SocketRuns {
    /// The runs by the name of a scenario, or `A+B`.
    ///
    /// # Errors
    /// As [`ServerRuns::named`].
    pub fn named(name: &str) -> Result<SocketRuns> {
        let two = name.split_once(JOINT);
        let two = two.filter(|_| !Path::new(name).is_file());
        let runs = match two {
            Some((first, second)) => vec![ServerRuns::named(first)?, ServerRuns::named(second)?],
            None => vec![ServerRuns::named(name)?],
        };
        Ok(SocketRuns(runs))
    }

    /// The scenarios of a seed, each with its own seed. The windows are as long as those of the first.
    ///
    /// # Errors
    /// As [`ServerRuns::scenario`].
    pub fn scenarios(&self, seed: u64) -> Result<Vec<(Scenario, u64)>> {
        let mut all: Vec<(Scenario, u64)> = Vec::new();
        for (socket, runs) in (0u64..).zip(&self.0) {
            let seed = seed.wrapping_add(socket * SEED_STEP);
            let mut scenario = runs.scenario(seed)?;
            if let Some((first, _)) = all.first() {
                scenario.run = first.run.clone();
            }
            all.push((scenario, seed));
        }
        Ok(all)
    }
}

/// What all sockets counted, and what was so on each.
pub struct SocketRecording {
    /// Counts of all sockets.
    pub file: WindowFile,
    /// The same of the idle machine.
    pub idle: WindowFile,
    pub sockets: Vec<ServerRecording>,
}

/// Runs the scenarios of a seed.
///
/// # Errors
/// As [`record_server`].
pub fn record_sockets(scenarios: &[(Scenario, u64)]) -> Result<SocketRecording> {
    let mut sockets = Vec::new();
    let mut idles = Vec::new();
    for (scenario, seed) in scenarios {
        sockets.push(record_server(scenario, *seed)?);
        idles.push(record_idle(scenario, *seed)?);
    }
    let files = sockets.iter().map(|socket| socket.file.clone()).collect();
    Ok(SocketRecording {
        file: joined(files),
        idle: joined(idles),
        sockets,
    })
}

/// The windows of all sockets, side by side; that of a single one as it is. Windows without a machine, of
/// workloads alone, follow each other.
fn joined(mut files: Vec<WindowFile>) -> WindowFile {
    if files.len() == 1
        && let Some(only) = files.pop()
    {
        return only;
    }
    let header = files.first().map(|file| file.header.clone());
    let mut header = header.unwrap_or_else(|| weir_profile::window_file::Header::new(""));
    // Of queues that are as long on each socket.
    header.capacities.retain(|queue, entries| {
        let of = |file: &WindowFile| file.header.capacities.get(queue) == Some(entries);
        files.iter().all(of)
    });
    let sources = files.iter().map(|file| file.header.source.clone());
    header.source = sources.collect::<Vec<_>>().join("; ");
    let mut all: Vec<Window> = Vec::new();
    let mut alone: Vec<Window> = Vec::new();
    let (mut ports, mut devices) = (0, 0);
    for (socket, file) in (0u32..).zip(files) {
        let scopes = file.windows.iter().flat_map(|window| &window.machine);
        let scopes: Vec<CountScope> = scopes.map(|count| count.of).collect();
        let place = SocketPlace {
            socket,
            ports,
            devices,
        };
        let is_attached =
            |of: &CountScope| matches!(of, CountScope::Port(_) | CountScope::Device(_));
        let attached = scopes.iter().map(|of| place.of(*of)).filter(is_attached);
        header.sockets.extend(attached.map(|of| (of, socket)));
        ports += count_of(&scopes, |of| matches!(of, CountScope::Port(_)));
        devices += count_of(&scopes, |of| matches!(of, CountScope::Device(_)));
        let windows = file.windows.into_iter().map(|window| place.window(window));
        let (own, of_workloads): (Vec<_>, Vec<_>) =
            windows.partition(|window| !window.machine.is_empty());
        alone.extend(of_workloads);
        if all.is_empty() {
            all = own
        } else {
            all.iter_mut().zip(own).for_each(|(one, other)| {
                one.machine.extend(other.machine);
                one.workloads.extend(other.workloads);
                one.unassigned.extend(other.unassigned);
            })
        }
    }
    for mut window in alone {
        let end = all.last().map_or(0, |last| last.to.0);
        let length = window.length().unwrap_or(Nanos(0));
        (window.from, window.to) = (Nanos(end), Nanos(end + length.0));
        all.push(window);
    }
    WindowFile {
        header,
        windows: all,
    }
}

/// The number of places: they are numbered from 0 on.
fn count_of(scopes: &[CountScope], is_it: fn(&CountScope) -> bool) -> u32 {
    let mut places: Vec<CountScope> = scopes.iter().copied().filter(is_it).collect();
    places.sort_unstable();
    places.dedup();
    u32::try_from(places.len()).unwrap_or(u32::MAX)
}

/// A socket with the ports and devices that those before it have.
struct SocketPlace {
    socket: u32,
    ports: u32,
    devices: u32,
}

impl SocketPlace {
    /// Where a place of this socket stands among all.
    fn of(&self, place: CountScope) -> CountScope {
        match place {
            CountScope::Socket(_) => CountScope::Socket(self.socket),
            CountScope::Port(number) => CountScope::Port(self.ports + number),
            CountScope::Device(number) => CountScope::Device(self.devices + number),
            CountScope::All | CountScope::Cpu(_) | CountScope::Box(_) => place,
        }
    }

    fn window(&self, mut window: Window) -> Window {
        let mut boxes: BTreeMap<Role, Vec<Count>> = BTreeMap::new();
        let mut machine = Vec::new();
        for mut count in std::mem::take(&mut window.machine) {
            if matches!(count.of, CountScope::Box(_)) {
                boxes.entry(count.role).or_default().push(count);
                continue;
            }
            count.of = self.of(count.of);
            machine.push(count);
        }
        machine.extend(summed(boxes.values(), CountScope::Socket(self.socket)));
        window.machine = machine;
        let workloads = window.workloads.into_iter();
        window.workloads = workloads.map(|counts| self.workload(counts)).collect();
        window
    }

    /// A workload by its name among all, with its CPU time by socket, as `weir profile record` writes it.
    fn workload(&self, mut workload: WorkloadCounts) -> WorkloadCounts {
        let id = format!("socket{}/{}", self.socket, workload.id.as_str());
        workload.id = WorkloadId::new(id);
        for count in &mut workload.counts {
            if count.role.quantity == Quantity::TimeNs {
                count.of = CountScope::Socket(self.socket);
            }
        }
        workload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_profile::findings::RuleOutcome;
    use weir_profile::report::{Options, report};

    /// A full device at socket 0 beside a healthy one at socket 1: it is named, with its socket's figures
    /// apart.
    #[test]
    fn the_full_device_of_two_is_named() {
        let runs = SocketRuns::named("device-saturated:strong+healthy").unwrap();
        let scenarios = runs.scenarios(3).unwrap();
        assert_eq!(scenarios[1].0.run, scenarios[0].0.run);
        let made = record_sockets(&scenarios).unwrap();
        let options = Options {
            idle: Some(&made.idle),
            ..Options::default()
        };
        let said = report(&made.file, &options);
        assert_eq!(
            (said.places.sockets, said.places.ports, said.places.devices),
            (2, 2, 2)
        );
        let victim = format!("socket0/{}", scenarios[0].0.causes[0].victim);
        let found = |rule: &str, subject: &str| {
            let mut rules = said.rules.iter();
            rules.find_map(|one| match &one.outcome {
                RuleOutcome::Found(finding)
                    if (one.rule, one.subject.as_str()) == (rule, subject) =>
                {
                    Some(finding.places.clone())
                }
                _ => None,
            })
        };
        let at = found("device_saturated", &victim);
        assert_eq!(at, Some(vec![CountScope::Device(0)]), "{:?}", said.headline);
        let of_socket_1 = said
            .rules
            .iter()
            .filter(|one| one.subject.starts_with("socket1/") && one.found_in.is_some());
        assert_eq!(of_socket_1.map(|one| one.rule).collect::<Vec<_>>(), [""; 0]);
        let residence = |place: CountScope| {
            let place = said.by_place.iter().find(|one| one.place == place).unwrap();
            let queue = place
                .queues
                .iter()
                .find(|queue| queue.figures.role.to_string() == "device.any.cxl.occupancy");
            queue.unwrap().figures.residence_ns.as_ref().unwrap().value
        };
        let alone = |socket: usize| {
            let counts = said_alone(&made.sockets[socket].file);
            counts.unwrap()
        };
        for (socket, device) in [0, 1].map(CountScope::Device).into_iter().enumerate() {
            let ratio = residence(device) / alone(socket);
            assert!((ratio - 1.0).abs() < 1e-9, "{device}: {ratio}");
        }
    }

    /// What a workload waits for, and behind which others, concerns its own socket alone.
    #[test]
    fn no_workload_is_behind_one_of_the_other_socket() {
        for name in ["llc-displaced:strong+healthy", "healthy+tor-held:strong"] {
            let scenarios = SocketRuns::named(name).unwrap().scenarios(5).unwrap();
            let made = record_sockets(&scenarios).unwrap();
            assert_eq!(
                made.file.header.sockets[&CountScope::Device(1)],
                1,
                "{name}"
            );
            let options = Options {
                idle: Some(&made.idle),
                ..Options::default()
            };
            let said = report(&made.file, &options);
            let socket = |name: &str| name.split('/').next().map(str::to_owned);
            let mut found = 0;
            for one in said.rules.iter().filter(|one| one.subject != "machine") {
                let RuleOutcome::Found(finding) = &one.outcome else {
                    continue;
                };
                for blame in &finding.because_of {
                    found += 1;
                    assert_eq!(socket(&blame.workload), socket(&one.subject), "{finding:?}");
                }
            }
            assert!(found > 0, "{name}: {:?}", said.headline);
            let waits = said.waits.unwrap();
            let places = waits.stages.iter().map(|stage| stage.place.unwrap());
            let places: std::collections::BTreeSet<CountScope> = places.collect();
            assert_eq!(places, [0, 1].map(CountScope::Socket).into());
            for stage in &waits.stages {
                let own = stage.place.map(|place| place.to_string().replace(':', ""));
                let rows = stage.rows.iter().map(|row| &row.workload);
                for name in rows.chain(stage.behind.iter().map(|one| &one.workload)) {
                    assert_eq!(socket(name), own);
                }
            }
        }
    }

    /// The residence in the only device of a socket.
    fn said_alone(file: &WindowFile) -> Option<f64> {
        let said = report(file, &Options::default());
        let machine = said.subjects.iter().find(|one| one.name == "machine")?;
        let mut queues = machine.figures.stages.queues.iter();
        let queue = queues.find(|one| one.role.to_string() == "device.any.cxl.occupancy")?;
        Some(queue.residence_ns.as_ref().ok()?.value)
    }
}
