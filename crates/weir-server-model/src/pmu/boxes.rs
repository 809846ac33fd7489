// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each kind of box has counted so far: plain numbers, and times in picoseconds, in an order that the
//! catalogue knows.

use crate::cpu::CpuCount;
use crate::pmu::unit::UnitKind;
use crate::socket::Socket;
use crate::words::{Path, Target};

const FLOWS: usize = Path::COUNT * Target::COUNT;

/// Order of a CPU's numbers.
pub(super) mod cpu {
    use super::{CpuCount, Path, Target};

    pub const CLOCK: usize = 0;
    pub const INSTRUCTIONS: usize = 1;
    const COUNTS: usize = 2;
    const QUEUE_AREA: usize = COUNTS + CpuCount::COUNT;
    const QUEUE_INSERTS: usize = QUEUE_AREA + Path::COUNT;
    pub const MISS_AREA: usize = QUEUE_INSERTS + Path::COUNT;
    pub const MISS_INSERTS: usize = MISS_AREA + 1;
    const RESPONSES: usize = MISS_INSERTS + 1;
    #[cfg(test)]
    pub const LENGTH: usize = RESPONSES + super::FLOWS;

    pub fn count(what: CpuCount) -> usize {
        COUNTS + what as usize
    }

    pub fn queue_area(path: Path) -> usize {
        QUEUE_AREA + path as usize
    }

    pub fn queue_inserts(path: Path) -> usize {
        QUEUE_INSERTS + path as usize
    }

    pub fn response(path: Path, target: Target) -> usize {
        RESPONSES + path as usize * Target::COUNT + target as usize
    }
}

/// Order of a CHA's numbers.
pub(super) mod cha {
    use super::{FLOWS, Path, Target};

    pub const CLOCK: usize = 0;
    pub const ARRIVALS: usize = 1;
    pub const REJECTS: usize = 2;
    pub const INGRESS_AREA: usize = 3;
    const INSERTS: usize = 4;
    const AREA: usize = INSERTS + FLOWS;

    pub fn inserts(path: Path, target: Target) -> usize {
        INSERTS + path as usize * Target::COUNT + target as usize
    }

    pub fn area(path: Path, target: Target) -> usize {
        AREA + path as usize * Target::COUNT + target as usize
    }
}

/// Adds a box's numbers to the list, the clock first. Events of the catalogue know them by their positions
/// (`pmu/catalogue.rs`), so a number that is put in between moves all that follow.
pub(super) fn read(unit: UnitKind, index: u32, socket: &mut Socket, numbers: &mut Vec<u64>) {
    let now = socket.work.now;
    let index = index as usize;
    numbers.push(now);
    match unit {
        UnitKind::Cpu => read_cpu(index, socket, numbers),
        UnitKind::Cha => {
            let cha = &socket.chas[index];
            numbers.extend([cha.arrivals, cha.rejects, cha.ingress_use.area(now)]);
            numbers.extend(cha.tor.iter().flatten().map(|cell| cell.inserts));
            numbers.extend(cha.tor.iter().flatten().map(|cell| cell.area(now)));
        }
        UnitKind::Imc => {
            let channel = &socket.channels[index];
            for uses in &channel.uses {
                numbers.extend([uses.inserts, uses.area(now), uses.not_empty(now)]);
            }
            numbers.extend(channel.lines);
        }
        UnitKind::M2p => {
            let port = &socket.ports[index];
            for uses in &port.ingress_uses {
                numbers.extend([uses.inserts, uses.area(now), uses.not_empty(now)]);
            }
            numbers.extend(port.without_credit(now));
        }
        UnitKind::CxlCm => {
            let port = &socket.ports[index];
            for direction in [&port.down, &port.up] {
                numbers.extend(direction.messages);
                let uses = &direction.uses;
                numbers.extend([uses.area(now), uses.not_empty(now), direction.resends]);
            }
        }
        UnitKind::CxlDevice => {
            let port = &socket.ports[index];
            numbers.extend(port.down.messages);
            numbers.extend(port.up.messages);
            let uses = &port.device.uses;
            numbers.extend([uses.inserts, uses.area(now)]);
        }
        UnitKind::Upi => {
            let upi = &socket.upi;
            numbers.extend(upi.lines);
            numbers.extend([upi.entries.inserts, upi.entries.area(now)]);
        }
    }
}

fn read_cpu(index: usize, socket: &mut Socket, numbers: &mut Vec<u64>) {
    let now = socket.work.now;
    socket.work.settle(index as u16);
    let meter = &socket.work.meters[index];
    numbers.push(meter.retired);
    numbers.extend(meter.counts);
    numbers.extend(meter.queue.iter().map(|queue| queue.area(now)));
    numbers.extend(meter.queue.iter().map(|queue| queue.inserts));
    numbers.extend([meter.queue_llc_miss.area(now), meter.queue_llc_miss.inserts]);
    numbers.extend(meter.responses.iter().flatten());
}
