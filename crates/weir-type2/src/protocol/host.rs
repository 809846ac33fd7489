// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The home agent with LLC and snoop filter: serves the cores, snoops the device or asks it for device
//! memory, and answers the device's requests. It works on one request of a line at a time.

use super::line::{CoherentLine, DataCopy, HostTask, Job, Message};
use super::{Context, Fault, Watch};
use crate::words::{CacheState, HostOp, Lane, LineHome, Opcode, Party, TimedStage};

/// An operation of a core begins. The home agent must be idle for the line.
pub fn begin<W: Watch>(line: &mut CoherentLine, op: HostOp, cx: &mut Context<W>) {
    let is_load = matches!(op, HostOp::Load | HostOp::NtLoad);
    if is_load && line.host.is_in_core {
        cx.watch.passed(TimedStage::CoreHit);
        return end_read(line, line.host.copy, cx);
    }
    cx.watch.passed(TimedStage::CorePath);
    cx.watch.passed(TimedStage::LlcLook);
    match op {
        HostOp::Demote => {
            line.host.is_in_core = false;
            end(line, cx);
        }
        HostOp::Load | HostOp::NtLoad if line.host.state.is_valid() => {
            line.host.is_in_core |= op == HostOp::Load;
            end_read(line, line.host.copy, cx);
        }
        HostOp::Store if line.host.state.may_write() => write_llc(line, cx),
        _ if line.home == LineHome::HostMemory => begin_in_host_memory(line, op, cx),
        _ => begin_in_device_memory(line, op, cx),
    }
}

fn begin_in_host_memory<W: Watch>(line: &mut CoherentLine, op: HostOp, cx: &mut Context<W>) {
    let is_shared = line.host.tracked == CacheState::Shared;
    let snoop = match op {
        HostOp::Load if !is_shared => Opcode::SnpData,
        HostOp::NtLoad if !is_shared => Opcode::SnpCur,
        HostOp::Load | HostOp::NtLoad => return conclude(line, op, None, cx),
        HostOp::Store if is_shared && cx.has(Fault::StoreSkipsSnoop) => {
            return conclude(line, op, None, cx);
        }
        _ => Opcode::SnpInv,
    };
    if !line.host.tracked.is_valid() {
        return conclude(line, op, None, cx);
    }
    line.host.job = Job::waiting(HostTask::Op(op));
    cx.send(line, Lane::H2dReq, Message::new(snoop));
}

fn begin_in_device_memory<W: Watch>(line: &mut CoherentLine, op: HostOp, cx: &mut Context<W>) {
    let is_modified = line.host.state == CacheState::Modified;
    let (lane, message) = match op {
        HostOp::Load => (Lane::M2sReq, Message::new(Opcode::MemRdData)),
        HostOp::NtLoad => (Lane::M2sReq, Message::new(Opcode::MemRdCur)),
        HostOp::Store => (Lane::M2sReq, Message::new(Opcode::MemInv)),
        HostOp::NtStore => (Lane::M2sRwd, Message::new(Opcode::MemWrInv)),
        HostOp::Flush if is_modified => {
            let message = Message::with(Opcode::MemWr, line.host.copy);
            (Lane::M2sRwd, message)
        }
        HostOp::Flush | HostOp::Demote => {
            drop_llc(line);
            return end(line, cx);
        }
    };
    if matches!(op, HostOp::NtStore | HostOp::Flush) {
        drop_llc(line);
    }
    line.host.job = Job::waiting(HostTask::Op(op));
    cx.send(line, lane, message);
}

/// A line leaves the LLC. The home agent must be idle for it, and the line there.
pub fn evict<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    let is_modified = line.host.state == CacheState::Modified;
    let copy = line.host.copy;
    drop_llc(line);
    match line.home {
        LineHome::HostMemory if is_modified => line.memory = copy,
        LineHome::DeviceMemory if is_modified => {
            line.host.job = Job::waiting(HostTask::Evict);
            cx.send(line, Lane::M2sRwd, Message::with(Opcode::MemWr, copy));
        }
        _ => {}
    }
}

