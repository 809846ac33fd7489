// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine: caches of both sides around the protocol, and where requests wait for each other.
//!
//! An access is followed to its end before the next one begins: its messages are taken by their time of
//! arrival. So accesses to one line do not race here (that is the explorer's part), and they must be given in
//! the order of their times. Between accesses, three places make them wait: DCOH takes a request a clock, and
//! longer if it changes states; the write queue of host memory has so many places; and the source of the
//! accesses keeps to the pace of LSU or core ([`super::microbenchmark`]).

use super::line_cache::{CachedLine, LineCache};
use super::profile::Type2Profile;
use super::trace::TimedEvent;
use crate::protocol::{CoherentLine, Context, Message, ProtocolRules, Watch, device, host};
use crate::words::{Bias, CacheState, DeviceOp, HostOp, Lane, LineHome, Party, TimedStage};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// When its agent had the answer, ns.
    pub ended_ns: f64,
    /// When the host's CXL port had a posted store, ns; of others as `ended_ns`.
    pub posted_ns: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCounts {
    pub accesses: u64,
    pub messages: u64,
    /// Lines brought into the LLC.
    pub llc_lines: u64,
    /// Lines that left HMC or DMC for want of a place.
    pub device_evictions: u64,
}

/// Where requests wait for each other.
#[derive(Clone, Debug)]
struct Queues {
    dcoh_free_ns: f64,
    dcoh_clock_ns: f64,
    dcoh_trackers: f64,
    /// When the lines in the write queue leave it.
    leaving_ns: VecDeque<f64>,
    queue_lines: usize,
    line_ns: f64,
}

impl Queues {
    /// DCOH takes a request that came at this time.
    fn look(&mut self, at: f64) -> f64 {
        let begin = at.max(self.dcoh_free_ns);
        self.dcoh_free_ns = begin + self.dcoh_clock_ns;
        begin
    }

    /// The write queue takes a line that came at this time.
    fn accept(&mut self, at: f64) -> f64 {
        let is_full = self.leaving_ns.len() == self.queue_lines;
        let first = if is_full {
            self.leaving_ns.pop_front()
        } else {
            None
        };
        let begin = at.max(first.unwrap_or(at));
        let last = self.leaving_ns.back().copied().unwrap_or(begin);
        self.leaving_ns.push_back(last.max(begin) + self.line_ns);
        begin
    }
}

/// Adds up the time of one access.
struct Clocked<'a> {
    stage_ns: &'a [f64; TimedStage::ALL.len()],
    queues: &'a mut Queues,
    events: Option<&'a mut Vec<TimedEvent>>,
    now: f64,
    arrival: [f64; Lane::ALL.len()],
    messages: u64,
    ended: Option<f64>,
    posted: Option<f64>,
}

impl Watch for Clocked<'_> {
    fn passed(&mut self, stage: TimedStage) {
        let ns = self.stage_ns[stage as usize];
        match stage {
            TimedStage::DcohLook | TimedStage::DcohLookWrite => {
                self.now = self.queues.look(self.now);
            }
            TimedStage::TagChange | TimedStage::OwnerQuery | TimedStage::DmcWriteBack => {
                self.queues.dcoh_free_ns += ns / self.queues.dcoh_trackers;
            }
            TimedStage::HostAccept => self.now = self.queues.accept(self.now),
            _ => {}
        }
        self.now += ns;
        if let Some(events) = &mut self.events {
            events.push(TimedEvent::Passed(stage, self.now));
        }
    }

    fn sent(&mut self, lane: Lane, message: Message) {
        self.messages += 1;
        let place = &mut self.arrival[lane as usize];
        *place = self.now + self.stage_ns[TimedStage::Link as usize];
        if lane == Lane::M2sRwd && self.posted.is_none() {
            let half = self.stage_ns[TimedStage::CorePath as usize]
                + self.stage_ns[TimedStage::LlcLook as usize];
            self.posted = Some(self.now - half / 2.0);
        }
        if let Some(events) = &mut self.events {
            events.push(TimedEvent::Sent(lane, message.opcode, self.now, *place));
        }
    }

    fn ended(&mut self, party: Party) {
        self.ended = Some(self.now);
        if let Some(events) = &mut self.events {
            events.push(TimedEvent::Ended(party, self.now));
        }
    }
}

/// What the machine is asked to follow.
#[derive(Clone, Copy)]
enum LineAccess {
    Device(DeviceOp),
    Host(HostOp),
    EvictDevice,
    EvictHost,
}

