// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a count is of, without the name that a maker gives to it: stage × path × target × quantity, spelled
//! `tor.drd.cxl.occupancy`. Tables of events map names of makers to roles; all that is made of counts speaks
//! of roles.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An enum of words: each value has one spelling, in files and on screens.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $value,)+
        }

        impl $name {
            /// All values, in order.
            pub const ALL: &'static [$name] = &[$($name::$value),+];

            /// The word as it is spelled in a role.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)+
                }
            }

            fn of(word: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }
        }
    };
}

words! {
    /// Where a request is when it is counted. For retired instructions ([`Quantity::Loads`]): where the
    /// instruction found its data.
    Stage {
        /// The core: instructions, cycles, stalls.
        Core = "core",
        /// The store buffer.
        StoreBuffer = "sb",
        /// The L1 data cache.
        L1d = "l1d",
        /// The line fill buffers.
        FillBuffer = "lfb",
        /// The L2 cache.
        L2 = "l2",
        /// The super queue: requests that leave the core, by what answered them.
        SuperQueue = "sq",
        /// Mesh, and the ingress queue of the cache's home agent (CHA).
        Ingress = "ingress",
        /// The last-level cache.
        Llc = "llc",
        /// The table of requests (TOR) of a home agent.
        Tor = "tor",
        /// The memory controller of DRAM.
        Imc = "imc",
        /// The stop of the CXL port on the mesh (M2PCIe), which has a clock of its own.
        M2pcie = "m2pcie",
        /// The CXL port: the controller of the link.
        Port = "port",
        /// The CXL device.
        Device = "device",
    }
}

words! {
    /// Kind of a request.
    AccessPath {
        /// Demand read.
        Drd = "drd",
        /// Read for ownership: a line is fetched to be stored to.
        Rfo = "rfo",
        /// Hardware prefetch, all of it.
        Pf = "pf",
        /// Prefetch into L1.
        PfL1 = "pf-l1",
        /// Prefetch into L2.
        PfL2 = "pf-l2",
        /// Prefetch into the last-level cache.
        PfLlc = "pf-llc",
        /// Write-back.
        Wb = "wb",
        /// Non-temporal store.
        Nt = "nt",
        /// Each read, whatever asks for it: demand, for ownership, prefetch.
        Reads = "reads",
        /// Each request.
        Any = "any",
    }
}

words! {
    /// The supplier of the line.
    Target {
        /// Caches of the own socket, and of the own cluster where it has several.
        Own = "own",
        /// Caches of another cluster of the socket (SNC).
        Snc = "snc",
        /// Caches of another socket.
        RemoteCache = "remote-cache",
        /// Whatever is behind the stage that counts: for lines and for the table of requests the whole that
        /// DRAM and CXL memory are parts of.
        Miss = "miss",
        /// DRAM, of all sockets.
        Dram = "dram",
        /// DRAM of the own socket.
        DramOwn = "dram-own",
        /// DRAM of another socket.
        DramRemote = "dram-remote",
        /// CXL memory, of all sockets.
        Cxl = "cxl",
        /// CXL memory of the own socket.
        CxlOwn = "cxl-own",
        /// CXL memory of another socket.
        CxlRemote = "cxl-remote",
        /// Any of them.
        Any = "any",
    }
}