fn end<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    line.host.job = Job::IDLE;
    cx.watch.ended(Party::Host);
}

fn end_read<W: Watch>(line: &mut CoherentLine, copy: DataCopy, cx: &mut Context<W>) {
    cx.watch.read(Party::Host, copy.was_last_for(Party::Host));
    end(line, cx);
}

fn drop_llc(line: &mut CoherentLine) {
    line.host.state = CacheState::Invalid;
    line.host.is_in_core = false;
}

fn write_llc<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    line.host.copy = line.write();
    line.host.state = CacheState::Modified;
    line.host.is_in_core = true;
    end(line, cx);
}

/// Ends an operation on host memory; `data` is what the device forwarded. Where it forwarded nothing, host
/// memory has the newest data. A load that the snoop filter finds shared in the device must not become
/// exclusive in the LLC.
fn conclude<W: Watch>(
    line: &mut CoherentLine,
    op: HostOp,
    data: Option<DataCopy>,
    cx: &mut Context<W>,
) {
    match op {
        HostOp::Load | HostOp::NtLoad => {
            if data.is_none() {
                cx.watch.passed(TimedStage::HostRead);
            }
            let copy = data.unwrap_or(line.memory);
            if op == HostOp::Load {
                line.memory = copy;
                line.host.state = match line.host.tracked {
                    CacheState::Invalid => CacheState::Exclusive,
                    _ => CacheState::Shared,
                };
                line.host.copy = copy;
                line.host.is_in_core = true;
            }
            end_read(line, copy, cx);
        }
        HostOp::Store => write_llc(line, cx),
        HostOp::NtStore => {
            drop_llc(line);
            cx.watch.passed(TimedStage::HostAccept);
            line.memory = line.write();
            end(line, cx);
        }
        HostOp::Flush | HostOp::Demote => {
            let own = (line.host.state == CacheState::Modified).then_some(line.host.copy);
            line.memory = data.or(own).unwrap_or(line.memory);
            drop_llc(line);
            end(line, cx);
        }
    }
}

/// Whether the home agent can take the channel's message now.
pub fn can_take(line: &CoherentLine, lane: Lane) -> bool {
    lane != Lane::D2hReq || line.host.job.is_idle()
}

pub fn take<W: Watch>(line: &mut CoherentLine, lane: Lane, cx: &mut Context<W>) {
    let Some(message) = line.wires.take(lane) else {
        return;
    };
    match (lane, line.home) {
        (Lane::D2hReq, LineHome::HostMemory) => serve_device(line, message, cx),
        (Lane::D2hReq, LineHome::DeviceMemory) => forward_device(line, message, cx),
        (Lane::D2hData, _) => take_data(line, message, cx),
        (Lane::D2hRsp, _) => {
            line.host.job.answer.opcode = Some(message.opcode);
            snoop_answered(line, cx);
        }
        (Lane::S2mNdr, _) => take_completion(line, message, cx),
        (Lane::S2mDrs, _) => {
            line.host.job.answer.data = Some(message.copy);
            device_memory_answered(line, cx);
        }
        _ => cx.watch.unexpected(lane, message),
    }
}

