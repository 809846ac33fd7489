// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part as its data sheet has it: organisation, timings, the bounds that follow, and where an address lies.

pub(crate) mod bounds;
pub(crate) mod mapping;
pub(crate) mod profile;
pub(crate) mod timing;
