// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads as the tree of cgroups that they are the leaves of. Inner cgroups have the sums of what is
//! below them; one with a single child is not worth a line and is written before its child.

use super::model::{Branch, TopRow};
use crate::cli::output::tag::tag;
use std::collections::{BTreeMap, BTreeSet};
use unicode_width::UnicodeWidthStr;
use weir_core::owner::PodNames;
use weir_core::rates::attribution::{Estimate, Provenance};
use weir_core::seam::plan::{Decision, Why};
use weir_core::{BytesPerSec, CpuShare, WorkloadId};
use weir_figures::text;

/// Deeper parts of a path show as one name. The file of a snapshot is not trusted.
const DEPTH_MAX: usize = 32;
/// Less CPU than this says nothing of bytes per CPU second.
const CPUS_LEAST: f64 = 0.001;

#[derive(Default)]
struct Node {
    leaf: Option<TopRow>,
    children: BTreeMap<String, Node>,
}

/// A line, and what stands below it.
struct Block {
    row: TopRow,
    body: Vec<Block>,
}

/// Leaves as lines of a tree, siblings in the order of `key`, with nothing below what is folded.
pub fn arrange<K: Ord>(
    leaves: Vec<TopRow>,
    folded: &BTreeSet<WorkloadId>,
    names: &PodNames,
    key: &dyn Fn(&TopRow) -> K,
) -> Vec<TopRow> {
    let mut root = Node::default();
    for row in leaves {
        let mut node = &mut root;
        let path = row.verdict.id.as_str();
        let parts = path.splitn(DEPTH_MAX, '/');
        // What begins with a slash begins with an empty part, which is no cgroup.
        let skip = usize::from(path.starts_with('/'));
        for part in parts.skip(skip) {
            node = node.children.entry(part.to_owned()).or_default();
        }
        node.leaf = Some(row);
    }
    let mut rows = Vec::new();
    let blocks = blocks(root, "", names, key);
    let is_flat = blocks.iter().all(|block| block.body.is_empty());
    for block in blocks {
        lay_out(block, usize::from(!is_flat), folded, &mut rows);
    }
    rows
}

fn blocks<K: Ord>(
    node: Node,
    path: &str,
    names: &PodNames,
    key: &dyn Fn(&TopRow) -> K,
) -> Vec<Block> {
    let children = node.children.into_iter();
    let mut blocks: Vec<Block> = children
        .map(|(name, child)| block(child, name, path, names, key))
        .collect();
    blocks.sort_by_cached_key(|block| key(&block.row));
    blocks
}

fn block<K: Ord>(
    mut node: Node,
    mut name: String,
    above: &str,
    names: &PodNames,
    key: &dyn Fn(&TopRow) -> K,
) -> Block {
    while node.leaf.is_none() && node.children.len() == 1 {
        let Some((below, child)) = node.children.pop_first() else {
            break;
        };
        name = format!("{name}/{below}");
        node = child;
    }
    let path = format!("{above}/{name}");
    let (tag, keep) = tag(&path, above, names);
    let label = |row: &TopRow| {
        let is_path = above.is_empty() && row.verdict.id.as_str().starts_with('/');
        let slash = if is_path { "/" } else { "" };
        format!("{tag}{}", text::harmless(&format!("{slash}{name}")))
    };
    let leaf = node.leaf.take();
    let mut body = blocks(node, &path, names, key);
    if body.is_empty()
        && let Some(mut row) = leaf
    {
        row.label = label(&row);
        row.keep = keep;
        return Block { row, body };
    }
    if let Some(mut row) = leaf {
        // A cgroup that is used itself, beside those in it.
        (row.label, row.keep) = (".".to_owned(), 0);
        let own = Vec::new();
        body.insert(0, Block { row, body: own });
    }
    let mut row = sum(&path, &body);
    row.label = label(&row);
    row.keep = keep;
    Block { row, body }
}

