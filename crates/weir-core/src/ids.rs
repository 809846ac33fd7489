// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of things. All ids are ordered, so that maps keyed by them iterate the same way each run.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A NUMA node of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// A CXL memory device, numbered in the order of its driver's name (`weir_cxl0` is 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

/// A monitoring group: a region of one device with its own counter pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId {
    /// The device the group lies in.
    pub device: DeviceId,
    /// The group's index in the device's counter map.
    pub index: u32,
}

/// A workload: what is measured and limited. A cgroup's path below the cgroup root
/// (`/system.slice/fio.service`), or `pid:PID@STARTTIME` for a process, so that a recycled PID is a
/// new workload. Cheap to clone. A path stands as the kernel has it, with what systemd has escaped in it
/// (`\x2d`). It may hold any byte but NUL. Bytes that are not UTF-8, and characters that harm a terminal, are
/// written as `\ooo` (three octal digits), and so is a backslash that could be taken for one of these, so
/// that the mapping can be undone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkloadId(pub Arc<str>);

impl WorkloadId {
    /// From text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        WorkloadId(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cxl{}.{}", self.device.0, self.index)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cxl{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}", self.0)
    }
}
