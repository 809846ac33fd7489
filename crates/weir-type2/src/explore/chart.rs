// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A way to a violation as a message chart: the device on the left, the host on the right, messages between.

use super::world::{Move, World};
use super::{Counterexample, Exploration};
use crate::protocol::{CoherentLine, Message, Watch};
use crate::words::{CacheState, Lane, LineHome, Opcode, Party};
use std::fmt::Write;

/// Columns of a side, and of the arrows.
const SIDE: usize = 36;
const MIDDLE: usize = 28;

#[derive(Default)]
struct ChartWatch {
    sent: Vec<(Lane, Message)>,
    read: Option<bool>,
    has_ended: bool,
}

impl Watch for ChartWatch {
    fn sent(&mut self, lane: Lane, message: Message) {
        self.sent.push((lane, message));
    }

    fn read(&mut self, _party: Party, is_last: bool) {
        self.read = Some(is_last);
    }

    fn ended(&mut self, _party: Party) {
        self.has_ended = true;
    }
}

/// The chart, with what is broken below it.
pub fn chart<const N: usize>(
    exploration: &Exploration<N>,
    counterexample: &Counterexample<N>,
) -> String {
    let mut text = String::new();
    let mut world = World::new(exploration.homes);
    for (number, line) in world.lines.iter().enumerate() {
        let _ = writeln!(
            text,
            "line {number} lies in {}, in no cache",
            line.home.name()
        );
    }
    let _ = writeln!(
        text,
        "\n     {:SIDE$}{:^MIDDLE$}  host: cores, LLC, home agent",
        "device: accelerator, DCOH", ""
    );
    for (index, step) in counterexample.moves.iter().enumerate() {
        let mut watch = ChartWatch::default();
        let Some(after) = world.watched(*step, exploration, &mut watch) else {
            break;
        };
        write_move(&mut text, index + 1, *step, &world, &after, &watch);
        world = after;
    }
    let _ = writeln!(text, "\nBroken: {}.", counterexample.violation);
    if let Some(fault) = exploration.rules.fault {
        let _ = writeln!(text, "Seeded: {}.", fault.about());
    }
    text
}

fn write_move<const N: usize>(
    text: &mut String,
    number: usize,
    step: Move,
    before: &World<N>,
    after: &World<N>,
    watch: &ChartWatch,
) {
    let (party, mut said) = action(step, before);
    for line in 0..N {
        let changes = changes(&before.lines[line], &after.lines[line]);
        for (side, change) in changes {
            if side == party {
                said += &format!("; {change}");
            }
        }
    }
    if before.bias != after.bias {
        said += &format!("; {} bias", after.bias.name());
    }
    match (watch.read, watch.has_ended) {
        (Some(true), _) => said += "; done",
        (Some(false), _) => said += "; reads OLD DATA",
        (None, true) => said += "; done",
        _ => {}
    }
    write_side(text, number, party, &said);
    for (lane, message) in &watch.sent {
        let arrow = arrow(*lane, message.opcode);
        let _ = writeln!(text, "     {:SIDE$}{arrow}", "");
    }
}

/// The agent of a move, and what it does.
fn action<const N: usize>(step: Move, before: &World<N>) -> (Party, String) {
    let of = |line: u8| match N {
        1 => String::new(),
        _ => format!(" of line {line}"),
    };
    match step {
        Move::Device(line, op) => (Party::Device, format!("{}{} begins", op.name(), of(line))),
        Move::Host(line, op) => (Party::Host, format!("{}{} begins", op.name(), of(line))),
        Move::EvictDevice(line) => (Party::Device, format!("eviction{}", of(line))),
        Move::EvictHost(line) => (Party::Host, format!("eviction{}", of(line))),
        Move::Flip => (Party::Host, "tells DCOH: device bias ──▷".into()),
        Move::FlipArrives => (Party::Device, "▷ hears: device bias".into()),
        Move::Deliver(line, lane) => {
            let wires = &before.lines[line as usize].wires;
            let name = |lane| wires.get(lane).map_or("", |message| message.opcode.name());
            let overtaken = match lane {
                Lane::H2dReq => name(Lane::H2dRsp),
                Lane::M2sReqBehind => name(Lane::M2sReq),
                _ => "",
            };
            let order = match overtaken {
                "" => String::new(),
                other => format!("; which overtook {other}"),
            };
            (
                lane.taker(),
                format!("takes {}{}{order}", name(lane), of(line)),
            )
        }
    }
}

/// Changes of states of a line, with the side that they are on.
fn changes(before: &CoherentLine, after: &CoherentLine) -> Vec<(Party, String)> {
    let mut found = Vec::new();
    let mut note = |party, name: &str, from: CacheState, to: CacheState| {
        if from != to {
            found.push((party, format!("{name} {} → {}", from.name(), to.name())));
        }
    };
    let cache = match before.home {
        LineHome::HostMemory => "HMC",
        LineHome::DeviceMemory => "DMC",
    };
    note(
        Party::Device,
        cache,
        before.device.state,
        after.device.state,
    );
    note(Party::Host, "LLC", before.host.state, after.host.state);
    note(
        Party::Host,
        "filter",
        before.host.tracked,
        after.host.tracked,
    );
    found
}

/// Writes what a side does, in as many rows as its column needs.
fn write_side(text: &mut String, number: usize, party: Party, said: &str) {
    let indent = match party {
        Party::Device => 0,
        Party::Host => SIDE + MIDDLE + 2,
    };
    for (row, line) in broken_at(said, SIDE).iter().enumerate() {
        let number = match row {
            0 => format!("{number:>3}  "),
            _ => "     ".into(),
        };
        let _ = writeln!(text, "{number}{:indent$}{line}", "");
    }
}

fn broken_at(said: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for part in said.split("; ") {
        let Some(last) = rows.last_mut() else { break };
        if last.is_empty() {
            part.clone_into(last);
        } else if last.chars().count() + 2 + part.chars().count() <= width {
            *last += &format!("; {part}");
        } else {
            rows.push(format!("  {part}"));
        }
    }
    rows
}

fn arrow(lane: Lane, opcode: Opcode) -> String {
    let words = format!(" {}: {} ", lane.name(), opcode.name());
    let dashes = MIDDLE.saturating_sub(words.chars().count() + 1);
    let (left, right) = (dashes / 2, dashes - dashes / 2);
    let (before, after) = ("─".repeat(left), "─".repeat(right));
    match lane.taker() {
        Party::Host => format!("{before}{words}{after}▶"),
        Party::Device => format!("◀{before}{words}{after}"),
    }
}
