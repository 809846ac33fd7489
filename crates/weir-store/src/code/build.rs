// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a serde type becomes a [`Document`]: by the rules by which `serde_json` makes a `Value` of it.

use super::document::{Document, Member, Name, Node, Span};
use serde::ser::{self, Error as _, Serialize};
use std::cmp::Ordering;
use std::fmt::Display;

/// As `serde_json` has it, whose rules these are.
pub(crate) type Error = serde_json::Error;

fn place(length: usize) -> Result<u32, Error> {
    u32::try_from(length).map_err(|_| Error::custom("larger than 2^32"))
}

impl Document {
    fn put(&mut self, node: Node) -> Result<u32, Error> {
        let at = place(self.nodes.len())?;
        self.nodes.push(node);
        Ok(at)
    }

    fn keep(&mut self, text: &str) -> Result<Span, Error> {
        let span = Span {
            from: place(self.texts.len())?,
            count: place(text.len())?,
        };
        self.texts.push_str(text);
        Ok(span)
    }

    /// A list of what is open from `first` on.
    fn close_list(&mut self, first: usize) -> Result<u32, Error> {
        let from = place(self.items.len())?;
        self.items.extend(self.open.drain(first..).map(|m| m.node));
        let count = place(self.items.len())? - from;
        self.put(Node::List(Span { from, count }))
    }

    /// An object of what is open from `first` on. Of two members of one name the later one counts.
    fn close_object(&mut self, first: usize) -> Result<u32, Error> {
        let Document {
            open,
            texts,
            members,
            ..
        } = self;
        let own = open.get_mut(first..).unwrap_or_default();
        let order = |a: &Member, b: &Member| a.name.compare(b.name, texts);
        own.sort_by(order);
        let from = place(members.len())?;
        for (place, member) in own.iter().enumerate() {
            let next = own.get(place + 1);
            if next.is_none_or(|next| order(member, next) != Ordering::Equal) {
                members.push(*member);
            }
        }
        open.truncate(first);
        let count = place(self.members.len())? - from;
        self.put(Node::Object(Span { from, count }))
    }

    /// `{variant: node}`
    fn wrap(&mut self, variant: Option<&'static str>, node: u32) -> Result<u32, Error> {
        let Some(variant) = variant else {
            return Ok(node);
        };
        let first = self.open.len();
        let name = Name::Field(variant);
        self.open.push(Member { name, node });
        self.close_object(first)
    }

    fn collection(&mut self, variant: Option<&'static str>) -> Collection<'_> {
        Collection {
            first: self.open.len(),
            document: self,
            variant,
            key: None,
        }
    }
}

impl<'a> ser::Serializer for &'a mut Document {
    type Ok = u32;
    type Error = Error;
    type SerializeSeq = Collection<'a>;
    type SerializeTuple = Collection<'a>;
    type SerializeTupleStruct = Collection<'a>;
    type SerializeTupleVariant = Collection<'a>;
    type SerializeMap = Collection<'a>;
    type SerializeStruct = Collection<'a>;
    type SerializeStructVariant = Collection<'a>;

    fn serialize_bool(self, v: bool) -> Result<u32, Error> {
        self.put(Node::Bool(v))
    }

    fn serialize_i8(self, v: i8) -> Result<u32, Error> {
        self.serialize_i64(v.into())
    }

    fn serialize_i16(self, v: i16) -> Result<u32, Error> {
        self.serialize_i64(v.into())
    }

    fn serialize_i32(self, v: i32) -> Result<u32, Error> {
        self.serialize_i64(v.into())
    }

    fn serialize_i64(self, v: i64) -> Result<u32, Error> {
        self.put(u64::try_from(v).map_or(Node::Negative(v), Node::Uint))
    }

    fn serialize_u8(self, v: u8) -> Result<u32, Error> {
        self.serialize_u64(v.into())
    }

    fn serialize_u16(self, v: u16) -> Result<u32, Error> {
        self.serialize_u64(v.into())
    }

    fn serialize_u32(self, v: u32) -> Result<u32, Error> {
        self.serialize_u64(v.into())
    }

