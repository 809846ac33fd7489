// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From documents to bytes.

use super::document::{At, Document, Items, Members, Node};
use super::{
    CLOCK, FALSE, FIELDS, FLOAT, ITEM_CHANGED, ITEM_NEW, ITEMS, ITEMS_GONE, ITEMS_SAME, KEY, LIST,
    NEGATIVE, NULL, OBJECT, SAME, SMALL_FIELDS, SMALL_FIELDS_MAX, STEP, STEP_MORE, TEXT, TRUE,
    Texts, UINT,
};
use super::{build, seal, varint};
use serde::Serialize;

/// How far ahead an element is looked for in the list before. If more than these went away at once,
/// the rest of the list is written in full, once.
const LOOK_AHEAD: usize = 64;

/// Remembers the document before.
#[derive(Default)]
pub(crate) struct Writer {
    now: Document,
    /// Empty where the next document needs none before it.
    before: Document,
    clock: u64,
}

impl Writer {
    /// Makes the next document one that needs none before it.
    pub(crate) fn restart(&mut self) {
        self.before.clear();
        self.clock = 0;
    }

    /// Takes in the next document.
    ///
    /// # Errors
    /// It has no JSON form.
    pub(crate) fn take<S: Serialize>(&mut self, document: &S) -> Result<(), build::Error> {
        self.now.fill(document)
    }

    /// What changed in it since the one before.
    ///
    /// # Errors
    /// The table of texts cannot take one.
    pub(crate) fn write<T: Texts>(&mut self, texts: &mut T) -> Result<Vec<u8>, T::Error> {
        let mut pass = Pass {
            out: Vec::new(),
            clock: self.clock,
            texts,
        };
        if let Some(now) = self.now.root() {
            pass.root(self.before.root(), now)?;
        }
        let Pass { out, clock, .. } = pass;
        self.clock = clock;
        std::mem::swap(&mut self.before, &mut self.now);
        Ok(out)
    }
}

struct Pass<'a, T> {
    out: Vec<u8>,
    clock: u64,
    texts: &'a mut T,
}