words! {
    /// Unit of the count.
    Quantity {
        /// Retired load instructions.
        Loads = "loads",
        /// Retired store instructions.
        Stores = "stores",
        /// Lines of 64 bytes that were supplied or moved.
        Lines = "lines",
        /// Requests that entered a queue.
        Inserts = "inserts",
        /// Requests that were turned away and tried again.
        Rejects = "rejects",
        /// Requests in a queue, added up each cycle of its clock.
        Occupancy = "occupancy",
        /// Cycles of the clock of a stage.
        Clock = "clock",
        /// Cycles in which a core executes no instruction while this stage, or one behind it, owes it data.
        Stalls = "stalls",
        /// Cycles in which a queue is not empty. It is busy, and nothing need wait.
        Busy = "busy",
        /// Cycles in which a queue is full.
        Full = "full",
        /// Retired instructions.
        Instructions = "instructions",
        /// Errors.
        Errors = "errors",
        /// Nanoseconds, added up: CPU time, or sampled latencies.
        TimeNs = "time-ns",
        /// Requests that were sampled.
        Samples = "samples",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Role {
    pub stage: Stage,
    pub path: AccessPath,
    pub target: Target,
    pub quantity: Quantity,
}

impl Role {
    pub const fn new(stage: Stage, path: AccessPath, target: Target, quantity: Quantity) -> Self {
        Role {
            stage,
            path,
            target,
            quantity,
        }
    }

    /// The same with another quantity: an occupancy's inserts.
    #[must_use]
    pub const fn with(self, quantity: Quantity) -> Self {
        Role { quantity, ..self }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stage, path) = (self.stage.word(), self.path.word());
        let (target, quantity) = (self.target.word(), self.quantity.word());
        write!(f, "{stage}.{path}.{target}.{quantity}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    #[error("a role is STAGE.PATH.TARGET.QUANTITY, such as tor.drd.cxl.occupancy")]
    Parts,
    /// A word that no part of that kind has.
    #[error("no {part} of a role is called {word:?}; there are {known}")]
    Word {
        part: &'static str,
        word: String,
        known: String,
    },
}

fn part<T: Copy>(
    part: &'static str,
    word: &str,
    all: &[T],
    of: fn(&str) -> Option<T>,
    spelled: fn(T) -> &'static str,
) -> Result<T, RoleError> {
    of(word).ok_or_else(|| RoleError::Word {
        part,
        word: word.chars().take(32).collect(),
        known: all
            .iter()
            .map(|value| spelled(*value))
            .collect::<Vec<_>>()
            .join(", "),
    })
}

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        let words: Vec<&str> = text.splitn(5, '.').collect();
        let [stage, path, target, quantity] = words[..] else {
            return Err(RoleError::Parts);
        };
        Ok(Role {
            stage: part("stage", stage, Stage::ALL, Stage::of, Stage::word)?,
            path: part(
                "path",
                path,
                AccessPath::ALL,
                AccessPath::of,
                AccessPath::word,
            )?,
            target: part("target", target, Target::ALL, Target::of, Target::word)?,
            quantity: part(
                "quantity",
                quantity,
                Quantity::ALL,
                Quantity::of,
                Quantity::word,
            )?,
        })
    }
}

impl TryFrom<String> for Role {
    type Error = RoleError;
    fn try_from(text: String) -> Result<Self, RoleError> {
        text.parse()
    }
}

impl From<Role> for String {
    fn from(role: Role) -> String {
        role.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_role_is_spelled_by_its_four_words() {
        let role = Role::new(
            Stage::Tor,
            AccessPath::Drd,
            Target::Cxl,
            Quantity::Occupancy,
        );
        assert_eq!(role.to_string(), "tor.drd.cxl.occupancy");
        assert_eq!("tor.drd.cxl.occupancy".parse(), Ok(role));
        assert_eq!(
            role.with(Quantity::Inserts).to_string(),
            "tor.drd.cxl.inserts"
        );
        for (text, said) in [
            ("", "STAGE.PATH"),
            ("tor.drd.cxl", "STAGE.PATH"),
            ("tor.drd.cxl.inserts.x", "STAGE.PATH"),
            (
                "tar.drd.cxl.inserts",
                "no stage of a role is called \"tar\"",
            ),
            ("tor.DRD.cxl.inserts", "no path"),
            ("tor.drd..inserts", "no target"),
            ("tor.drd.cxl.cows", "there are loads, stores, lines"),
        ] {
            let why = text.parse::<Role>().unwrap_err().to_string();
            assert!(why.contains(said), "{text}: {why}");
        }
    }

    #[test]
    fn each_word_stands_once_in_its_part() {
        fn unique(words: Vec<&str>) {
            let set: BTreeSet<&&str> = words.iter().collect();
            assert_eq!(set.len(), words.len(), "{words:?}");
        }
        unique(Stage::ALL.iter().map(|v| v.word()).collect());
        unique(AccessPath::ALL.iter().map(|v| v.word()).collect());
        unique(Target::ALL.iter().map(|v| v.word()).collect());
        unique(Quantity::ALL.iter().map(|v| v.word()).collect());
    }

    fn any_role() -> impl Strategy<Value = Role> {
        let of = prop::sample::select::<Stage>;
        (
            of(Stage::ALL.to_vec()),
            prop::sample::select(AccessPath::ALL.to_vec()),
            prop::sample::select(Target::ALL.to_vec()),
            prop::sample::select(Quantity::ALL.to_vec()),
        )
            .prop_map(|(stage, path, target, quantity)| Role::new(stage, path, target, quantity))
    }

    proptest! {
        #[test]
        fn every_role_reads_back(role in any_role()) {
            prop_assert_eq!(role.to_string().parse(), Ok(role));
            let text = serde_json::to_string(&role).unwrap();
            prop_assert_eq!(serde_json::from_str::<Role>(&text).unwrap(), role);
        }

        #[test]
        fn any_text_is_survived(text in prop_oneof![".{0,60}", "[a-z]{0,6}(\\.[a-z0-9-]{0,8}){0,5}"]) {
            if let Ok(role) = text.parse::<Role>() {
                prop_assert_eq!(role.to_string(), text);
            }
        }
    }
}
