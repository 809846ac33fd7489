// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests that wait: a list for each bank and direction, and of each list the first that hits the open
//! row and the first that does not.
//!
//! Requests of a bank that hit are ready at the same clock, and so are those that do not, so that these two
//! stand for the list.

pub(crate) mod candidates;
pub(crate) mod direction;
pub(crate) mod front;
pub(crate) mod waiting;
pub(crate) mod write_filter;

use crate::banks::command::BurstKind;
use crate::part::timing::Clock;
use crate::queues::waiting::{OrderKey, WaitingBurst};

pub(super) const NONE: u32 = u32::MAX;

/// What the first command of a request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOutcome {
    /// A column command: the row was open.
    Hit,
    /// An activate: the bank was closed.
    Miss,
    /// A precharge: another row was open.
    Conflict,
}

/// A request with what the channel notes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueEntry {
    pub(super) waiting: WaitingBurst,
    pub(super) key: OrderKey,
    /// First command and its clock.
    pub(super) begun: Option<(RowOutcome, Clock)>,
    /// Clocks of refresh and of the other direction, as counted when it came; the latter again when it began.
    pub(super) refresh_at_arrival: Clock,
    pub(super) turned_at_arrival: Clock,
    pub(super) turned_at_begin: Clock,
    next: u32,
    previous: u32,
}

/// The list of one bank and direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct BankList {
    head: u32,
    tail: u32,
    pub(super) len: u32,
    /// First entry that hits the open row, and its key.
    pub(super) hit: u32,
    pub(super) hit_key: OrderKey,
    /// First entry that does not, and its key.
    pub(super) miss: u32,
    pub(super) miss_key: OrderKey,
}

const EMPTY: BankList = BankList {
    head: NONE,
    tail: NONE,
    len: 0,
    hit: NONE,
    hit_key: OrderKey::LAST,
    miss: NONE,
    miss_key: OrderKey::LAST,
};

#[derive(Clone, Debug)]
pub(super) struct BankQueues {
    entries: Vec<QueueEntry>,
    free: Vec<u32>,
    lists: [Vec<BankList>; 2],
    /// Banks with requests, by direction.
    pub(super) banks: [u64; 2],
    /// Banks with a request that hits the open row, and with one that does not.
    pub(super) hits: [u64; 2],
    pub(super) misses: [u64; 2],
    pub(super) len: [u32; 2],
    /// Keys grow with the time of arrival, so that a list is sorted.
    is_sorted: bool,
}

impl BankQueues {
    pub(super) fn new(banks: u32, is_sorted: bool) -> BankQueues {
        let lists = vec![EMPTY; banks as usize];
        BankQueues {
            entries: Vec::new(),
            free: Vec::new(),
            lists: [lists.clone(), lists],
            banks: [0; 2],
            hits: [0; 2],
            misses: [0; 2],
            len: [0; 2],
            is_sorted,
        }
    }

    #[inline]
    pub(super) fn list(&self, kind: BurstKind, bank: usize) -> &BankList {
        &self.lists[kind.index()][bank]
    }

    #[inline]
    pub(super) fn entry(&self, index: u32) -> &QueueEntry {
        &self.entries[index as usize]
    }

    #[inline]
    pub(super) fn entry_mut(&mut self, index: u32) -> &mut QueueEntry {
        &mut self.entries[index as usize]
    }

