// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which operations `--width` concerns: some have one width, whatever is asked for.

use super::names::StreamOperation;
use super::plan::{PairPlan, PlannedStream};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use weir_bench::kernels::Operation;

/// Operations that keep another width than the one asked for, for people; nothing where there are none.
///
/// # Errors
/// All of them do.
pub fn kept(width: Option<u32>, pairs: &[PairPlan]) -> Result<Option<String>> {
    let Some(width) = width else { return Ok(None) };
    let mut kept: BTreeMap<&str, u32> = BTreeMap::new();
    let mut is_used = false;
    for operation in pairs
        .iter()
        .flat_map(|pair| &pair.sides)
        .filter_map(memory_operation)
    {
        match operation.widths()?[..] {
            [one] if one != width => drop(kept.insert(operation.name(), one)),
            _ => is_used = true,
        }
    }
    if kept.is_empty() {
        return Ok(None);
    }
    let all: Vec<String> = kept
        .iter()
        .map(|(name, one)| format!("{name} {one}"))
        .collect();
    let all = all.join(", ");
    ensure!(
        is_used,
        "--width {width} changes nothing: each of these operations has one width ({all} bytes); leave it out"
    );
    Ok(Some(format!(
        "--width {width} does not concern operations of one width: {all} bytes"
    )))
}

fn memory_operation(stream: &PlannedStream) -> Option<Operation> {
    match stream {
        PlannedStream::Ours { name, .. } => match name.operation {
            StreamOperation::Memory(operation) => Some(operation),
            StreamOperation::Storage(_) => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{named, with_threads};
    use super::*;

    fn said(width: Option<u32>, pair: &str) -> Result<Option<String>> {
        let sides = named(&[pair.parse().unwrap()], &[true]).remove(0);
        kept(width, &[with_threads(sides, 1, true).unwrap()])
    }

    #[test]
    fn a_width_that_changes_nothing_is_refused() {
        let one = Operation::LdChase.widths().unwrap()[0];
        let pair = "mmem:ld-chase+cxl:ld-chase";
        let refused = said(Some(2 * one), pair).unwrap_err().to_string();
        assert!(
            refused.contains("ld-chase") && refused.contains("leave it out"),
            "{refused}"
        );
        assert_eq!(said(Some(one), pair).unwrap(), None);
        assert_eq!(said(None, pair).unwrap(), None);
        assert_eq!(said(Some(64), "ssd:read+ssd:randread").unwrap(), None);
    }

    #[test]
    fn operations_that_keep_their_width_are_named() {
        let all = Operation::Ld.widths().unwrap();
        let Some(width) = all
            .iter()
            .find(|w| Operation::LdChase.widths().unwrap() != [**w])
        else {
            return eprintln!("SKIP widths: loads have one here");
        };
        let text = said(Some(*width), "mmem:ld+cxl:ld-chase").unwrap().unwrap();
        assert!(
            text.contains("ld-chase") && !text.contains("ld 8"),
            "{text}"
        );
    }
}
