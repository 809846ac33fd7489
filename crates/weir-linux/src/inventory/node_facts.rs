// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about nodes: which are CXL memory, and of each node without CPUs what says so.

use super::cxl::{Classified, Fabric, next_move};
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

    fn cxl_nodes(&self, roots: &Roots) -> Fact {
        let value = self.memory_nodes.clone().and_then(|nodes| {
            if nodes.is_empty() {
                let why = match self.classified.is_empty() {
                    true => "every node with memory has CPUs",
                    false => "no node is CXL memory",
                };
                return Err(Missing::NotSupported(why.into()));
            }
            let name =
                |n: &crate::inventory::numa::MemoryNode| format!("{} ({})", n.id, n.size_bytes);
            Ok(nodes.iter().map(name).collect::<Vec<_>>().join(", "))
        });
        Fact {
            name: "numa.cxl_nodes".into(),
            next_move: value.is_err().then(|| next_move(&Fabric::read(roots))),
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