    fn serialize_u64(self, v: u64) -> Result<u32, Error> {
        self.put(Node::Uint(v))
    }

    fn serialize_f32(self, v: f32) -> Result<u32, Error> {
        self.serialize_f64(v.into())
    }

    fn serialize_f64(self, v: f64) -> Result<u32, Error> {
        self.put(if v.is_finite() {
            Node::Float(v)
        } else {
            Node::Null
        })
    }

    fn serialize_char(self, v: char) -> Result<u32, Error> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Result<u32, Error> {
        let span = self.keep(v)?;
        self.put(Node::Text(span))
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<u32, Error> {
        self.collect_seq(v)
    }

    fn serialize_none(self) -> Result<u32, Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<u32, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<u32, Error> {
        self.put(Node::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<u32, Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<u32, Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<u32, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<u32, Error> {
        let node = value.serialize(&mut *self)?;
        self.wrap(Some(variant), node)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Collection<'a>, Error> {
        Ok(self.collection(None))
    }

    fn serialize_tuple(self, _: usize) -> Result<Collection<'a>, Error> {
        Ok(self.collection(None))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Collection<'a>, Error> {
        Ok(self.collection(None))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Collection<'a>, Error> {
        Ok(self.collection(Some(variant)))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Collection<'a>, Error> {
        Ok(self.collection(None))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Collection<'a>, Error> {
        Ok(self.collection(None))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Collection<'a>, Error> {
        Ok(self.collection(Some(variant)))
    }

    fn collect_str<T: ?Sized + Display>(self, value: &T) -> Result<u32, Error> {
        self.serialize_str(&value.to_string())
    }
}

/// A list or an object on its way. What is in it already is open in the document from `first` on.
pub(crate) struct Collection<'a> {
    document: &'a mut Document,
    first: usize,
    variant: Option<&'static str>,
    /// Of a map, of which the value has not come yet.
    key: Option<Name>,
}

impl Collection<'_> {
    fn add<T: ?Sized + Serialize>(&mut self, name: Name, value: &T) -> Result<(), Error> {
        let node = value.serialize(&mut *self.document)?;
        self.document.open.push(Member { name, node });
        Ok(())
    }

    fn end_list(self) -> Result<u32, Error> {
        let node = self.document.close_list(self.first)?;
        self.document.wrap(self.variant, node)
    }

    fn end_object(self) -> Result<u32, Error> {
        let node = self.document.close_object(self.first)?;
        self.document.wrap(self.variant, node)
    }
}

/// Elements have no names.
const ELEMENT: Name = Name::Field("");

macro_rules! list {
    ($trait:ident, $add:ident) => {
        impl ser::$trait for Collection<'_> {
            type Ok = u32;
            type Error = Error;

            fn $add<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
                self.add(ELEMENT, value)
            }

            fn end(self) -> Result<u32, Error> {
                self.end_list()
            }
        }
    };
}

list!(SerializeSeq, serialize_element);
list!(SerializeTuple, serialize_element);
list!(SerializeTupleStruct, serialize_field);
list!(SerializeTupleVariant, serialize_field);

macro_rules! object {
    ($trait:ident) => {
        impl ser::$trait for Collection<'_> {
            type Ok = u32;
            type Error = Error;

            fn serialize_field<T: ?Sized + Serialize>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.add(Name::Field(name), value)
            }

            fn end(self) -> Result<u32, Error> {
                self.end_object()
            }
        }
    };
}

object!(SerializeStruct);
object!(SerializeStructVariant);

impl ser::SerializeMap for Collection<'_> {
    type Ok = u32;
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(Name::Key(match serde_json::to_value(key)? {
            serde_json::Value::String(text) => self.document.keep(&text)?,
            serde_json::Value::Number(number) => self.document.keep(&number.to_string())?,
            serde_json::Value::Bool(yes) => {
                self.document.keep(if yes { "true" } else { "false" })?
            }
            _ => return Err(Error::custom("key must be a string")),
        }));
        Ok(())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        let key = self.key.take();
        let name = key.ok_or_else(|| Error::custom("a value without a key"))?;
        self.add(name, value)
    }

    fn end(self) -> Result<u32, Error> {
        self.end_object()
    }
}
