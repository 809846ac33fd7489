// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about nodes: which are CXL memory, and of each node without CPUs what says so.

use super::cxl::{Classified, NextMove, next_moves};
use super::numa::Topology;
use crate::options::Roots;
use weir_core::Missing;
use weir_core::seam::topology::Fact;

impl Topology {
    /// For `weir doctor`.
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
        let fact = |next: NextMove| Fact {
            name: format!("numa.{}", next.of),
            value: Err(Missing::NotSupported(next.why)),
            next_move: next.command,
        };
        next_moves(roots).into_iter().map(fact).collect()
    }

    fn cxl_nodes(&self, roots: &Roots) -> Fact {
        let mut next_move = None;
        let value = self.memory_nodes.clone().and_then(|nodes| {
            if nodes.is_empty() {
                let why = match self.classified.is_empty() {
                    true => "every node with memory has CPUs",
                    false => "no node is CXL memory",
                };
                let moves = next_moves(roots).into_iter();
                let (can, cannot): (Vec<_>, Vec<_>) = moves.partition(|m| m.command.is_some());
                let joined = |moves: Vec<NextMove>| {
                    let words: Vec<String> = moves.iter().map(NextMove::to_string).collect();
                    Some(words.join("; ")).filter(|words| !words.is_empty())
                };
                next_move = joined(can);
                let why = [why.to_owned()].into_iter().chain(joined(cannot));
                return Err(Missing::NotSupported(why.collect::<Vec<_>>().join("; ")));
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
    let next_move = "if that is wrong, name the nodes of CXL memory: --device node:N";
    Fact {
        name: format!("numa.node{}", classified.node.id.0),
        value: match classified.verdict.is_cxl {
            true => Ok(words),
            false => Err(Missing::NotSupported(words)),
        },
        next_move: (!classified.verdict.is_proven).then(|| next_move.to_owned()),
    }
}
