// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must never be.

use super::world::World;
use crate::protocol::Message;
use crate::words::{Bias, CacheState, Lane, LineHome, Party};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A cache may write a line that another one has.
    TwoOwners {
        line: u8,
        /// State in HMC or DMC.
        device: CacheState,
        llc: CacheState,
    },
    /// A read returned something else than the last write.
    OldData { line: u8, reader: Party },
    /// The host's caches have a line of a region in device bias.
    CachedInDeviceBias { line: u8 },
    /// A message came that nothing waits for, or for which its channel has no place.
    Unexpected {
        line: u8,
        lane: Lane,
        message: Message,
    },
    /// Something waits, and nothing is under way that ends it.
    Stuck,
    /// Messages follow each other for ever.
    RunsForEver,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::TwoOwners { line, device, llc } => write!(
                f,
                "one writer or many readers: the device has line {line} {}, and the LLC has it {}",
                device.name(),
                llc.name()
            ),
            Violation::OldData { line, reader } => write!(
                f,
                "a read returns the last write: the {} read older data of line {line}",
                reader.name()
            ),
            Violation::CachedInDeviceBias { line } => write!(
                f,
                "nothing of a device-bias region in the host's caches: the LLC has line {line}"
            ),
            Violation::Unexpected {
                line,
                lane,
                message,
            } => write!(
                f,
                "{} {} of line {line} came, and nothing waits for it",
                lane.name(),
                message.opcode.name()
            ),
            Violation::Stuck => write!(
                f,
                "every operation ends: an operation waits, and no message is under way"
            ),
            Violation::RunsForEver => {
                write!(
                    f,
                    "every operation ends: messages follow each other in a circle"
                )
            }
        }
    }
}

/// The first invariant on states that a world breaks.
pub fn broken<const N: usize>(world: &World<N>) -> Option<Violation> {
    (0u8..).zip(&world.lines).find_map(|(number, line)| {
        let (device, llc) = (line.device.state, line.host.state);
        let is_shared_out =
            (device.may_write() && llc.is_valid()) || (llc.may_write() && device.is_valid());
        if is_shared_out {
            return Some(Violation::TwoOwners {
                line: number,
                device,
                llc,
            });
        }
        let is_device_biased = line.home == LineHome::DeviceMemory && world.bias == Bias::Device;
        (is_device_biased && llc.is_valid())
            .then_some(Violation::CachedInDeviceBias { line: number })
    })
}