    /// Puts a request at the end of its bank's list. `open` is the bank's row.
    ///
    /// Of each list only two requests matter: the first that hits the open row, and the first that does not.
    /// They are kept here, so that no command has to look through a list.
    pub(super) fn push(
        &mut self,
        waiting: WaitingBurst,
        open: u32,
        refresh_at_arrival: Clock,
        turned_at_arrival: Clock,
    ) {
        let (kind, bank) = (waiting.request.kind.index(), waiting.bank as usize);
        let key = OrderKey::of(&waiting);
        let list = &mut self.lists[kind][bank];
        let entry = QueueEntry {
            waiting,
            key,
            begun: None,
            refresh_at_arrival,
            turned_at_arrival,
            turned_at_begin: turned_at_arrival,
            next: NONE,
            previous: list.tail,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        match list.tail {
            NONE => list.head = index,
            tail => self.entries[tail as usize].next = index,
        }
        list.tail = index;
        list.len += 1;
        let (first, first_key) = if waiting.row == open {
            (&mut list.hit, &mut list.hit_key)
        } else {
            (&mut list.miss, &mut list.miss_key)
        };
        if key < *first_key {
            (*first, *first_key) = (index, key);
        }
        self.banks[kind] |= 1 << bank;
        self.len[kind] += 1;
        self.mark(kind, bank);
    }

    /// Takes a request out of its list; its entry stays until `release`.
    pub(super) fn take(&mut self, index: u32, open: u32) {
        let QueueEntry {
            waiting,
            next,
            previous,
            ..
        } = self.entries[index as usize];
        let (kind, bank) = (waiting.request.kind.index(), waiting.bank as usize);
        let list = &mut self.lists[kind][bank];
        match previous {
            NONE => list.head = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => list.tail = previous,
            next => self.entries[next as usize].previous = previous,
        }
        list.len -= 1;
        self.len[kind] -= 1;
        if list.len == 0 {
            self.banks[kind] &= !(1 << bank);
        }
        let from = if self.is_sorted { next } else { list.head };
        let (is_hit, is_miss) = (index == list.hit, index == list.miss);
        if is_hit {
            let (hit, hit_key) = self.first(from, |row| row == open);
            let list = &mut self.lists[kind][bank];
            (list.hit, list.hit_key) = (hit, hit_key);
        } else if is_miss {
            let (miss, miss_key) = self.first(from, |row| row != open);
            let list = &mut self.lists[kind][bank];
            (list.miss, list.miss_key) = (miss, miss_key);
        }
        self.mark(kind, bank);
    }

    /// Notes in the masks what a list has.
    #[inline]
    fn mark(&mut self, kind: usize, bank: usize) {
        let list = &self.lists[kind][bank];
        let put = |mask: u64, has: bool| mask & !(1 << bank) | u64::from(has) << bank;
        self.hits[kind] = put(self.hits[kind], list.hit != NONE);
        self.misses[kind] = put(self.misses[kind], list.miss != NONE);
    }

    /// Frees the entry of a request that was taken.
    pub(super) fn release(&mut self, index: u32) {
        self.free.push(index);
    }

    /// The first entry of a list, from this one on, whose row passes.
    fn first(&self, from: u32, passes: impl Fn(u32) -> bool) -> (u32, OrderKey) {
        let (mut found, mut found_key) = (NONE, OrderKey::LAST);
        let mut at = from;
        while at != NONE {
            let entry = &self.entries[at as usize];
            if passes(entry.waiting.row) && entry.key < found_key {
                (found, found_key) = (at, entry.key);
                if self.is_sorted {
                    break;
                }
            }
            at = entry.next;
        }
        (found, found_key)
    }

    pub(super) fn row_changed(&mut self, bank: usize, open: u32) {
        for kind in 0..2 {
            if self.lists[kind][bank].len == 0 {
                continue;
            }
            let head = self.lists[kind][bank].head;
            let (hit, hit_key) = self.first(head, |row| row == open);
            let (miss, miss_key) = self.first(head, |row| row != open);
            let list = &mut self.lists[kind][bank];
            (list.hit, list.hit_key, list.miss, list.miss_key) = (hit, hit_key, miss, miss_key);
            self.mark(kind, bank);
        }
    }

    /// Whether a write to this burst waits in the bank.
    pub(super) fn has_write(&self, bank: usize, burst: u64) -> bool {
        let mut at = self.lists[1][bank].head;
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.waiting.request.burst == burst {
                return true;
            }
            at = entry.next;
        }
        false
    }

    /// The smallest key of a direction.
    pub(super) fn head(&self, kind: BurstKind) -> OrderKey {
        let (mut banks, mut least) = (self.banks[kind.index()], OrderKey::LAST);
        while banks != 0 {
            let list = &self.lists[kind.index()][banks.trailing_zeros() as usize];
            least = least.min(list.hit_key).min(list.miss_key);
            banks &= banks - 1;
        }
        least
    }

    /// All that wait, by bank and arrival, reads first.
    pub(super) fn waiting(&self) -> Vec<(u32, WaitingBurst)> {
        let mut all = Vec::new();
        for list in self.lists.iter().flatten() {
            let mut at = list.head;
            while at != NONE {
                let entry = &self.entries[at as usize];
                all.push((at, entry.waiting));
                at = entry.next;
            }
        }
        all
    }

    /// Gives a request another place; `row_changed` has to follow for its bank.
    pub(super) fn restate(&mut self, index: u32, waiting: WaitingBurst) {
        let entry = &mut self.entries[index as usize];
        entry.waiting.standing = waiting.standing;
        entry.key = OrderKey::of(&entry.waiting);
    }
}
