// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What asks a channel: traces, patterns, and sources that wait for their answers.

pub(crate) mod closed_loop;
pub(crate) mod page_places;
pub(crate) mod replay;
pub(crate) mod trace;