impl<T: Texts> Pass<'_, T> {
    /// The whole document. If it is to have a sum it is never written as the same as the one before.
    fn root(&mut self, before: Option<At<'_>>, now: At<'_>) -> Result<(), T::Error> {
        let is_sealed = |members: &Members<'_>| {
            let first = members.iter().next();
            first.is_some_and(|(name, _)| name == seal::NAME)
        };
        let Some(members) = now.members().filter(is_sealed) else {
            return self.value(before, now, false);
        };
        match before.and_then(At::members) {
            Some(old) if old.has_names_of(members) && seal::fits(members.len()) => {
                self.fields(old, members, true)
            }
            _ => self.object(members, true),
        }
    }

    fn value(
        &mut self,
        before: Option<At<'_>>,
        now: At<'_>,
        is_clock: bool,
    ) -> Result<(), T::Error> {
        if before.is_some_and(|before| before.is_same(now)) {
            self.out.push(SAME);
            return Ok(());
        }
        self.changed(before, now, is_clock)
    }

    /// A value that is known to differ from the one before: most time goes into comparing, so nothing is
    /// compared twice.
    fn changed(
        &mut self,
        before: Option<At<'_>>,
        now: At<'_>,
        is_clock: bool,
    ) -> Result<(), T::Error> {
        match now.node {
            Node::Null => self.out.push(NULL),
            Node::Bool(false) => self.out.push(FALSE),
            Node::Bool(true) => self.out.push(TRUE),
            Node::Uint(number) => self.uint(before, number, is_clock),
            Node::Negative(number) => {
                self.out.push(NEGATIVE);
                varint::put(&mut self.out, number.unsigned_abs());
            }
            Node::Float(number) => {
                self.out.push(FLOAT);
                self.out.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Node::Text(_) => {
                self.out.push(TEXT);
                self.text(now.text().unwrap_or_default())?;
            }
            Node::List(_) | Node::Object(_) => self.compound(before, now)?,
        }
        Ok(())
    }

    fn compound(&mut self, before: Option<At<'_>>, now: At<'_>) -> Result<(), T::Error> {
        if let Some(items) = now.items() {
            return match before.and_then(At::items) {
                Some(old) => self.items(old, items),
                None => self.list(items),
            };
        }
        let Some(members) = now.members() else {
            return Ok(());
        };
        match before.and_then(At::members) {
            Some(old) if old.has_names_of(members) => self.fields(old, members, false),
            _ => self.object(members, false),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), T::Error> {
        let number = self.texts.number(text)?;
        varint::put(&mut self.out, number);
        Ok(())
    }

    fn uint(&mut self, before: Option<At<'_>>, now: u64, is_clock: bool) {
        let base = match before.map(|before| before.node) {
            _ if is_clock => Some(std::mem::replace(&mut self.clock, now)),
            Some(Node::Uint(before)) => Some(before),
            _ => None,
        };
        match base {
            Some(base) => self.step(varint::step(base, now)),
            None => {
                self.out.push(UINT);
                varint::put(&mut self.out, now);
            }
        }
    }

    fn step(&mut self, zigzag: u64) {
        let first = STEP | u8::try_from(zigzag & 0x3f).unwrap_or(0x3f);
        match zigzag >> 6 {
            0 => self.out.push(first),
            rest => {
                self.out.push(first | STEP_MORE);
                varint::put(&mut self.out, rest);
            }
        }
    }

    fn list(&mut self, items: Items<'_>) -> Result<(), T::Error> {
        self.out.push(LIST);
        varint::put(&mut self.out, items.len() as u64);
        let mut items = items.iter();
        items.try_for_each(|item| self.value(None, item, false))
    }

    /// If it is sealed its first member is the sum.
    fn object(&mut self, members: Members<'_>, is_sealed: bool) -> Result<(), T::Error> {
        self.out.push(OBJECT);
        varint::put(&mut self.out, members.len() as u64);
        for (index, (name, value)) in members.iter().enumerate() {
            self.text(name)?;
            if is_sealed && index == 0 {
                seal::leave_room(&mut self.out);
            } else {
                self.value(None, value, name == CLOCK)?;
            }
        }
        Ok(())
    }

    /// The members of an object that has the names of the one before.
    fn fields(
        &mut self,
        old: Members<'_>,
        new: Members<'_>,
        is_sealed: bool,
    ) -> Result<(), T::Error> {
        let is_small = new.len() <= SMALL_FIELDS_MAX;
        // The bits are set where they will stand.
        let bits_at = match is_small {
            true => self.out.len(),
            false => self.out.len() + 1,
        };
        if is_small {
            self.out.push(SMALL_FIELDS);
        } else {
            self.out.push(FIELDS);
            self.out.resize(bits_at + new.len().div_ceil(8), 0);
        }
        for (index, (old, (name, new))) in old.values().zip(new.iter()).enumerate() {
            let is_sum = is_sealed && index == 0;
            if !is_sum && old.is_same(new) {
                continue;
            }
            if let Some(byte) = self.out.get_mut(bits_at + index / 8) {
                *byte |= 1 << (index % 8);
            }
            if is_sum {
                seal::leave_room(&mut self.out);
            } else {
                self.changed(Some(old), new, name == CLOCK)?;
            }
        }
        Ok(())
    }

    fn items(&mut self, old: Items<'_>, new: Items<'_>) -> Result<(), T::Error> {
        self.out.push(ITEMS);
        varint::put(&mut self.out, new.len() as u64);
        let mut cursor = 0;
        let mut unchanged = 0u64;
        for item in new.iter() {
            let found = find(old, cursor, item);
            let before = found.and_then(|place| old.get(place));
            let is_same = before.is_some_and(|before| before.is_same(item));
            if is_same && found == Some(cursor) {
                (cursor, unchanged) = (cursor + 1, unchanged + 1);
                continue;
            }
            self.run(ITEMS_SAME, std::mem::take(&mut unchanged));
            let Some(place) = found else {
                self.out.push(ITEM_NEW);
                self.value(None, item, false)?;
                continue;
            };
            self.run(ITEMS_GONE, (place - cursor) as u64);
            cursor = place + 1;
            if is_same {
                unchanged = 1;
            } else {
                self.out.push(ITEM_CHANGED);
                self.changed(before, item, false)?;
            }
        }
        self.run(ITEMS_SAME, unchanged);
        Ok(())
    }

    fn run(&mut self, what: u8, count: u64) {
        if count > 0 {
            self.out.push(what);
            varint::put(&mut self.out, count);
        }
    }
}

/// The value that tells elements of a list apart.
fn key(value: At<'_>) -> Option<At<'_>> {
    value.members()?.get(KEY)
}

/// The element of the list before that `item` is to be compared with.
fn find(old: Items<'_>, cursor: usize, item: At<'_>) -> Option<usize> {
    let is_it = |place: &usize| {
        let pair = old.get(*place).and_then(key).zip(key(item));
        pair.is_some_and(|(old, wanted)| old.is_same(wanted))
    };
    match key(item) {
        Some(_) => (cursor..old.len()).take(LOOK_AHEAD).find(is_it),
        None => (cursor < old.len()).then_some(cursor),
    }
}
