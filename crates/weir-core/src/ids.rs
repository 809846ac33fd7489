// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of things. All ids are ordered, so that maps keyed by them iterate the same way each run.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
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
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkloadId(pub Arc<str>);

impl WorkloadId {
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        WorkloadId(text.into())
    }

    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Two copies of one id have the same text in memory: at each tick thousands of them meet, and no text is
/// read. (The standard library compares pointers of `Arc<T>` only where `T` has a known size.)
impl PartialEq for WorkloadId {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_str() == other.as_str()
    }
}

impl Eq for WorkloadId {}

impl Ord for WorkloadId {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            Ordering::Equal
        } else {
            self.as_str().cmp(other.as_str())
        }
    }
}

impl PartialOrd for WorkloadId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for WorkloadId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashSet};

    #[test]
    fn ids_are_the_same_by_their_text_whether_it_is_shared_or_not() {
        let [a, b] = ["/a", "/b"].map(WorkloadId::new);
        let again = WorkloadId::new("/a".to_owned());
        assert!(!Arc::ptr_eq(&a.0, &again.0));
        for same in [&a.clone(), &again] {
            assert_eq!((&a, a.cmp(same)), (same, Ordering::Equal));
        }
        assert_eq!(
            (a == b, a.cmp(&b), b.cmp(&a)),
            (false, Ordering::Less, Ordering::Greater)
        );
        let all = [a.clone(), again, b, a];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 2);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 2);
    }
}
