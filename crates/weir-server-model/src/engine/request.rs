// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for lines, with what each has been through. They live in a pool and are known by number.

use crate::words::{Path, Queue, Stage, Target};

/// Number of no request, no slot.
pub(crate) const NONE: u32 = u32::MAX;
/// CPU of a request that no CPU made.
pub(crate) const NO_CPU: u16 = u16::MAX;

/// A line on its way. Times are in picoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Physical line: see [`crate::memory::pages`].
    pub line: u64,
    pub cpu: u16,
    pub owner: u8,
    pub path: Path,
    /// What supplies the line; until the last-level cache has answered, the memory that has it.
    pub supplier: Target,
    pub stage: Stage,
    pub is_waiting: bool,
    /// Since when it is at its stage.
    pub since: u64,
    /// A core stands still until it is done.
    pub is_awaited: bool,
    /// The line has been modified.
    pub is_dirty: bool,
    /// A demand load waits for it.
    pub has_load: bool,
    pub is_beyond_l2: bool,
    pub is_llc_miss: bool,
    /// A cache of the other socket supplies it.
    pub is_remote_hit: bool,
    pub has_fill_buffer: bool,
    pub has_queue_entry: bool,
    /// Parts of the machine that still know its number.
    pub parts: u8,
    /// Fill buffers with a demand load that wait for this line, its own included.
    pub loads_behind: u16,
    /// The request on whose line this one waits.
    pub rides_on: u32,
    /// First of those that wait on this one; the next is in their `next_rider`.
    pub riders: u32,
    pub next_rider: u32,
    /// A store waits for it.
    pub has_store: bool,
    /// Line that it put out of the last-level cache, modified; `u64::MAX`: none.
    pub victim: u64,
    /// First window slot that waits for it.
    pub slots: u32,
    pub passed: u16,
    pub in_stage: [u32; Stage::COUNT],
    pub waited: [u32; Stage::COUNT],
    pub stalled: [u32; Stage::COUNT],
    pub held_since: [u64; Queue::COUNT],
}

impl Request {
    fn empty() -> Self {
        Request {
            line: 0,
            cpu: NO_CPU,
            owner: 0,
            path: Path::Drd,
            supplier: Target::Own,
            stage: Stage::Core,
            is_waiting: false,
            since: 0,
            is_awaited: false,
            is_dirty: false,
            has_load: false,
            is_beyond_l2: false,
            is_llc_miss: false,
            is_remote_hit: false,
            has_fill_buffer: false,
            has_queue_entry: false,
            parts: 0,
            loads_behind: 0,
            rides_on: NONE,
            riders: NONE,
            next_rider: NONE,
            has_store: false,
            victim: u64::MAX,
            slots: NONE,
            passed: 0,
            in_stage: [0; Stage::COUNT],
            waited: [0; Stage::COUNT],
            stalled: [0; Stage::COUNT],
            held_since: [0; Queue::COUNT],
        }
    }

    /// Adds its time at the present stage up to `now`.
    pub fn pass_time(&mut self, now: u64) {
        let time = (now - self.since) as u32;
        self.in_stage[self.stage as usize] += time;
        if self.is_waiting {
            self.waited[self.stage as usize] += time;
        }
        self.since = now;
    }
}

/// All requests, those in flight and those whose numbers are free.
#[derive(Default)]
pub(crate) struct RequestPool {
    all: Vec<Request>,
    free: Vec<u32>,
}

impl RequestPool {
    pub fn begin(&mut self, now: u64, line: u64, path: Path, stage: Stage) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Request::empty());
            (self.all.len() - 1) as u32
        });
        let request = &mut self.all[number as usize];
        *request = Request::empty();
        request.line = line;
        request.path = path;
        request.stage = stage;
        request.since = now;
        request.passed = 1 << stage as u16;
        request.parts = 1;
        number
    }

    pub fn end(&mut self, number: u32) {
        self.all[number as usize].parts = 0;
        self.free.push(number);
    }

    /// All that are in flight.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.all.iter_mut().filter(|request| request.parts > 0)
    }
}

impl std::ops::Index<u32> for RequestPool {
    type Output = Request;
    fn index(&self, number: u32) -> &Request {
        &self.all[number as usize]
    }
}

impl std::ops::IndexMut<u32> for RequestPool {
    fn index_mut(&mut self, number: u32) -> &mut Request {
        &mut self.all[number as usize]
    }
}
