// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol of one line: what DCOH and home agent do with a request or a message, told nothing of time.
//!
//! ```text
//!  accelerator ─► device::begin                                   host::begin ◄─ cores
//!                      │          CXL.cache: D2H Req, Rsp, Data ─►    │
//!   HMC, DMC,     DCOH ┤          ◄─ H2D Req, Rsp, Data               ├ home agent    LLC,
//!   bias table         │          CXL.mem: ◄─ M2S Req, RwD            │               snoop filter,
//!   device memory      ┴          S2M NDR, DRS ─►                     ┴               host memory
//!               device::take ◄─────────── Wires ───────────► host::take
//! ```
//!
//! The explorer delivers messages in every order that the channels allow, the timed machine by their time of
//! arrival: both run these functions. An operation waits in the job of its side (transient state); the home
//! agent works on one request of a line at a time. A request needs a credit of its channel; answers and data
//! always have a place, as CXL asks.

pub mod device;
mod fault;
pub mod host;
mod line;

pub use fault::Fault;
pub use line::{
    Answer, CoherentLine, DataCopy, DeviceSide, DeviceTask, HostSide, HostTask, Job, Message, Wires,
};

use crate::words::{Bias, CacheState, Lane, Party, TimedStage};

/// What the tables of the paper leave open, and what is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolRules {
    /// The LLC's line after CS-rd found it there: `Shared`, or `Invalid` on CPUs that hand it over (Table
    /// III, I/S; the extraction of the paper lost which cells that spans).
    pub llc_after_cs_hit: CacheState,
    /// The LLC's line after CS-rd found it in host memory: `Shared` (V: "also brings cache-lines into host
    /// cache") or `Invalid`.
    pub llc_after_cs_miss: CacheState,
    /// CS-rd makes an exclusive line of the HMC shared (Table III); otherwise a hit changes nothing (IV-A). A
    /// modified line stays so: CXL.cache has no request that writes a line back and keeps it.
    pub cs_read_shares_hit: bool,
    /// Requests that may be under way in each request channel.
    pub credits: u8,
    pub fault: Option<Fault>,
}

impl Default for ProtocolRules {
    fn default() -> Self {
        ProtocolRules {
            llc_after_cs_hit: CacheState::Shared,
            llc_after_cs_miss: CacheState::Shared,
            cs_read_shares_hit: true,
            credits: 2,
            fault: None,
        }
    }
}

pub trait Watch {
    fn passed(&mut self, _stage: TimedStage) {}
    fn sent(&mut self, _lane: Lane, _message: Message) {}
    /// An operation has read its line; `is_last` if it was the last write's data at some moment since the
    /// operation began.
    fn read(&mut self, _party: Party, _is_last: bool) {}
    fn ended(&mut self, _party: Party) {}
    fn unexpected(&mut self, _lane: Lane, _message: Message) {}
}

/// What the protocol needs beside the line.
pub struct Context<'a, W> {
    pub rules: &'a ProtocolRules,
    pub bias: &'a mut Bias,
    pub watch: &'a mut W,
}

impl<W: Watch> Context<'_, W> {
    fn has(&self, fault: Fault) -> bool {
        self.rules.fault == Some(fault)
    }

    fn send(&mut self, line: &mut CoherentLine, lane: Lane, message: Message) {
        self.watch.sent(lane, message);
        if !line.wires.put(lane, message) {
            self.watch.unexpected(lane, message);
        }
    }
}
