// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A core's bounded table of lines under way (fill buffers, super queue), and the requests that wait for an
//! entry, in order.

use crate::engine::clockwork::Clockwork;
use crate::engine::request::RequestPool;
use crate::truth::Contention;
use crate::words::Path;
use std::collections::VecDeque;

pub(crate) struct EntryTable {
    entries: Vec<(u64, u32)>,
    most: usize,
    waiting: VecDeque<u32>,
    pub contention: Contention,
}

impl EntryTable {
    pub fn new(most: u32, workloads: usize) -> Self {
        EntryTable {
            entries: Vec::new(),
            most: most as usize,
            waiting: VecDeque::new(),
            contention: Contention::new(workloads),
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether an entry is free, whatever waits.
    pub fn has_room(&self) -> bool {
        self.entries.len() < self.most
    }

    /// Whether so many entries are free and nothing waits for one.
    pub fn has_spare(&self, spare: usize) -> bool {
        self.entries.len() + spare <= self.most && self.waiting.is_empty()
    }

    pub fn has(&self, line: u64) -> bool {
        self.entries.iter().any(|(l, _)| *l == line)
    }

    /// The request with an entry for a line, but none of these paths.
    pub fn find(&self, line: u64, without: &[Path], requests: &RequestPool) -> Option<u32> {
        let mut with_line = self.entries.iter().filter(|(l, _)| *l == line);
        let found = with_line.find(|(_, number)| !without.contains(&requests[*number].path));
        found.map(|(_, number)| *number)
    }

    /// The same among those that wait.
    pub fn find_waiting(&self, line: u64, without: &[Path], requests: &RequestPool) -> Option<u32> {
        let mut with_line = self.waiting.iter().filter(|n| requests[**n].line == line);
        let found = with_line.find(|number| !without.contains(&requests[**number].path));
        found.copied()
    }

    pub fn put(&mut self, number: u32, work: &Clockwork) {
        let request = &work.requests[number];
        self.entries.push((request.line, number));
        self.contention.take(work.now, request.owner);
    }

    pub fn remove(&mut self, number: u32, work: &Clockwork) {
        self.entries.retain(|(_, n)| *n != number);
        let owner = work.requests[number].owner;
        self.contention.leave(work.now, owner);
    }

    pub fn wait(&mut self, number: u32, work: &Clockwork) {
        let owner = work.requests[number].owner;
        self.contention.wait(work.now, owner);
        self.waiting.push_back(number);
    }

    /// The first that waits waits no longer.
    pub fn next_waiting(&mut self, work: &Clockwork) -> Option<u32> {
        let number = self.waiting.pop_front()?;
        let owner = work.requests[number].owner;
        self.contention.end_wait(work.now, owner);
        Some(number)
    }
}
