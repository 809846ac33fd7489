// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens next: a wheel of short slots for the near future, a heap for the rest. Signals of one moment
//! come out in the order in which they were put in, so that nothing depends on the wheel's shape.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A slot of the wheel is 2 to this power picoseconds: 256 ps, about a cycle of a core. With [`SLOTS`] of
/// them the wheel covers 1.05 µs; signals beyond it wait in the heap.
const SLOT_BITS: u32 = 8;
/// Slots of the wheel: a power of two.
const SLOTS: u64 = 4096;
const WORDS: usize = (SLOTS / 64) as usize;

/// Something that happens at a moment, with the number of the part or request it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// A thread can go on.
    Run { cpu: u32 },
    /// A load's address is known.
    Issue { cpu: u32, slot: u32 },
    /// The second-level cache has looked a request up.
    L2Result { request: u32 },
    /// A request is at the ingress of its CHA.
    AtCha { request: u32 },
    /// A slice of the last-level cache has answered.
    LlcResult { request: u32 },
    /// A DRAM channel's bus is free.
    ChannelFree { channel: u32 },
    /// Data or a completion are back at the CHA.
    Returned { request: u32 },
    /// Data is at the core.
    Fill { request: u32 },
    /// The CHA has taken a posted request over, and the core hears of it.
    Accepted { request: u32 },
    /// The data of a remote request is at the other end of UPI.
    UpiFar { request: u32 },
    /// A request is on the other socket, at its port.
    AtRemotePort { request: u32 },
    /// UPI has moved a line.
    UpiFree,
    /// A message has left for the device.
    DownFree { device: u32 },
    /// A message is at the device.
    AtDevice { request: u32 },
    /// The device's medium is free.
    MediumFree { device: u32 },
    /// The device's response is ready.
    DeviceReady { request: u32 },
    /// A message has left the device.
    UpFree { device: u32 },
    /// A credit is back at the port.
    Credit {
        device: u32,
        is_write: bool,
        owner: u8,
    },
    /// A DMA agent can go on.
    Dma { agent: u32 },
    /// The time of a page move has come.
    PageMove { number: u32 },
    /// A box of counters takes the next set, or ends its window.
    Sample { unit: u32 },
    /// A window of the truth ends.
    WindowEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: u64,
    sequence: u64,
    signal: Signal,
}

/// Signals by time, in picoseconds.
pub(crate) struct Calendar {
    slots: Vec<Vec<Entry>>,
    used: [u64; WORDS],
    far: BinaryHeap<Reverse<Entry>>,
    /// Number of the current slot since the beginning.
    cursor: u64,
    is_sorted: bool,
    sequence: u64,
}

impl Calendar {
    pub fn new() -> Self {
        Calendar {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            used: [0; WORDS],
            far: BinaryHeap::new(),
            cursor: 0,
            is_sorted: false,
            sequence: 0,
        }
    }

    /// Puts `signal` in at `at`, which must not lie before the last one taken out.
    pub fn post(&mut self, at: u64, signal: Signal) {
        let entry = Entry {
            at,
            sequence: self.sequence,
            signal,
        };
        self.sequence += 1;
        if (at >> SLOT_BITS) >= self.cursor + SLOTS {
            self.far.push(Reverse(entry));
        } else {
            self.put(entry);
        }
    }

    fn put(&mut self, entry: Entry) {
        let number = (entry.at >> SLOT_BITS).max(self.cursor);
        let index = (number % SLOTS) as usize;
        let slot = &mut self.slots[index];
        if number == self.cursor && self.is_sorted {
            let place = slot.partition_point(|e| (e.at, e.sequence) > (entry.at, entry.sequence));
            slot.insert(place, entry);
        } else {
            slot.push(entry);
        }
        self.used[index / 64] |= 1 << (index % 64);
    }

    /// The next signal with its time, if there is one.
    pub fn pop(&mut self) -> Option<(u64, Signal)> {
        loop {
            let index = (self.cursor % SLOTS) as usize;
            let slot = &mut self.slots[index];
            if !self.is_sorted {
                slot.sort_unstable_by_key(|e| Reverse((e.at, e.sequence)));
                self.is_sorted = true;
            }
            if let Some(entry) = slot.pop() {
                return Some((entry.at, entry.signal));
            }
            self.used[index / 64] &= !(1 << (index % 64));
            self.cursor = self.next_slot()?;
            self.is_sorted = false;
            while let Some(Reverse(entry)) = self.far.peek() {
                if (entry.at >> SLOT_BITS) >= self.cursor + SLOTS {
                    break;
                }
                let entry = *entry;
                self.far.pop();
                self.put(entry);
            }
        }
    }

    /// Number of the next slot that holds something.
    fn next_slot(&self) -> Option<u64> {
        let from = (self.cursor % SLOTS) as usize;
        let near = (0..=WORDS).find_map(|step| {
            let word = (from / 64 + step) % WORDS;
            let mut bits = self.used[word];
            if step == 0 {
                bits &= u64::MAX << (from % 64);
            } else if step == WORDS {
                bits &= !(u64::MAX << (from % 64));
            }
            (bits != 0).then(|| (word * 64) as u64 + u64::from(bits.trailing_zeros()))
        });
        let near = near.map(|index| self.cursor + (index + SLOTS - from as u64) % SLOTS);
        let far = self.far.peek().map(|Reverse(e)| e.at >> SLOT_BITS);
        match (near, far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is put in, near and far, before and between: it comes out by time, then by order.
        #[test]
        fn signals_come_in_order(steps in prop::collection::vec((0u64..3_000_000, any::<bool>()), 1..300)) {
            let mut calendar = Calendar::new();
            let (mut now, mut waiting, mut number) = (0u64, Vec::new(), 0u32);
            for (ahead, takes) in steps {
                calendar.post(now + ahead, Signal::Run { cpu: number });
                waiting.push((now + ahead, number));
                number += 1;
                if takes {
                    let next = *waiting.iter().min().expect("one was put in");
                    waiting.retain(|w| *w != next);
                    prop_assert_eq!(calendar.pop(), Some((next.0, Signal::Run { cpu: next.1 })));
                    now = next.0;
                }
            }
            waiting.sort_unstable();
            for (at, cpu) in waiting {
                prop_assert_eq!(calendar.pop(), Some((at, Signal::Run { cpu })));
            }
            prop_assert_eq!(calendar.pop(), None);
        }
    }
}
