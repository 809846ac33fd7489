// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cgroup tree (cgroup-v2.rst): its cgroups, what is cached of each, and processes that are in no leaf.

pub(crate) mod bind;
pub(crate) mod cache;
pub(crate) mod cgroup_type;
pub(crate) mod handed_down;
pub(crate) mod hierarchy;
pub(crate) mod inner;
pub(crate) mod non_leaf;
pub(crate) mod pod_names;
pub(crate) mod shared_domain;
pub(crate) mod tree;
pub(crate) mod unlisted;
pub(crate) mod walk;
