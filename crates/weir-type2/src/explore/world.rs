// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The explored world: some lines, the mode of the device's region, and what may happen next.

use super::Exploration;
use super::violation::{Violation, broken};
use crate::protocol::{CoherentLine, Context, DeviceTask, Fault, Message, Watch, device, host};
use crate::words::{Bias, CacheState, DeviceOp, HostOp, Lane, LineHome, Party};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The accelerator begins an operation.
    Device(u8, DeviceOp),
    /// A core begins an operation.
    Host(u8, HostOp),
    /// A line leaves HMC or DMC.
    EvictDevice(u8),
    /// A line leaves the LLC.
    EvictHost(u8),
    /// Software has flushed the region and tells DCOH that it is in device bias.
    Flip,
    FlipArrives,
    Deliver(u8, Lane),
}

impl Move {
    /// Whether it ends something, and begins nothing.
    pub fn is_delivery(self) -> bool {
        matches!(self, Move::Deliver(..) | Move::FlipArrives)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World<const N: usize> {
    /// The lines. Those in device memory are one region.
    pub lines: [CoherentLine; N],
    pub bias: Bias,
    /// The word that the region is in device bias is under way.
    pub is_flipping: bool,
}

/// Remembers what breaks a rule in one move.
#[derive(Default)]
struct MoveWatch {
    old_read_of: Option<Party>,
    unexpected: Option<(Lane, Message)>,
}

impl Watch for MoveWatch {
    fn read(&mut self, party: Party, is_last: bool) {
        if !is_last {
            self.old_read_of = Some(party);
        }
    }

    fn unexpected(&mut self, lane: Lane, message: Message) {
        self.unexpected = Some((lane, message));
    }
}

impl<const N: usize> World<N> {
    /// All lines in memory only, in host bias.
    pub fn new(homes: [LineHome; N]) -> Self {
        World {
            lines: homes.map(|home| {
                let mut line = CoherentLine::in_memory(home);
                line.settle();
                line
            }),
            bias: Bias::Host,
            is_flipping: false,
        }
    }

    pub fn is_quiet(&self) -> bool {
        !self.is_flipping && self.lines.iter().all(CoherentLine::is_quiet)
    }

    /// What could happen; some of it cannot now.
    pub fn moves(&self) -> impl Iterator<Item = Move> + use<'_, N> {
        let of_line = |line: u8| {
            let device = DeviceOp::ALL.iter().map(move |op| Move::Device(line, *op));
            let host = HostOp::ALL.iter().map(move |op| Move::Host(line, *op));
            let lanes = Lane::ALL.iter().map(move |lane| Move::Deliver(line, *lane));
            let evictions = [Move::EvictDevice(line), Move::EvictHost(line)];
            lanes.chain(device).chain(host).chain(evictions)
        };
        let count = u8::try_from(N).unwrap_or(u8::MAX);
        let flips = [Move::FlipArrives, Move::Flip];
        flips.into_iter().chain((0..count).flat_map(of_line))
    }

    /// The state after a move, or what the move breaks; nothing if it cannot be made now.
    pub fn after(
        &self,
        step: Move,
        exploration: &Exploration<N>,
    ) -> Option<Result<World<N>, Violation>> {
        let mut watch = MoveWatch::default();
        let after = self.watched(step, exploration, &mut watch)?;
        let line = match step {
            Move::Device(line, _) | Move::Host(line, _) | Move::Deliver(line, _) => line,
            _ => 0,
        };
        if let Some((lane, message)) = watch.unexpected {
            return Some(Err(Violation::Unexpected {
                line,
                lane,
                message,
            }));
        }
        if let Some(reader) = watch.old_read_of {
            return Some(Err(Violation::OldData { line, reader }));
        }
        Some(broken(&after).map_or(Ok(after), Err))
    }

    /// The state after a move, seen by `watch`.
    pub fn watched<W: Watch>(
        &self,
        step: Move,
        exploration: &Exploration<N>,
        watch: &mut W,
    ) -> Option<World<N>> {
        if !self.is_possible(step, exploration) {
            return None;
        }
        let mut after = *self;
        let mut cx = Context {
            rules: &exploration.rules,
            bias: &mut after.bias,
            watch,
        };
        let lines = &mut after.lines;
        match step {
            Move::Device(line, op) => device::begin(&mut lines[line as usize], op, &mut cx),
            Move::Host(line, op) => host::begin(&mut lines[line as usize], op, &mut cx),
            Move::EvictDevice(line) => device::evict(&mut lines[line as usize], &mut cx),
            Move::EvictHost(line) => host::evict(&mut lines[line as usize], &mut cx),
            Move::Flip => after.is_flipping = true,
            Move::FlipArrives => (after.is_flipping, after.bias) = (false, Bias::Device),
            Move::Deliver(line, lane) => {
                let line = &mut lines[line as usize];
                match lane.taker() {
                    Party::Device => device::take(line, lane, &mut cx),
                    Party::Host => host::take(line, lane, &mut cx),
                }
            }
        }
        after.lines.iter_mut().for_each(CoherentLine::settle);
        Some(after)
    }

    /// Whether a move can be made now. What an agent may begin is bounded (one operation a line, as many as
    /// `operations_per_agent`, and a free place in the channel): only so there are finitely many states. A
    /// rule that is left out on purpose makes more moves possible.
    fn is_possible(&self, step: Move, exploration: &Exploration<N>) -> bool {
        let line = |number: u8| &self.lines[number as usize];
        let fault = exploration.rules.fault;
        match step {
            Move::Device(number, op) => {
                let busy = self.lines.iter().filter(|line| !line.device.job.is_idle());
                let may_push = op != DeviceOp::NcPush
                    || !self.is_flipping
                    || line(number).home == LineHome::HostMemory
                    || fault == Some(Fault::PushDuringFlip);
                line(number).device.job.is_idle()
                    && busy.count() < usize::from(exploration.operations_per_agent)
                    && self.has_credit(Lane::D2hReq, exploration)
                    && may_push
            }
            Move::Host(number, op) => self.host_can_begin(line(number), op, exploration),
            Move::EvictDevice(number) => {
                let line = line(number);
                line.device.job.is_idle()
                    && line.device.state.is_valid()
                    && self.has_credit(Lane::D2hReq, exploration)
            }
            Move::EvictHost(number) => {
                let line = line(number);
                line.host.job.is_idle()
                    && line.host.state.is_valid()
                    && self.has_credit(Lane::M2sRwd, exploration)
            }
            Move::Flip => self.can_flip(fault),
            Move::FlipArrives => {
                let mut region = self.region();
                self.is_flipping && region.all(|line| line.device.job.is_idle())
            }
            Move::Deliver(number, lane) => {
                let line = line(number);
                line.wires.get(lane).is_some()
                    && match lane.taker() {
                        Party::Device => device::can_take(line, lane, fault),
                        Party::Host => host::can_take(line, lane),
                    }
            }
        }
    }

    fn host_can_begin(
        &self,
        line: &CoherentLine,
        op: HostOp,
        exploration: &Exploration<N>,
    ) -> bool {
        let busy = self.lines.iter().filter(|line| !line.host.job.is_idle());
        let has_sense = op != HostOp::Demote || line.host.is_in_core;
        let is_told_not_to = self.is_flipping && line.home == LineHome::DeviceMemory;
        let requests = [Lane::H2dReq, Lane::M2sReq, Lane::M2sRwd];
        let has_credits = requests
            .iter()
            .all(|lane| self.has_credit(*lane, exploration));
        line.host.job.is_idle()
            && busy.count() < usize::from(exploration.operations_per_agent)
            && has_sense
            && !is_told_not_to
            && has_credits
    }

    fn has_credit(&self, lane: Lane, exploration: &Exploration<N>) -> bool {
        let used = self.lines.iter().filter(|l| l.wires.get(lane).is_some());
        used.count() < usize::from(exploration.rules.credits)
    }

    fn region(&self) -> impl Iterator<Item = &CoherentLine> {
        let is_in_region = |line: &&CoherentLine| line.home == LineHome::DeviceMemory;
        self.lines.iter().filter(is_in_region)
    }

    /// What software must see to before it flips a region to device bias (IV-B).
    fn can_flip(&self, fault: Option<Fault>) -> bool {
        let pushes =
            |line: &CoherentLine| line.device.job.task == Some(DeviceTask::Op(DeviceOp::NcPush));
        let is_ready = |line: &CoherentLine| {
            let is_flushed = line.host.state == CacheState::Invalid;
            line.host.job.is_idle()
                && (is_flushed || fault == Some(Fault::FlipWithoutFlush))
                && (!pushes(line) || fault == Some(Fault::PushDuringFlip))
        };
        let has_region = self.region().next().is_some();
        has_region && !self.is_flipping && self.bias == Bias::Host && self.region().all(is_ready)
    }
}
