// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine is: NUMA nodes, CPUs, CXL devices, and what is known of each.

pub mod cpu_topology;
pub mod cxl;
pub(crate) mod driver_groups;
pub(crate) mod group_nodes;
pub(crate) mod hypervisor;
pub(crate) mod memory_nodes;
pub(crate) mod migration_settings;
pub(crate) mod node_facts;
pub(crate) mod numa;
pub(crate) mod sched_ext_state;
pub mod virtual_copies;