/// A request of the device for host memory.
///
/// The order in each arm is that of the wire: the line is taken from the cores and the LLC before the device
/// is granted it, and GO is sent before the data. CXL 3.1 (3.2.5.2) has a snoop push a GO that was sent
/// before it, so that the device knows its state before it is asked to give the line up.
fn serve_device<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    let is_hit = line.host.state.is_valid();
    let is_modified = line.host.state == CacheState::Modified;
    cx.watch.passed(TimedStage::LlcLook);
    match message.opcode {
        Opcode::RdCurr => {
            let copy = read_for_device(line, cx);
            cx.send(line, Lane::H2dData, Message::with(Opcode::Data, copy));
        }
        Opcode::RdShared => {
            let copy = read_for_device(line, cx);
            line.memory = copy;
            if is_hit {
                cx.watch.passed(TimedStage::SharerNote);
                share_llc(line, cx);
            } else if cx.rules.llc_after_cs_miss == CacheState::Shared {
                line.host.state = CacheState::Shared;
                line.host.copy = copy;
            }
            grant(line, CacheState::Shared, Opcode::GoS, cx);
            cx.send(line, Lane::H2dData, Message::with(Opcode::Data, copy));
        }
        Opcode::RdOwn => {
            let copy = read_for_device(line, cx);
            if is_hit {
                cx.watch.passed(TimedStage::SharerNote);
            }
            give_up(line, cx);
            let go = if is_modified {
                Opcode::GoM
            } else {
                Opcode::GoE
            };
            grant(line, CacheState::Exclusive, go, cx);
            cx.send(line, Lane::H2dData, Message::with(Opcode::Data, copy));
        }
        Opcode::RdOwnNoData => {
            if is_hit {
                cx.watch.passed(TimedStage::CoresCheck);
            }
            give_up(line, cx);
            grant(line, CacheState::Exclusive, Opcode::GoE, cx);
        }
        Opcode::CleanEvict => {
            line.host.tracked = CacheState::Invalid;
            cx.send(line, Lane::H2dRsp, Message::new(Opcode::GoI));
        }
        opcode => pull(line, opcode, cx),
    }
}

/// The newest data that the host has, for the device.
fn read_for_device<W: Watch>(line: &CoherentLine, cx: &mut Context<W>) -> DataCopy {
    if line.host.state.is_valid() {
        cx.watch.passed(TimedStage::CoresCheck);
        line.host.copy
    } else {
        cx.watch.passed(TimedStage::HostRead);
        line.memory
    }
}

/// The LLC's line after CS-rd has found it there.
fn share_llc<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    match cx.rules.llc_after_cs_hit {
        CacheState::Invalid => drop_llc(line),
        _ => line.host.state = CacheState::Shared,
    }
}

fn give_up<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    let stays_in_core = line.host.is_in_core && cx.has(Fault::CoreKeepsLine);
    if line.host.state == CacheState::Shared && cx.has(Fault::OwnerKeepsLlc) {
        return;
    }
    drop_llc(line);
    line.host.is_in_core = stays_in_core;
}

fn grant<W: Watch>(line: &mut CoherentLine, tracked: CacheState, go: Opcode, cx: &mut Context<W>) {
    cx.watch.passed(TimedStage::Track);
    line.host.tracked = tracked;
    cx.send(line, Lane::H2dRsp, Message::new(go));
}

/// Asks the device for the line that its request writes.
fn pull<W: Watch>(line: &mut CoherentLine, opcode: Opcode, cx: &mut Context<W>) {
    let answer = match opcode {
        Opcode::WrInv => Opcode::WritePull,
        _ => Opcode::GoWritePull,
    };
    line.host.job = Job::waiting(HostTask::Pull(opcode));
    cx.send(line, Lane::H2dRsp, Message::new(answer));
}

/// A request of the device for its own memory, in host bias: what the host has that is newer goes to device
/// memory first.
fn forward_device<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    cx.watch.passed(TimedStage::LlcLook);
    let opcode = message.opcode;
    let reads = matches!(opcode, Opcode::RdCurr | Opcode::RdShared | Opcode::RdOwn);
    if reads && line.host.state == CacheState::Modified {
        cx.watch.passed(TimedStage::CoresCheck);
        let copy = line.host.copy;
        match opcode {
            Opcode::RdCurr => line.host.state = CacheState::Exclusive,
            _ => drop_llc(line),
        }
        line.host.job = Job::waiting(HostTask::WriteBackFor(opcode));
        return cx.send(line, Lane::M2sRwd, Message::with(Opcode::MemWr, copy));
    }
    forward(line, opcode, cx);
}