#[derive(Clone, Debug)]
pub struct Type2Machine {
    rules: ProtocolRules,
    stage_ns: [f64; TimedStage::ALL.len()],
    queues: Queues,
    bias: Bias,
    hmc: LineCache,
    dmc: LineCache,
    llc: LineCache,
    counts: MachineCounts,
}

impl Type2Machine {
    /// A machine with empty caches, in host bias.
    pub fn new(profile: &Type2Profile) -> Self {
        let mut stage_ns = [0.0; TimedStage::ALL.len()];
        for stage in TimedStage::ALL {
            stage_ns[*stage as usize] = profile.ns(*stage);
        }
        let (sizes, pace) = (&profile.sizes, &profile.pace);
        Type2Machine {
            rules: ProtocolRules::default(),
            stage_ns,
            queues: Queues {
                dcoh_free_ns: 0.0,
                dcoh_clock_ns: pace.accelerator_clock_ns,
                dcoh_trackers: f64::from(pace.dcoh_trackers),
                leaving_ns: VecDeque::new(),
                queue_lines: sizes.host_write_queue_lines as usize,
                line_ns: pace.host_write_line_ns,
            },
            bias: Bias::Host,
            hmc: LineCache::new(sizes.hmc_kib, sizes.hmc_ways),
            dmc: LineCache::new(sizes.dmc_kib, sizes.dmc_ways),
            llc: LineCache::new(sizes.llc_kib, sizes.llc_ways),
            counts: MachineCounts::default(),
        }
    }

    /// The same as Type-3 device: without DCOH's looks, and nothing in the DMC.
    pub fn type3(profile: &Type2Profile) -> Self {
        let mut machine = Self::new(profile);
        machine.stage_ns[TimedStage::DcohLook as usize] = 0.0;
        machine.stage_ns[TimedStage::DcohLookWrite as usize] = 0.0;
        machine
    }

    /// Puts the region into a mode. For device bias the host's caches must have nothing of it.
    pub fn set_bias(&mut self, bias: Bias) {
        self.bias = bias;
    }

    pub fn bias(&self) -> Bias {
        self.bias
    }

    pub fn counts(&self) -> MachineCounts {
        self.counts
    }

    pub fn device_cache_lines(&self, home: LineHome) -> usize {
        match home {
            LineHome::HostMemory => self.hmc.capacity(),
            LineHome::DeviceMemory => self.dmc.capacity(),
        }
    }

    /// Puts a line into these states, as an earlier access would have.
    pub fn place(&mut self, home: LineHome, line: u64, device: CacheState, llc: CacheState) {
        self.device_cache(home).put(CachedLine {
            line,
            state: device,
            is_in_core: false,
        });
        self.llc.put(CachedLine {
            line: llc_line(home, line),
            state: llc,
            is_in_core: false,
        });
    }

    /// States of a line in HMC or DMC, and in the LLC.
    pub fn states(&mut self, home: LineHome, line: u64) -> (CacheState, CacheState) {
        let device = self.device_cache(home).look(line).state;
        (device, self.llc.look(llc_line(home, line)).state)
    }

    /// An access of the accelerator to a line that begins at this time.
    pub fn device_access(
        &mut self,
        at_ns: f64,
        op: DeviceOp,
        home: LineHome,
        line: u64,
    ) -> Finished {
        self.follow(at_ns, LineAccess::Device(op), home, line, None)
    }

    /// An access of a core to a line that begins at this time.
    pub fn host_access(&mut self, at_ns: f64, op: HostOp, home: LineHome, line: u64) -> Finished {
        self.follow(at_ns, LineAccess::Host(op), home, line, None)
    }

    /// Does what [`Self::device_access`] does, and tells all that happens on the way.
    pub fn traced_device_access(
        &mut self,
        op: DeviceOp,
        home: LineHome,
        line: u64,
    ) -> (Finished, Vec<TimedEvent>) {
        let mut events = Vec::new();
        let finished = self.follow(0.0, LineAccess::Device(op), home, line, Some(&mut events));
        (finished, events)
    }

    /// Does what [`Self::host_access`] does, and tells all that happens on the way.
    pub fn traced_host_access(
        &mut self,
        op: HostOp,
        home: LineHome,
        line: u64,
    ) -> (Finished, Vec<TimedEvent>) {
        let mut events = Vec::new();
        let finished = self.follow(0.0, LineAccess::Host(op), home, line, Some(&mut events));
        (finished, events)
    }

    fn device_cache(&mut self, home: LineHome) -> &mut LineCache {
        match home {
            LineHome::HostMemory => &mut self.hmc,
            LineHome::DeviceMemory => &mut self.dmc,
        }
    }

