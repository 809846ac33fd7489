// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Documents of format 1, from bytes to plain JSON values. The bytes may come from any source: depth, number
//! of values and lengths are bounded, and nothing panics.
//!
//! Each value is written against the old value in its place, that of the document before:
//!
//! | first byte | what follows | value |
//! |---|---|---|
//! | 0 | – | the old value |
//! | 1, 2, 3 | – | null, false, true |
//! | 4 | number | unsigned integer |
//! | 5 | number n | the integer −n |
//! | 6 | 8 bytes, little endian | double (IEEE 754) |
//! | 7 | number | the text of that number in table `text` |
//! | 8 | number n, n values without old ones | list |
//! | 9 | number n, n × (text, value without an old one) | object |
//! | 10 | ⌈members / 8⌉ bytes, lowest bit first, then values | the old object, but members with a set bit |
//! | 11 | number n, then items until there are n | list, against the old list |
//! | `01bbbbbb` | values | as 10, for objects of at most six members; the bits are in the byte |
//! | `1cbbbbbb` | if c: number m | unsigned integer: base plus the step of zigzag `bbbbbb` + 64 m, modulo 2^64 |
//!
//! A number is LEB128: seven bits a byte, lowest first, the high bit set if more follow. Zigzag maps a signed
//! step: 0, −1 → 1, 1 → 2, … Members of an object are in the order of their names' bytes. The base of a step
//! is the old value. For a member called `at` it is the last `at` of this document or, for the first, of the
//! one before.

use serde_json::{Map, Number, Value};

/// Gives the text of a number, if there is one.
pub(crate) type Texts<'a> = &'a mut dyn FnMut(u64) -> Option<String>;

/// Why bytes are no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Bad(pub(crate) &'static str);

/// Nesting deeper than any observation's.
const DEPTH_MAX: u32 = 32;
/// Values in one document: ten thousand workloads have about 300 000.
const NODES_MAX: usize = 8_000_000;
/// The member of an object that holds a time: its numbers are steps from the one before in the document.
const CLOCK: &str = "at";

// First byte of a value. Above `SMALL_FIELDS` the byte also holds a part of the value.
const SAME: u8 = 0;
const NULL: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
pub(super) const UINT: u8 = 4;
const NEGATIVE: u8 = 5;
const FLOAT: u8 = 6;
const TEXT: u8 = 7;
const LIST: u8 = 8;
pub(super) const OBJECT: u8 = 9;
const FIELDS: u8 = 10;
const ITEMS: u8 = 11;
/// `01bbbbbb`: an object of at most six fields, and which of them changed.
pub(super) const SMALL_FIELDS: u8 = 0x40;
const SMALL_FIELDS_MAX: usize = 6;
/// `1cbbbbbb`: six bits of a step, and whether more follow.
pub(super) const STEP: u8 = 0x80;
const STEP_MORE: u8 = 0x40;

// What comes next in a list that is compared with the one before.
const ITEM_NEW: u8 = 0;
const ITEM_CHANGED: u8 = 1;
const ITEMS_SAME: u8 = 2;
const ITEMS_GONE: u8 = 3;

/// Remembers the document before.
#[derive(Default)]
pub(crate) struct Reader {
    before: Option<Value>,
    clock: u64,
}

impl Reader {
    /// The next document needs none before it.
    pub(crate) fn restart(&mut self) {
        *self = Reader::default();
    }

    /// The next document.
    ///
    /// # Errors
    /// The bytes are no document that can follow the one before. The next one can then only be read
    /// after a restart.
    pub(crate) fn read(&mut self, mut bytes: &[u8], texts: Texts) -> Result<&Value, Bad> {
        let mut pass = Pass {
            clock: self.clock,
            texts,
            nodes_left: NODES_MAX,
        };
        let document = pass.value(&mut bytes, self.before.as_ref(), false, 0)?;
        if !bytes.is_empty() {
            return Err(Bad("something follows after its end"));
        }
        self.clock = pass.clock;
        Ok(self.before.insert(document))
    }
}

struct Pass<'a> {
    clock: u64,
    texts: Texts<'a>,
    nodes_left: usize,
}

