// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Owners of traffic that are no workloads and count what they move themselves: weir's probe, and the kernel
//! where it migrates pages.

pub(super) mod page_migration;
pub(super) mod probe_traffic;
