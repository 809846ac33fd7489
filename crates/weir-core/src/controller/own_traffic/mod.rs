// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Owners of traffic that are no workloads: weir's probe, and the kernel where it migrates pages, which count
//! what they move themselves; and users of groups that weir does not see.

pub(super) mod page_migration;
pub(super) mod probe_traffic;
pub(super) mod unseen_users;
