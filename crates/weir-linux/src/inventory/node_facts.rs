// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about nodes: which are CXL memory, and of each node without CPUs what says so.

use super::cxl::{Classified, UnusedMemory, unused_memory};
use super::numa::Topology;
use crate::options::Roots;
use weir_core::Missing;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::Fact;

impl Topology {
    pub(crate) fn facts(&self, roots: &Roots) -> Vec<Fact> {
        let mut facts = vec![self.cxl_nodes(roots)];
        facts.extend(self.classified.iter().map(verdict));
        facts
    }

    /// CXL memory that is not in use beside nodes of it. Where there are none, [`Topology::facts`] has it.
    pub(crate) fn unused(&self, roots: &Roots) -> Vec<Fact> {
        if !self
            .memory_nodes
            .as_ref()
            .is_ok_and(|nodes| !nodes.is_empty())
        {
            return Vec::new();
        }
        let fact = |unused: UnusedMemory| Fact {
            name: format!("numa.{}", unused.of),
            value: Err(Missing::NotSupported(unused.why)),
            next_move: unused.next_move,
        };
        unused_memory(roots).into_iter().map(fact).collect()
    }

    fn cxl_nodes(&self, roots: &Roots) -> Fact {
        let mut next_move = None;
        let value = self.memory_nodes.clone().and_then(|nodes| {
            if nodes.is_empty() {
                let why = if self.classified.is_empty() {
                    "every node with memory has CPUs"
                } else {
                    "no node is CXL memory"
                };
                let unused = unused_memory(roots);
                let whys = unused.iter().map(|one| one.why.clone());
                let why: Vec<String> = [why.to_owned()].into_iter().chain(whys).collect();
                let moves = unused.into_iter().filter_map(|one| one.next_move);
                next_move = NextMove::joined(moves.collect());
                return Err(Missing::NotSupported(why.join("; ")));
            }
            let name =
                |n: &crate::inventory::numa::MemoryNode| format!("{} ({})", n.id, n.size_bytes);
            Ok(nodes.iter().map(name).collect::<Vec<_>>().join(", "))
        });
        Fact {
            name: "numa.cxl_nodes".into(),
            next_move,
            value,
        }
    }
}

fn verdict(classified: &Classified) -> Fact {
    let words = classified.verdict.words();
    let next_move = || NextMove {
        act: Act::Deed("name the nodes of CXL memory: --device node:N".into()),
        why: "what was read does not prove what the node is".into(),
        needs: Precondition::Operator("that is wrong".into()),
    };
    Fact {
        name: format!("numa.node{}", classified.node.id.0),
        value: if classified.verdict.is_cxl {
            Ok(words)
        } else {
            Err(Missing::NotSupported(words))
        },
        next_move: (!classified.verdict.is_proven).then(next_move),
    }
}
