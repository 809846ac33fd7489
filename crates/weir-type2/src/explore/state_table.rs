// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The states seen, in the order in which they were found, each with the move that led to it.

use super::world::{Move, World};
use std::hash::{Hash, Hasher};

const EMPTY: u32 = u32::MAX;

/// States by number. Open addressing over their numbers: the order of hashes decides nothing.
pub struct StateTable<const N: usize> {
    states: Vec<World<N>>,
    parents: Vec<Option<(u32, Move)>>,
    /// Numbers of states, by hash; a power of two of places.
    places: Vec<u32>,
}

/// FNV-1a over words, with a last mix.
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u8((number & 0xff) as u8);
    }
}

impl<const N: usize> StateTable<N> {
    pub fn new() -> Self {
        StateTable {
            states: Vec::new(),
            parents: Vec::new(),
            places: vec![EMPTY; 1 << 12],
        }
    }

    pub fn len(&self) -> u32 {
        u32::try_from(self.states.len()).unwrap_or(EMPTY)
    }

    pub fn state(&self, number: u32) -> &World<N> {
        &self.states[number as usize]
    }

    /// The place of a state, or the free one where it belongs.
    fn place(&self, state: &World<N>) -> usize {
        let mut hasher = WordHasher(0xcbf2_9ce4_8422_2325);
        state.hash(&mut hasher);
        let mask = self.places.len() - 1;
        let mut place = usize::try_from(hasher.finish()).unwrap_or(0) & mask;
        loop {
            match self.places[place] {
                EMPTY => return place,
                number if self.state(number) == state => return place,
                _ => place = (place + 1) & mask,
            }
        }
    }

    /// The number of a state that is there.
    pub fn number(&self, state: &World<N>) -> Option<u32> {
        let number = self.places[self.place(state)];
        (number != EMPTY).then_some(number)
    }

    pub fn insert(&mut self, state: World<N>, parent: Option<(u32, Move)>) {
        let place = self.place(&state);
        if self.places[place] != EMPTY {
            return;
        }
        self.places[place] = self.len();
        self.states.push(state);
        self.parents.push(parent);
        if self.states.len() * 2 > self.places.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.places = vec![EMPTY; self.places.len() * 2];
        for number in 0..self.len() {
            let place = self.place(&self.states[number as usize]);
            self.places[place] = number;
        }
    }

    /// Moves from the first state to this one, and one more.
    pub fn way_to(&self, state: u32, last: Option<Move>) -> Vec<Move> {
        let mut moves: Vec<Move> = last.into_iter().collect();
        let mut at = state;
        while let Some((before, step)) = self.parents[at as usize] {
            moves.push(step);
            at = before;
        }
        moves.reverse();
        moves
    }
}
