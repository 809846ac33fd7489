// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the memory of nodes lies: memory blocks of the kernel
//! (`Documentation/ABI/testing/sysfs-devices-memory`). Block n begins at n × block size, and is linked in the
//! directory of its node.

use crate::inventory::memory_nodes::{blocks, hexadecimal};
use crate::inventory::numa::missing;
use crate::kernel::files::read_path;
use crate::options::Roots;
use std::collections::BTreeMap;
use std::path::Path;
use weir_core::Missing;

/// Addresses, host-physical: the end is the first byte behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Span {
    /// Nothing where it is empty, or ends above all addresses.
    pub(super) fn new(start: u64, size_bytes: u64) -> Option<Span> {
        let end = start.checked_add(size_bytes)?;
        (size_bytes > 0).then_some(Span { start, end })
    }

    fn meets(self, other: Span) -> u64 {
        let end = self.end.min(other.end);
        end.saturating_sub(self.start.max(other.start))
    }
}

/// In ascending order, each once.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut all: Vec<Span> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => all.push(span),
        }
    }
    all
}

/// Bytes of `these` that lie in `those`.
pub(super) fn common(these: &[Span], those: &[Span]) -> u64 {
    let (these, those) = (merged(these.to_vec()), merged(those.to_vec()));
    let each = |a: &Span| those.iter().map(|b| a.meets(*b)).sum::<u64>();
    these.iter().map(each).fold(0, u64::saturating_add)
}

/// Whether they have an address in common.
pub(super) fn meet(these: &[Span], those: &[Span]) -> bool {
    these.iter().any(|a| those.iter().any(|b| a.meets(*b) > 0))
}

pub(super) fn total(spans: &[Span]) -> u64 {
    common(spans, spans)
}

/// Addresses of all nodes, as far as the kernel lists them.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Why none are known, if so.
    pub(super) missing: Option<Missing>,
    of: BTreeMap<u32, Vec<Span>>,
}

impl Places {
    pub(super) fn read(roots: &Roots, nodes: &[u32]) -> Places {
        let block_bytes = match block_bytes(roots) {
            Ok(bytes) => bytes,
            Err(why) => {
                return Places {
                    missing: Some(why),
                    ..Places::default()
                };
            }
        };
        let mut places = Places::default();
        for node in nodes {
            let dir = roots.sys.join(format!("devices/system/node/node{node}"));
            let Ok(numbers) = blocks(&dir) else { continue };
            let spans = numbers
                .into_iter()
                .filter_map(|number| Span::new(number.checked_mul(block_bytes)?, block_bytes));
            places.of.insert(*node, merged(spans.collect()));
        }
        places
    }

    /// The addresses of a node; empty where they are not known.
    pub(super) fn of(&self, node: u32) -> &[Span] {
        self.of.get(&node).map(Vec::as_slice).unwrap_or_default()
    }

    /// The addresses of all nodes together, if those of each are known.
    pub(super) fn all(&self) -> Option<Vec<Span>> {
        let each_has = !self.of.is_empty() && self.of.values().all(|spans| !spans.is_empty());
        each_has.then(|| self.of.values().flatten().copied().collect())
    }
}

pub(super) fn block_bytes(roots: &Roots) -> Result<u64, Missing> {
    let path = roots.sys.join("devices/system/memory/block_size_bytes");
    let text = read_path(&path).map_err(|e| missing(&path, &e))?;
    let bytes = hexadecimal(&text).filter(|bytes| bytes.is_power_of_two());
    bytes.ok_or_else(|| Missing::Lost(format!("{}: no size in hexadecimal", path.display())))
}

/// The one of these nodes that has the memory block at an address.
pub(crate) fn node_of(roots: &Roots, address: u64, nodes: &[u32]) -> Option<u32> {
    let block = address / block_bytes(roots).ok()?;
    let has = |node: &&u32| {
        let link = format!("devices/system/node/node{node}/memory{block}");
        Path::exists(&roots.sys.join(link))
    };
    nodes.iter().find(has).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: u64, end: u64) -> Span {
        Span { start, end }
    }

    #[test]
    fn spans_meet_where_they_have_bytes_in_common() {
        let these = [span(10, 20), span(15, 30), span(50, 60)];
        assert_eq!(total(&these), 30);
        assert_eq!(common(&these, &[span(0, 12), span(18, 55)]), 2 + 12 + 5);
        assert!(!meet(&these, &[span(30, 50)]));
        assert_eq!(Span::new(u64::MAX, 1), None);
        assert_eq!(Span::new(5, 0), None);
    }

    proptest! {
        /// Byte by byte, over small addresses.
        #[test]
        fn bytes_in_common_are_those_that_lie_in_both(
            these in prop::collection::vec((0_u64..60, 1_u64..20), 0..5),
            those in prop::collection::vec((0_u64..60, 1_u64..20), 0..5),
        ) {
            let spans = |list: &[(u64, u64)]| list.iter().filter_map(|(a, n)| Span::new(*a, *n)).collect::<Vec<_>>();
            let (a, b) = (spans(&these), spans(&those));
            let inside = |list: &[Span], at: u64| list.iter().any(|s| s.start <= at && at < s.end);
            let both = (0..100).filter(|at| inside(&a, *at) && inside(&b, *at)).count() as u64;
            prop_assert_eq!(common(&a, &b), both);
            prop_assert_eq!(meet(&a, &b), both > 0);
        }
    }
}
