// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds matches: looks up 1, 2, 4 or 8 positions a clock, then compares 16 bytes a clock.
//!
//! Where nothing is found the search goes faster, as liblz4's does: from the fifth clock on it leaves out
//! as many positions as it looks up.

use super::emitter::Sequence;
use super::hash_table::{HashKey, HashTable, SeenBytes};
use super::{LITERAL_TAIL_BYTES, MATCH_BYTES_MIN, MATCH_START_TAIL_BYTES, MOVE_BYTES};

/// After this many clocks without a match every second group of positions is left out, as liblz4's search
/// goes faster where nothing is found.
const PATIENCE_CLOCKS: u32 = 4;

/// Two places of the page with the same bytes before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Comparing {
    /// The byte that is compared next.
    at: usize,
    /// The one that it is compared with.
    seen: usize,
    start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchStage {
    Look,
    Compare(Comparing),
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct Search<'a> {
    page: &'a [u8],
    positions: usize,
    table: HashTable,
    stage: SearchStage,
    /// The first position that is looked up next.
    at: usize,
    /// The first byte that no sequence has.
    anchor: usize,
    /// Clocks without a match, up to [`PATIENCE_CLOCKS`].
    misses: u32,
}

impl<'a> Search<'a> {
    pub(super) fn new(page: &'a [u8], positions: usize) -> Search<'a> {
        Search {
            page,
            positions,
            table: HashTable::new(positions),
            stage: SearchStage::Look,
            at: 0,
            anchor: 0,
            misses: 0,
        }
    }

    /// One clock in which a sequence may be found. `loaded_bytes`: how much of the page is there.
    pub(super) fn clock(&mut self, loaded_bytes: usize) -> Option<Sequence> {
        let at = match self.stage {
            SearchStage::Compare(comparing) => comparing.at,
            SearchStage::Look | SearchStage::Over => self.at,
        };
        if loaded_bytes < self.page.len().min(at + MOVE_BYTES) {
            return None;
        }
        match self.stage {
            SearchStage::Look if self.at + MATCH_START_TAIL_BYTES > self.page.len() => {
                self.stage = SearchStage::Over;
                Some(Sequence {
                    anchor: self.anchor,
                    literals: self.page.len() - self.anchor,
                    offset: 0,
                    match_bytes: 0,
                })
            }
            SearchStage::Look => self.look(),
            SearchStage::Compare(comparing) => self.compare(comparing),
            SearchStage::Over => None,
        }
    }

    /// Bytes of a match that may follow a byte of the page.
    fn match_room(&self, at: usize) -> usize {
        self.page.len() - LITERAL_TAIL_BYTES - at
    }

    fn look(&mut self) -> Option<Sequence> {
        let found = self.look_up_and_enter();
        let Some((start, seen)) = found else {
            let is_patient = self.misses < PATIENCE_CLOCKS;
            self.misses += u32::from(is_patient);
            self.at += if is_patient {
                self.positions
            } else {
                2 * self.positions
            };
            return None;
        };
        self.misses = 0;
        let at = start + MATCH_BYTES_MIN;
        let more = seen.more.min(self.match_room(at));
        let comparing = Comparing {
            at: at + more,
            seen: seen.position + MATCH_BYTES_MIN + more,
            start,
        };
        if more == MATCH_BYTES_MIN {
            self.stage = SearchStage::Compare(comparing);
            return None;
        }
        Some(self.found(comparing))
    }

    /// The first position that is found in the table. Those that have a bank are entered, unless they may
    /// come again after the match.
    fn look_up_and_enter(&mut self) -> Option<(usize, SeenBytes)> {
        let last_start = self.page.len() - MATCH_START_TAIL_BYTES;
        let end = (self.at + self.positions).min(last_start + 1);
        let mut banks_taken = 0_u32;
        let mut found = None;
        let mut enter_end = end;
        // The clock looks all up before it enters any; a bank serves one, so that the order does not show.
        for position in self.at..end {
            let bytes = &self.page[position..position + 2 * MATCH_BYTES_MIN];
            let key = HashKey::new(bytes.try_into().unwrap_or_default());
            let bank = 1 << self.table.bank(key);
            if banks_taken & bank != 0 || position >= enter_end {
                continue;
            }
            banks_taken |= bank;
            if found.is_none()
                && let Some(seen) = self.table.find(key)
            {
                found = Some((position, seen));
                enter_end = end.min(position + MATCH_BYTES_MIN);
            }
            self.table.enter(key, position);
        }
        found
    }

    fn compare(&mut self, comparing: Comparing) -> Option<Sequence> {
        let Comparing { at, seen, start } = comparing;
        let equal = (0..MOVE_BYTES.min(self.match_room(at)))
            .take_while(|&i| self.page[at + i] == self.page[seen + i])
            .count();
        let comparing = Comparing {
            at: at + equal,
            seen: seen + equal,
            start,
        };
        if equal == MOVE_BYTES {
            self.stage = SearchStage::Compare(comparing);
            return None;
        }
        Some(self.found(comparing))
    }

    fn found(&mut self, compared: Comparing) -> Sequence {
        let Comparing { at, seen, start } = compared;
        let sequence = Sequence {
            anchor: self.anchor,
            literals: start - self.anchor,
            offset: at - seen,
            match_bytes: at - start,
        };
        self.at = at;
        self.anchor = at;
        self.stage = SearchStage::Look;
        sequence
    }
}
