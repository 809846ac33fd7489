// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From bytes to documents. The bytes may be anybody's.

use super::varint;
use super::{
    Bad, CLOCK, DEPTH_MAX, FALSE, FIELDS, FLOAT, ITEM_CHANGED, ITEM_NEW, ITEMS, ITEMS_GONE,
    ITEMS_SAME, LIST, Lookup, NEGATIVE, NODES_MAX, NULL, OBJECT, SAME, SMALL_FIELDS,
    SMALL_FIELDS_MAX, STEP, STEP_MORE, TEXT, TRUE, UINT,
};
use serde_json::{Map, Number, Value};

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
    pub(crate) fn read(&mut self, mut bytes: &[u8], texts: &mut dyn Lookup) -> Result<&Value, Bad> {
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
    texts: &'a mut dyn Lookup,
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
        let tag = varint::byte(bytes)?;
        if tag >= STEP {
            return self.step(bytes, tag, before, is_clock);
        }
        match tag {
            SAME => self.copy(before.ok_or(Bad("it is like one that is not there"))?),
            NULL => Ok(Value::Null),
            FALSE => Ok(Value::Bool(false)),
            TRUE => Ok(Value::Bool(true)),
            UINT => {
                let number = varint::take(bytes)?;
                if is_clock {
                    self.clock = number;
                }
                Ok(number.into())
            }
            NEGATIVE => negative(varint::take(bytes)?),
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
            let more = varint::take(bytes)?;
            let high = more.checked_mul(1 << 6);
            zigzag |= high.ok_or(Bad("a number has more than 64 bits"))?;
        }
        let base = if is_clock {
            Some(self.clock)
        } else {
            before.and_then(Value::as_u64)
        };
        let now = varint::walk(base.ok_or(Bad("it is a step from no number"))?, zigzag);
        if is_clock {
            self.clock = now;
        }
        Ok(now.into())
    }

    fn text(&mut self, bytes: &mut &[u8]) -> Result<String, Bad> {
        let number = varint::take(bytes)?;
        let text = self
            .texts
            .text(number)
            .ok_or(Bad("it names a text that is not there"))?;
        // A text is paid for by its length: many copies of a long one are as large as many values.
        self.pay(text.len() / 16)?;
        Ok(text)
    }

    fn list(&mut self, bytes: &mut &[u8], depth: u32) -> Result<Value, Bad> {
        let length = varint::take(bytes)?;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(self.value(bytes, None, false, depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, bytes: &mut &[u8], depth: u32) -> Result<Value, Bad> {
        let length = varint::take(bytes)?;
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
                bits.push(varint::byte(bytes)?);
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
        let length = varint::take(bytes)?;
        let mut old = old.iter();
        let mut items = Vec::new();
        let missing = Bad("it is compared with an element that is not there");
        while (items.len() as u64) < length {
            match varint::byte(bytes)? {
                ITEM_NEW => items.push(self.value(bytes, None, false, depth + 1)?),
                ITEM_CHANGED => {
                    let before = old.next().ok_or(missing)?;
                    items.push(self.value(bytes, Some(before), false, depth + 1)?);
                }
                ITEMS_SAME => {
                    let count = varint::take(bytes)?;
                    if count > length - items.len() as u64 {
                        return Err(Bad("a list is longer than it says"));
                    }
                    for _ in 0..count {
                        let before = old.next().ok_or(missing)?;
                        items.push(self.copy(before)?);
                    }
                }
                ITEMS_GONE => {
                    let count = varint::take(bytes)?.checked_sub(1);
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
