// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What streams of memory and storage traffic do to each other: the result of `weir bench interference` and of
//! `weir sim interference`, and what a person reads of it.
//!
//! ```text
//! bench, model ──► document ──┬─► page (heat map, sweeps)
//!                             └─► compare (two documents)
//! ```

pub mod class;
pub mod document;

// TEMPORARY until ip's are merged.
use anyhow::Result;
use document::InterferenceDocument;
#[allow(missing_docs)]
pub fn terminal(_: &InterferenceDocument) -> String {
    String::new()
}
#[allow(missing_docs)]
pub fn page(_: &InterferenceDocument) -> String {
    String::new()
}
#[allow(missing_docs)]
pub fn read(_: &std::path::Path) -> Result<InterferenceDocument> {
    anyhow::bail!("not yet")
}
#[allow(missing_docs)]
pub fn compare(_: &InterferenceDocument, _: &InterferenceDocument) -> Result<u32> {
    Ok(1)
}
#[allow(missing_docs)]
pub fn comparison_terminal(_: &u32) -> String {
    String::new()
}
#[allow(missing_docs)]
pub fn comparison_page(_: &InterferenceDocument, _: &InterferenceDocument, _: &u32) -> String {
    String::new()
}