    /// Follows an access of a line to its end, and puts what it leaves behind into the caches.
    ///
    /// The line is made from what the caches have of it, the protocol's own functions run on it, and its new
    /// states are put back. So what is timed is what was explored. A line that is put out of a cache by that
    /// goes its own way, after the access: it does not hold the access up.
    fn follow(
        &mut self,
        at_ns: f64,
        access: LineAccess,
        home: LineHome,
        number: u64,
        events: Option<&mut Vec<TimedEvent>>,
    ) -> Finished {
        let device = self.device_cache(home).look(number);
        let llc = self.llc.look(llc_line(home, number));
        let mut line = CoherentLine::cached(home, device.state, llc.state);
        line.host.is_in_core = llc.is_in_core;
        let (finished, last_ns) = self.run(at_ns, access, &mut line, events);
        self.counts.accesses += 1;
        self.counts.llc_lines += u64::from(line.host.state.is_valid() && !llc.state.is_valid());
        if line.device.state != device.state {
            let left = self.device_cache(home).put(CachedLine {
                line: number,
                state: line.device.state,
                is_in_core: false,
            });
            if let Some(left) = left {
                self.counts.device_evictions += 1;
                let mut line = CoherentLine::cached(home, left.state, CacheState::Invalid);
                self.run(last_ns, LineAccess::EvictDevice, &mut line, None);
            }
        }
        let left = self.llc.put(CachedLine {
            line: llc_line(home, number),
            state: line.host.state,
            is_in_core: line.host.is_in_core,
        });
        if let Some(left) = left.filter(|left| left.line & DEVICE_MEMORY != 0) {
            let home = LineHome::DeviceMemory;
            let mut line = CoherentLine::cached(home, CacheState::Invalid, left.state);
            self.run(last_ns, LineAccess::EvictHost, &mut line, None);
        }
        finished
    }

    /// Runs an access to its end: when its agent had the answer, and when the last message was taken.
    fn run(
        &mut self,
        at_ns: f64,
        access: LineAccess,
        line: &mut CoherentLine,
        events: Option<&mut Vec<TimedEvent>>,
    ) -> (Finished, f64) {
        let mut clocked = Clocked {
            stage_ns: &self.stage_ns,
            queues: &mut self.queues,
            events,
            now: at_ns,
            arrival: [f64::INFINITY; Lane::ALL.len()],
            messages: 0,
            ended: None,
            posted: None,
        };
        let mut cx = Context {
            rules: &self.rules,
            bias: &mut self.bias,
            watch: &mut clocked,
        };
        match access {
            LineAccess::Device(op) => device::begin(line, op, &mut cx),
            LineAccess::Host(op) => host::begin(line, op, &mut cx),
            LineAccess::EvictDevice => device::evict(line, &mut cx),
            LineAccess::EvictHost => host::evict(line, &mut cx),
        }
        deliver_all(line, &mut cx);
        let ended_ns = clocked.ended.unwrap_or(clocked.now);
        let finished = Finished {
            ended_ns,
            posted_ns: clocked.posted.unwrap_or(ended_ns),
        };
        self.counts.messages += clocked.messages;
        (finished, clocked.now)
    }
}

/// Takes messages by their time of arrival until none is under way.
fn deliver_all(line: &mut CoherentLine, cx: &mut Context<Clocked>) {
    while let Some(lane) = next_lane(line, cx.watch) {
        cx.watch.now = cx.watch.arrival[lane as usize];
        if let (Some(events), Some(message)) = (&mut cx.watch.events, line.wires.get(lane)) {
            events.push(TimedEvent::Taken(lane, message.opcode, cx.watch.now));
        }
        match lane.taker() {
            Party::Device => device::take(line, lane, cx),
            Party::Host => host::take(line, lane, cx),
        }
    }
}

fn next_lane(line: &CoherentLine, clocked: &Clocked) -> Option<Lane> {
    let lanes = Lane::ALL.iter().copied();
    let ready = lanes.filter(|lane| {
        line.wires.get(*lane).is_some()
            && match lane.taker() {
                Party::Device => device::can_take(line, *lane, None),
                Party::Host => host::can_take(line, *lane),
            }
    });
    ready.min_by(|a, b| {
        let arrival = |lane: &Lane| clocked.arrival[*lane as usize];
        arrival(a).total_cmp(&arrival(b))
    })
}

/// Marks lines of device memory in the LLC.
const DEVICE_MEMORY: u64 = 1 << 62;

fn llc_line(home: LineHome, line: u64) -> u64 {
    match home {
        LineHome::HostMemory => line,
        LineHome::DeviceMemory => line | DEVICE_MEMORY,
    }
}
