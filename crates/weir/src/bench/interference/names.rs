// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of targets, operations, streams and pairs on the command line: `mmem:ld:4+cxl:ntst:8`.

use std::fmt;
use std::str::FromStr;
use weir_bench::kernels::Operation;
use weir_bench::storage::StorageOperation;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamTarget {
    /// Local memory.
    Mmem,
    Cxl,
    /// A file or a block device.
    Ssd,
}

impl StreamTarget {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            StreamTarget::Mmem => "mmem",
            StreamTarget::Cxl => "cxl",
            StreamTarget::Ssd => "ssd",
        }
    }
}

impl FromStr for StreamTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = [StreamTarget::Mmem, StreamTarget::Cxl, StreamTarget::Ssd].into_iter();
        all.find(|one| one.name() == text)
            .ok_or_else(|| format!("{text:?} is no target: there are mmem, cxl and ssd"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamOperation {
    Memory(Operation),
    Storage(StorageOperation),
}

impl StreamOperation {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            StreamOperation::Memory(operation) => operation.name(),
            StreamOperation::Storage(operation) => operation.name(),
        }
    }
}

impl FromStr for StreamOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let storage = text.parse().map(StreamOperation::Storage);
        storage.or_else(|of_storage: String| {
            let memory = text.parse().map(StreamOperation::Memory);
            memory.map_err(|of_memory: String| format!("{of_memory}; {of_storage}"))
        })
    }
}

/// A stream, and the number of its threads where it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName {
    pub target: StreamTarget,
    pub operation: StreamOperation,
    pub threads: Option<u32>,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.target.name(), self.operation.name())?;
        self.threads.map_or(Ok(()), |n| write!(f, ":{n}"))
    }
}

impl FromStr for StreamName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted =
            || format!("{text:?} is no stream: write TARGET:OP or TARGET:OP:N, such as mmem:ld:4");
        let mut parts = text.split(':');
        let target: StreamTarget = parts.next().unwrap_or_default().parse()?;
        let operation: StreamOperation = parts.next().ok_or_else(wanted)?.parse()?;
        let threads = parts
            .next()
            .map(|n| n.parse().ok().filter(|n| (1..=1024).contains(n)));
        if threads == Some(None) || parts.next().is_some() {
            return Err(wanted());
        }
        let is_storage = matches!(operation, StreamOperation::Storage(_));
        if is_storage != (target == StreamTarget::Ssd) {
            let (operation, target) = (operation.name(), target.name());
            return Err(format!("{text:?}: {target} has no operation {operation}"));
        }
        Ok(StreamName {
            target,
            operation,
            threads: threads.flatten(),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PairName(pub StreamName, pub StreamName);

impl FromStr for PairName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (one, other) = text.split_once('+').ok_or_else(|| {
            format!("{text:?} is no pair: write two streams, such as mmem:ld+cxl:ntst")
        })?;
        Ok(PairName(one.parse()?, other.parse()?))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRole {
    pub target: StreamTarget,
    pub node: u32,
}

impl FromStr for NodeRole {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?} is no node of a target: write mmem=0 or cxl=2");
        let (target, node) = text.split_once('=').ok_or_else(wanted)?;
        let target: StreamTarget = target.parse()?;
        let node = node
            .trim_start_matches("node")
            .parse()
            .map_err(|_| wanted())?;
        match target {
            StreamTarget::Ssd => Err(format!(
                "{text:?}: ssd is no memory; --ssd names its file or device"
            )),
            _ => Ok(NodeRole { target, node }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["mmem:ld", "cxl:movdir64b-from:16", "ssd:randwrite:1"] {
            assert_eq!(name.parse::<StreamName>().unwrap().to_string(), name);
        }
        let pair: PairName = "mmem:st:2+ssd:read".parse().unwrap();
        assert_eq!((pair.0.threads, pair.1.threads), (Some(2), None));
        let node: NodeRole = "cxl=2".parse().unwrap();
        assert_eq!((node.target, node.node), (StreamTarget::Cxl, 2));
    }

    #[test]
    fn wrong_names_say_what_is_wanted() {
        let said = |text: &str| text.parse::<PairName>().unwrap_err();
        for (text, wanted) in [
            ("mmem:ld", "two streams"),
            ("mmem:ld+cxl", "TARGET:OP"),
            ("mmem:ld+cxl:ntst:0", "TARGET:OP"),
            ("mmem:ld+cxl:ntst:4:4", "TARGET:OP"),
            ("mmem:ld+cxl:ntst:-1", "TARGET:OP"),
            ("mmem:randread+cxl:ld", "no operation randread"),
            ("ssd:ntst+cxl:ld", "no operation ntst"),
            ("mmem:load+cxl:ld", "rep-movsb"),
            ("ram:ld+cxl:ld", "no target"),
            ("", "two streams"),
        ] {
            assert!(said(text).contains(wanted), "{text}: {}", said(text));
        }
        assert!("ssd=1".parse::<NodeRole>().unwrap_err().contains("--ssd"));
        assert!("cxl=x".parse::<NodeRole>().unwrap_err().contains("cxl=2"));
    }
}