impl Pass<'_> {
    fn value(
        &mut self,
        bytes: &mut &[u8],
        before: Option<&Value>,
        is_clock: bool,
        depth: u32,
    ) -> Result<Value, Bad> {
        self.pay(1)?;
        if depth > DEPTH_MAX {
            return Err(Bad("it is nested too deeply"));
        }
        let tag = byte(bytes)?;
        if tag >= STEP {
            return self.step(bytes, tag, before, is_clock);
        }
        match tag {
            SAME => self.copy(before.ok_or(Bad("it is like one that is not there"))?),
            NULL => Ok(Value::Null),
            FALSE => Ok(Value::Bool(false)),
            TRUE => Ok(Value::Bool(true)),
            UINT => {
                let number = number(bytes)?;
                if is_clock {
                    self.clock = number;
                }
                Ok(number.into())
            }
            NEGATIVE => negative(number(bytes)?),
            FLOAT => float(bytes),
            TEXT => self.text(bytes).map(Value::String),
            LIST => self.list(bytes, depth),
            OBJECT => self.object(bytes, depth),
            FIELDS | SMALL_FIELDS.. => match before {
                Some(Value::Object(old)) => self.fields(bytes, tag, old, depth),
                _ => Err(Bad("it is compared with an object that is not there")),
            },
            ITEMS => match before {
                Some(Value::Array(old)) => self.items(bytes, old, depth),
                _ => Err(Bad("it is compared with a list that is not there")),
            },
            _ => Err(Bad("it begins with a byte that means nothing")),
        }
    }

    fn pay(&mut self, nodes: usize) -> Result<(), Bad> {
        let left = self.nodes_left.checked_sub(nodes);
        self.nodes_left = left.ok_or(Bad("it has too many values"))?;
        Ok(())
    }

    /// A copy costs what making it anew would cost, so that a few bytes cannot grow without end.
    fn copy(&mut self, value: &Value) -> Result<Value, Bad> {
        self.pay(size(value))?;
        Ok(value.clone())
    }

    fn step(
        &mut self,
        bytes: &mut &[u8],
        tag: u8,
        before: Option<&Value>,
        is_clock: bool,
    ) -> Result<Value, Bad> {
        let mut zigzag = u64::from(tag & 0x3f);
        if tag & STEP_MORE != 0 {
            let more = number(bytes)?;
            let high = more.checked_mul(1 << 6);
            zigzag |= high.ok_or(Bad("a number has more than 64 bits"))?;
        }
        let base = if is_clock {
            Some(self.clock)
        } else {
            before.and_then(Value::as_u64)
        };
        let now = walk(base.ok_or(Bad("it is a step from no number"))?, zigzag);
        if is_clock {
            self.clock = now;
        }
        Ok(now.into())
    }

    fn text(&mut self, bytes: &mut &[u8]) -> Result<String, Bad> {
        let number = number(bytes)?;
        let text = (self.texts)(number).ok_or(Bad("it names a text that is not there"))?;
        // A text is paid for by its length: many copies of a long one are as large as many values.
        self.pay(text.len() / 16)?;
        Ok(text)
    }

    fn list(&mut self, bytes: &mut &[u8], depth: u32) -> Result<Value, Bad> {
        let length = number(bytes)?;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(self.value(bytes, None, false, depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, bytes: &mut &[u8], depth: u32) -> Result<Value, Bad> {
        let length = number(bytes)?;
        let mut fields = Map::new();
        for _ in 0..length {
            let name = self.text(bytes)?;
            let value = self.value(bytes, None, name == CLOCK, depth + 1)?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }

    fn fields(
        &mut self,
        bytes: &mut &[u8],
        tag: u8,
        old: &Map<String, Value>,
        depth: u32,
    ) -> Result<Value, Bad> {
        let mut bits = vec![tag & !SMALL_FIELDS];
        if tag == FIELDS {
            bits.clear();
            for _ in 0..old.len().div_ceil(8) {
                bits.push(byte(bytes)?);
            }
        } else if old.len() > SMALL_FIELDS_MAX {
            return Err(Bad("it is compared with an object of another size"));
        }
        let mut fields = Map::new();
        for (index, (name, old)) in old.iter().enumerate() {
            let has_changed = bits
                .get(index / 8)
                .is_some_and(|b| b >> (index % 8) & 1 == 1);
            let value = if has_changed {
                self.value(bytes, Some(old), name == CLOCK, depth + 1)?
            } else {
                self.copy(old)?
            };
            fields.insert(name.clone(), value);
        }
        Ok(Value::Object(fields))
    }

    fn items(&mut self, bytes: &mut &[u8], old: &[Value], depth: u32) -> Result<Value, Bad> {
        let length = number(bytes)?;
        let mut old = old.iter();
        let mut items = Vec::new();
        let missing = Bad("it is compared with an element that is not there");
        while (items.len() as u64) < length {
            match byte(bytes)? {
                ITEM_NEW => items.push(self.value(bytes, None, false, depth + 1)?),
                ITEM_CHANGED => {
                    let before = old.next().ok_or(missing)?;
                    items.push(self.value(bytes, Some(before), false, depth + 1)?);
                }
                ITEMS_SAME => {
                    let count = number(bytes)?;
                    if count > length - items.len() as u64 {
                        return Err(Bad("a list is longer than it says"));
                    }
                    for _ in 0..count {
                        let before = old.next().ok_or(missing)?;
                        items.push(self.copy(before)?);
                    }
                }
                ITEMS_GONE => {
                    let count = number(bytes)?.checked_sub(1);
                    let last = count.and_then(|n| usize::try_from(n).ok());
                    last.and_then(|n| old.nth(n)).ok_or(missing)?;
                }
                _ => return Err(Bad("an element begins with a byte that means nothing")),
            }
        }
        Ok(Value::Array(items))
    }
}

fn negative(size: u64) -> Result<Value, Bad> {
    let value = 0i64.checked_sub_unsigned(size);
    value
        .map(Value::from)
        .ok_or(Bad("a number has more than 64 bits"))
}

fn float(bytes: &mut &[u8]) -> Result<Value, Bad> {
    let (bits, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or(Bad("it ends too early"))?;
    *bytes = rest;
    let number = Number::from_f64(f64::from_le_bytes(*bits));
    number
        .map(Value::Number)
        .ok_or(Bad("a number is not finite"))
}

/// Number of values in it, itself included.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(size).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 16,
        _ => 1,
    }
}

/// Takes a number off the front.
pub(super) fn number(bytes: &mut &[u8]) -> Result<u64, Bad> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = byte(bytes)?;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return Err(Bad("a number has more than 64 bits"));
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Bad("a number has more than 64 bits"))
}

pub(super) fn byte(bytes: &mut &[u8]) -> Result<u8, Bad> {
    let (first, rest) = bytes.split_first().ok_or(Bad("it ends too early"))?;
    *bytes = rest;
    Ok(*first)
}

/// A step around the ring of 2^64.
fn walk(from: u64, zigzag: u64) -> u64 {
    let way = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
    from.wrapping_add(way)
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