fn forward<W: Watch>(line: &mut CoherentLine, opcode: Opcode, cx: &mut Context<W>) {
    if line.host.state.is_valid() && opcode != Opcode::ItoMWr {
        cx.watch.passed(TimedStage::CoresCheck);
    }
    let answer = match opcode {
        Opcode::RdCurr => Opcode::MemRdFwdI,
        Opcode::RdShared => {
            if line.host.state.is_valid() {
                share_llc(line, cx);
            }
            Opcode::MemRdFwdS
        }
        Opcode::RdOwn | Opcode::RdOwnNoData => {
            give_up(line, cx);
            Opcode::MemRdFwdE
        }
        Opcode::WrInv => {
            give_up(line, cx);
            line.host.job = Job::waiting(HostTask::Pull(opcode));
            Opcode::MemWrFwd
        }
        _ => return pull(line, opcode, cx),
    };
    cx.send(line, Lane::M2sReq, Message::new(answer));
}

fn take_data<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    match line.host.job.task {
        Some(HostTask::Pull(Opcode::WrInv)) => {
            give_up(line, cx);
            cx.watch.passed(TimedStage::HostAccept);
            line.memory = line.write();
            end_pull(line);
            if !cx.has(Fault::GoForgotten) {
                cx.send(line, Lane::H2dRsp, Message::new(Opcode::GoI));
            }
        }
        Some(HostTask::Pull(Opcode::ItoMWr)) => {
            cx.watch.passed(TimedStage::LlcWrite);
            line.host.copy = line.write();
            line.host.state = CacheState::Modified;
            line.host.is_in_core = false;
            end_pull(line);
        }
        Some(HostTask::Pull(_)) => {
            if message.opcode != Opcode::Bogus {
                cx.watch.passed(TimedStage::HostAccept);
                line.memory = message.copy;
            }
            end_pull(line);
        }
        Some(HostTask::Op(_)) => {
            line.host.job.answer.data = Some(message.copy);
            snoop_answered(line, cx);
        }
        _ => cx.watch.unexpected(Lane::D2hData, message),
    }
}

fn end_pull(line: &mut CoherentLine) {
    line.host.tracked = CacheState::Invalid;
    line.host.job = Job::IDLE;
}

/// Goes on once the device's answer to a snoop is complete.
fn snoop_answered<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    let job = line.host.job;
    let (Some(HostTask::Op(op)), Some(opcode)) = (job.task, job.answer.opcode) else {
        return;
    };
    let forwards = matches!(
        opcode,
        Opcode::RspIFwdM | Opcode::RspSFwdM | Opcode::RspVFwdV
    );
    if forwards && job.answer.data.is_none() {
        return;
    }
    line.host.tracked = match opcode {
        Opcode::RspSHitSE | Opcode::RspSFwdM => CacheState::Shared,
        Opcode::RspVHitV | Opcode::RspVFwdV => line.host.tracked,
        _ => CacheState::Invalid,
    };
    conclude(line, op, job.answer.data, cx);
}

/// Device memory is done with a request.
fn take_completion<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    match line.host.job.task {
        Some(HostTask::Op(HostOp::Load | HostOp::NtLoad)) => {
            line.host.job.answer.opcode = Some(message.opcode);
            device_memory_answered(line, cx);
        }
        Some(HostTask::Op(HostOp::Store)) => write_llc(line, cx),
        Some(HostTask::Op(_)) => end(line, cx),
        Some(HostTask::Evict) => line.host.job = Job::IDLE,
        Some(HostTask::WriteBackFor(opcode)) => {
            line.host.job = Job::IDLE;
            forward(line, opcode, cx);
        }
        Some(HostTask::Pull(Opcode::WrInv)) => {
            line.host.job = Job::IDLE;
            cx.send(line, Lane::H2dRsp, Message::new(Opcode::GoI));
        }
        _ => cx.watch.unexpected(Lane::S2mNdr, message),
    }
}

/// Goes on once completion and data of a read of device memory are there.
fn device_memory_answered<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    let job = line.host.job;
    let (Some(opcode), Some(copy)) = (job.answer.opcode, job.answer.data) else {
        return;
    };
    if job.task == Some(HostTask::Op(HostOp::Load)) {
        line.host.state = match opcode {
            Opcode::CmpE => CacheState::Exclusive,
            _ => CacheState::Shared,
        };
        line.host.copy = copy;
        line.host.is_in_core = true;
    }
    end_read(line, copy, cx);
}
