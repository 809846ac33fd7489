// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From documents to bytes.

use super::varint;
use super::{
    CLOCK, FALSE, FIELDS, FLOAT, ITEM_CHANGED, ITEM_NEW, ITEMS, ITEMS_GONE, ITEMS_SAME, LIST,
    NEGATIVE, NULL, OBJECT, SAME, SMALL_FIELDS, SMALL_FIELDS_MAX, STEP, STEP_MORE, TEXT, TRUE,
    Texts, UINT, key,
};
use serde_json::{Map, Number, Value};

/// How far ahead an element is looked for in the list before. If more than these went away at once,
/// the rest of the list is written in full, once.
const LOOK_AHEAD: usize = 64;

/// Remembers the document before.
#[derive(Default)]
pub(crate) struct Writer {
    before: Option<Value>,
    clock: u64,
}

impl Writer {
    /// Makes the next document one that needs none before it.
    pub(crate) fn restart(&mut self) {
        *self = Writer::default();
    }

    /// The next document.
    ///
    /// # Errors
    /// The table of texts cannot take one.
    pub(crate) fn write<T: Texts>(
        &mut self,
        document: Value,
        texts: &mut T,
    ) -> Result<Vec<u8>, T::Error> {
        let mut pass = Pass {
            out: Vec::new(),
            clock: self.clock,
            texts,
        };
        pass.value(self.before.as_ref(), &document, false)?;
        let Pass { out, clock, .. } = pass;
        self.clock = clock;
        self.before = Some(document);
        Ok(out)
    }
}

struct Pass<'a, T> {
    out: Vec<u8>,
    clock: u64,
    texts: &'a mut T,
}

impl<T: Texts> Pass<'_, T> {
    fn value(
        &mut self,
        before: Option<&Value>,
        now: &Value,
        is_clock: bool,
    ) -> Result<(), T::Error> {
        if before.is_some_and(|before| same(before, now)) {
            self.out.push(SAME);
            return Ok(());
        }
        self.changed(before, now, is_clock)
    }

    /// A value that is known to differ from the one before: most time goes into comparing, so nothing is
    /// compared twice.
    fn changed(
        &mut self,
        before: Option<&Value>,
        now: &Value,
        is_clock: bool,
    ) -> Result<(), T::Error> {
        match now {
            Value::Null => self.out.push(NULL),
            Value::Bool(false) => self.out.push(FALSE),
            Value::Bool(true) => self.out.push(TRUE),
            Value::Number(number) => self.number(before, number, is_clock),
            Value::String(text) => {
                self.out.push(TEXT);
                self.text(text)?;
            }
            Value::Array(items) => match before {
                Some(Value::Array(old)) => self.items(old, items)?,
                _ => self.list(items)?,
            },
            Value::Object(fields) => match before {
                Some(Value::Object(old)) if old.keys().eq(fields.keys()) => {
                    self.fields(old, fields)?
                }
                _ => self.object(fields)?,
            },
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), T::Error> {
        let number = self.texts.number(text)?;
        varint::put(&mut self.out, number);
        Ok(())
    }

    fn number(&mut self, before: Option<&Value>, now: &Number, is_clock: bool) {
        if let Some(now) = now.as_u64() {
            let base = if is_clock {
                Some(std::mem::replace(&mut self.clock, now))
            } else {
                before.and_then(Value::as_u64)
            };
            match base {
                Some(base) => self.step(varint::step(base, now)),
                None => {
                    self.out.push(UINT);
                    varint::put(&mut self.out, now);
                }
            }
        } else if let Some(now) = now.as_i64() {
            self.out.push(NEGATIVE);
            varint::put(&mut self.out, now.unsigned_abs());
        } else {
            self.out.push(FLOAT);
            // serde_json has no other numbers, and none that are not finite.
            let bits = now.as_f64().unwrap_or(0.0);
            self.out.extend_from_slice(&bits.to_le_bytes());
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

    fn list(&mut self, items: &[Value]) -> Result<(), T::Error> {
        self.out.push(LIST);
        varint::put(&mut self.out, items.len() as u64);
        items
            .iter()
            .try_for_each(|item| self.value(None, item, false))
    }

    fn object(&mut self, fields: &Map<String, Value>) -> Result<(), T::Error> {
        self.out.push(OBJECT);
        varint::put(&mut self.out, fields.len() as u64);
        for (name, value) in fields {
            self.text(name)?;
            self.value(None, value, name == CLOCK)?;
        }
        Ok(())
    }

    fn fields(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
    ) -> Result<(), T::Error> {
        let mut bits = vec![0u8; new.len().div_ceil(8)];
        for (index, (old, new)) in old.values().zip(new.values()).enumerate() {
            if !same(old, new) {
                bits[index / 8] |= 1 << (index % 8);
            }
        }
        if new.len() <= SMALL_FIELDS_MAX {
            self.out
                .push(SMALL_FIELDS | bits.first().copied().unwrap_or(0));
        } else {
            self.out.push(FIELDS);
            self.out.extend_from_slice(&bits);
        }
        for (index, (old, (name, new))) in old.values().zip(new).enumerate() {
            if bits[index / 8] >> (index % 8) & 1 == 1 {
                self.changed(Some(old), new, name == CLOCK)?;
            }
        }
        Ok(())
    }

    fn items(&mut self, old: &[Value], new: &[Value]) -> Result<(), T::Error> {
        self.out.push(ITEMS);
        varint::put(&mut self.out, new.len() as u64);
        let mut cursor = 0;
        let mut unchanged = 0u64;
        for item in new {
            let found = find(old, cursor, item);
            let before = found.and_then(|place| old.get(place));
            let is_same = before.is_some_and(|before| same(before, item));
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

/// Equal to the last bit: 0 and −0 are not the same.
fn same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Number(old), Value::Number(new)) => {
            let bits = |n: &Number| n.as_f64().map(f64::to_bits);
            old == new && (!old.is_f64() || bits(old) == bits(new))
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new))
        }
        (Value::Object(old), Value::Object(new)) => {
            let mut pairs = old.iter().zip(new);
            old.len() == new.len() && pairs.all(|(old, new)| old.0 == new.0 && same(old.1, new.1))
        }
        _ => old == new,
    }
}

/// The element of the list before that `item` is to be compared with.
fn find(old: &[Value], cursor: usize, item: &Value) -> Option<usize> {
    let ahead = old.get(cursor..)?;
    match key(item) {
        Some(wanted) => {
            let mut ahead = ahead.iter().take(LOOK_AHEAD);
            ahead
                .position(|old| key(old) == Some(wanted))
                .map(|n| cursor + n)
        }
        None => (!ahead.is_empty()).then_some(cursor),
    }
}
