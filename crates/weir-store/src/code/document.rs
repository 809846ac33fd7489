// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The JSON form of a document in a few pieces of memory that are used again for each: what a tree of
//! `serde_json::Value` holds, without its thousands of allocations. Members of objects are in the
//! order of their names there and here.

use super::build;
use serde::Serialize;
use std::cmp::Ordering;

/// A document. Empty until it is filled.
#[derive(Default)]
pub(crate) struct Document {
    pub(super) nodes: Vec<Node>,
    /// Members of objects, those of one object together.
    pub(super) members: Vec<Member>,
    /// Elements of lists, those of one list together.
    pub(super) items: Vec<u32>,
    pub(super) texts: String,
    /// What belongs to objects and lists that are not complete yet.
    pub(super) open: Vec<Member>,
    root: Option<u32>,
}

/// A value. Places are those in the document's lists.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Uint(u64),
    /// Below zero.
    Negative(i64),
    /// Finite.
    Float(f64),
    Text(Span),
    List(Span),
    Object(Span),
}

/// A part of one of the document's lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: u32,
    pub(super) count: u32,
}

impl Span {
    fn of<T>(self, list: &[T]) -> &[T] {
        let from = self.from as usize;
        list.get(from..from + self.count as usize).unwrap_or(&[])
    }
}

/// The name of a member: a field of a type, or a key of a map.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Field(&'static str),
    Key(Span),
}

impl Name {
    pub(super) fn text(self, texts: &str) -> &str {
        match self {
            Name::Field(name) => name,
            Name::Key(span) => text(texts, span),
        }
    }

    pub(super) fn compare(self, other: Name, texts: &str) -> Ordering {
        self.text(texts).cmp(other.text(texts))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) name: Name,
    pub(super) node: u32,
}

fn text(texts: &str, span: Span) -> &str {
    let from = span.from as usize;
    texts.get(from..from + span.count as usize).unwrap_or("")
}

impl Document {
    /// Makes it that of `value`.
    ///
    /// # Errors
    /// `value` has no JSON form, or is larger than 2^32 values or bytes of text. The document is empty then.
    pub(crate) fn fill<S: Serialize>(&mut self, value: &S) -> Result<(), build::Error> {
        self.clear();
        self.root = Some(value.serialize(&mut *self)?);
        Ok(())
    }

    /// Empties it and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.members.clear();
        self.items.clear();
        self.texts.clear();
        self.open.clear();
        self.root = None;
    }

    /// Nothing while it is empty.
    pub(super) fn root(&self) -> Option<At<'_>> {
        self.root.map(|node| self.at(node))
    }

    fn at(&self, node: u32) -> At<'_> {
        let node = self.nodes.get(node as usize).copied();
        At {
            document: self,
            node: node.unwrap_or(Node::Null),
        }
    }
}

/// A value of a document.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    document: &'a Document,
    pub(super) node: Node,
}

impl<'a> At<'a> {
    pub(super) fn text(self) -> Option<&'a str> {
        match self.node {
            Node::Text(span) => Some(text(&self.document.texts, span)),
            _ => None,
        }
    }

    /// The elements of a list.
    pub(super) fn items(self) -> Option<Items<'a>> {
        match self.node {
            Node::List(span) => Some(Items {
                document: self.document,
                nodes: span.of(&self.document.items),
            }),
            _ => None,
        }
    }

    /// The members of an object, in the order of their names.
    pub(super) fn members(self) -> Option<Members<'a>> {
        match self.node {
            Node::Object(span) => Some(Members {
                document: self.document,
                members: span.of(&self.document.members),
            }),
            _ => None,
        }
    }

    /// Equal to the last bit: 0 and −0 are not the same.
    pub(super) fn is_same(self, other: At<'_>) -> bool {
        match (self.node, other.node) {
            (Node::Null, Node::Null) => true,
            (Node::Bool(a), Node::Bool(b)) => a == b,
            (Node::Uint(a), Node::Uint(b)) => a == b,
            (Node::Negative(a), Node::Negative(b)) => a == b,
            (Node::Float(a), Node::Float(b)) => a.to_bits() == b.to_bits(),
            (Node::Text(_), Node::Text(_)) => self.text() == other.text(),
            (Node::List(_), Node::List(_)) => {
                let pair = self.items().zip(other.items());
                pair.is_some_and(|(a, b)| {
                    a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.is_same(b))
                })
            }
            (Node::Object(_), Node::Object(_)) => {
                let pair = self.members().zip(other.members());
                pair.is_some_and(|(a, b)| {
                    a.has_names_of(b) && a.values().zip(b.values()).all(|(a, b)| a.is_same(b))
                })
            }
            _ => false,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Items<'a> {
    document: &'a Document,
    nodes: &'a [u32],
}

impl<'a> Items<'a> {
    pub(super) fn len(self) -> usize {
        self.nodes.len()
    }

    pub(super) fn get(self, place: usize) -> Option<At<'a>> {
        Some(self.document.at(*self.nodes.get(place)?))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = At<'a>> {
        self.nodes.iter().map(move |node| self.document.at(*node))
    }
}

#[derive(Clone, Copy)]
pub(super) struct Members<'a> {
    document: &'a Document,
    members: &'a [Member],
}

impl<'a> Members<'a> {
    pub(super) fn len(self) -> usize {
        self.members.len()
    }

    pub(super) fn iter(self) -> impl Iterator<Item = (&'a str, At<'a>)> {
        let Members { document, members } = self;
        members
            .iter()
            .map(|member| (member.name.text(&document.texts), document.at(member.node)))
    }

    pub(super) fn values(self) -> impl Iterator<Item = At<'a>> {
        let Members { document, members } = self;
        members.iter().map(|member| document.at(member.node))
    }

    pub(super) fn get(self, name: &str) -> Option<At<'a>> {
        self.iter().find(|(own, _)| *own == name).map(|(_, at)| at)
    }

    pub(super) fn has_names_of(self, other: Members<'_>) -> bool {
        let is_same = |(a, b): (&Member, &Member)| match (a.name, b.name) {
            // Of one type, mostly.
            (Name::Field(a), Name::Field(b)) if std::ptr::eq(a, b) => true,
            (a, b) => a.text(&self.document.texts) == b.text(&other.document.texts),
        };
        self.len() == other.len() && self.members.iter().zip(other.members).all(is_same)
    }
}