fn lay_out(block: Block, depth: usize, folded: &BTreeSet<WorkloadId>, rows: &mut Vec<TopRow>) {
    let Block { mut row, body } = block;
    let is_open = !folded.contains(&row.verdict.id);
    if let Some(branch) = &mut row.branch {
        branch.is_open = is_open;
    }
    let mark = match (&row.branch, depth) {
        (_, 0) => "",
        (Some(_), _) if is_open => "▾ ",
        (Some(_), _) => "▸ ",
        (None, _) => "  ",
    };
    let indent = "  ".repeat(depth.saturating_sub(1));
    if row.keep > 0 {
        row.keep += indent.width() + mark.width();
    }
    row.label = format!("{indent}{mark}{}", row.label);
    row.depth = depth;
    rows.push(row);
    for block in body.into_iter().filter(|_| is_open) {
        lay_out(block, depth + 1, folded, rows);
    }
}

/// What is below, as one row. What is not known of some is the sum of the others.
fn sum(path: &str, body: &[Block]) -> TopRow {
    let rows = || body.iter().map(|block| &block.row);
    let add = |value: fn(&TopRow) -> Option<f64>| -> Option<f64> {
        let known = rows().filter_map(value);
        known.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    };
    let bandwidth = add(|row| row.bandwidth.map(BytesPerSec::get));
    let cpu = add(|row| row.cpu.map(CpuShare::get));
    let provenance = rows()
        .filter(|row| row.bandwidth.is_some())
        .map(|row| row.verdict.bandwidth.provenance)
        .max();
    let branch = rows().fold(Branch::default(), |sum, row| {
        let (workloads, limited) = match &row.branch {
            Some(branch) => (branch.workloads, branch.limited),
            None => (1, usize::from(row.verdict.limit_cpus.is_some())),
        };
        Branch {
            workloads: sum.workloads + workloads,
            limited: sum.limited + limited,
            ..sum
        }
    });
    let intensity = bandwidth.zip(cpu.filter(|cpus| *cpus >= CPUS_LEAST));
    let verdict = Decision {
        // No leaf has such a name.
        id: WorkloadId::new(format!("{path}/")),
        bandwidth: Estimate {
            bytes_per_sec: BytesPerSec::new(bandwidth.unwrap_or(0.0)),
            provenance: provenance.unwrap_or(Provenance::Unknown),
        },
        traffic: None,
        fair: None,
        cpu_cpus: cpu.map(CpuShare::new),
        intensity_bytes_per_cpu_sec: intensity.map(|(bytes, cpus)| bytes / cpus),
        allowed_bytes_per_sec: None,
        limit_cpus: None,
        limited_weight: None,
        throttled_ns: None,
        why: Why::ObserveOnly,
    };
    TopRow {
        bandwidth: bandwidth.map(BytesPerSec::new),
        share: add(|row| row.share),
        cpu: cpu.map(CpuShare::new),
        held: CpuShare::new(add(|row| Some(row.held.get())).unwrap_or(0.0)),
        branch: Some(branch),
        ..TopRow::leaf(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::snapshot;
    use super::*;
    use std::cmp::Reverse;

    fn leaf(id: &str, mib: f64) -> TopRow {
        let verdict = &snapshot(0, 100.0).plan.workloads[0];
        let verdict = Decision {
            id: WorkloadId::new(id),
            limit_cpus: (mib > 50.0).then(|| CpuShare::new(0.1)),
            ..verdict.clone()
        };
        TopRow {
            bandwidth: (mib > 0.0).then(|| BytesPerSec::new(mib)),
            cpu: Some(CpuShare::new(0.5)),
            ..TopRow::leaf(verdict)
        }
    }

    fn labels(leaves: &[(&str, f64)], folded: &[&str]) -> Vec<String> {
        let leaves = leaves.iter().map(|(id, mib)| leaf(id, *mib)).collect();
        let folded = folded.iter().map(|id| WorkloadId::new(*id)).collect();
        // Bits of positive numbers are in their order.
        let key = |row: &TopRow| Reverse(row.bandwidth.map_or(0, |rate| rate.get().to_bits()));
        let rows = arrange(leaves, &folded, &PodNames::default(), &key);
        let said = |row: &TopRow| {
            let rate = row.bandwidth.map_or("–".into(), |r| r.get().to_string());
            format!("{} {rate}", row.label)
        };
        rows.iter().map(said).collect()
    }

    #[test]
    fn inner_cgroups_have_sums_and_stand_in_their_order() {
        let leaves = [
            ("/a/x", 10.0),
            ("/a/y/1", 20.0),
            ("/a/y/2", 0.0),
            ("/b/long/way/down", 25.0),
            ("/c", 1.0),
            ("pid:7@1", 2.0),
        ];
        let wanted = [
            "▾ /a 30",
            "  ▾ y 20",
            "      1 20",
            "      2 –",
            "    x 10",
            "  /b/long/way/down 25",
            "  pid:7@1 2",
            "  /c 1",
        ];
        assert_eq!(labels(&leaves, &[]), wanted);
        let folded = labels(&leaves, &["/a/y/"]);
        assert_eq!(folded[1..3], ["  ▸ y 20", "    x 10"]);
        assert_eq!(
            labels(&leaves, &["/a/"])[..2],
            ["▸ /a 30", "  /b/long/way/down 25"]
        );
    }

    #[test]
    fn leaves_alone_are_a_list() {
        assert_eq!(
            labels(&[("/a", 1.0), ("/b/c", 2.0)], &[]),
            ["/b/c 2", "/a 1"]
        );
        assert_eq!(labels(&[("/", 1.0)], &[]), ["/ 1"]);
    }

    #[test]
    fn a_cgroup_that_is_used_itself_stands_below_itself() {
        let rows = labels(&[("/a", 1.0), ("/a/b", 2.0)], &[]);
        assert_eq!(rows, ["▾ /a 3", "    . 1", "    b 2"]);
    }

    /// Pods of a machine have the same name where their paths are cut in the middle.
    #[test]
    fn pods_and_containers_have_their_short_names_before_the_path() {
        let uid = |n: u32| format!("2f4c1a7{n}_0b1d_4c3e_9f5a_6b7c8d9e0f1a");
        let id = |n: u32| format!("{n}d1f").repeat(16);
        let pod = |n| format!("/kubepods.slice/kubepods-pod{}.slice", uid(n));
        let leaves = [(1, 1, 4.0), (1, 2, 3.0), (2, 3, 2.0)];
        let paths =
            leaves.map(|(p, c, mib)| (format!("{}/cri-containerd-{}.scope", pod(p), id(c)), mib));
        let all: Vec<(&str, f64)> = paths
            .iter()
            .map(|(path, mib)| (path.as_str(), *mib))
            .collect();
        let rows = labels(&all, &[]);
        let begins = [
            "▾ /kubepods.slice 9",
            "  ▾ pod:2f4c1a71 kubepods-pod2f4c1a71_",
            "      pod:2f4c1a71/1d1f1d1f1d1f cri-containerd-1d1f",
            "      pod:2f4c1a71/2d1f2d1f2d1f cri-containerd-2d1f",
            "    pod:2f4c1a72/3d1f3d1f3d1f kubepods-pod2f4c1a72_",
        ];
        assert_eq!(rows.len(), begins.len(), "{rows:?}");
        for (row, begin) in rows.iter().zip(begins) {
            assert!(row.starts_with(begin), "{row} is not {begin}…");
        }
        let row = TopRow::leaf(leaf(all[0].0, 4.0).verdict);
        let cut = text::left_keeping(&row.label, row.keep, 40);
        assert!(
            cut.starts_with("pod:2f4c1a71/1d1f1d1f1d1f /ku") && cut.contains('…'),
            "{cut}"
        );
    }

    #[test]
    fn deep_paths_end_somewhere() {
        let deep = format!("/{}", "x/".repeat(100_000));
        let fork = format!("{deep}y");
        assert_eq!(labels(&[(&deep, 1.0), (&fork, 2.0)], &[]).len(), 3);
    }
}
