// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DCOH: serves the accelerator from HMC, DMC and device memory, asks the host where it must, and answers the
//! host's snoops and requests.

use super::line::{CoherentLine, DataCopy, DeviceTask, Job, Message};
use super::{Context, Fault, Watch};
use crate::words::{Bias, CacheState, DeviceOp, Lane, LineHome, Opcode, Party, TimedStage};

/// An operation of the accelerator begins. DCOH must be idle for the line.
pub fn begin<W: Watch>(line: &mut CoherentLine, op: DeviceOp, cx: &mut Context<W>) {
    cx.watch.passed(TimedStage::Issue);
    cx.watch.passed(TimedStage::DcohLook);
    let is_local = line.home == LineHome::DeviceMemory && *cx.bias == Bias::Device;
    let request = if is_local {
        return serve_by_itself(line, op, cx);
    } else {
        request_of(line, op)
    };
    match request {
        Some(opcode) => {
            line.device.job = Job::waiting(DeviceTask::Op(op));
            cx.send(line, Lane::D2hReq, Message::new(opcode));
        }
        None => serve_hit(line, op, cx),
    }
}

/// What the host must be asked; nothing if HMC or DMC can serve the operation.
fn request_of(line: &CoherentLine, op: DeviceOp) -> Option<Opcode> {
    let state = line.device.state;
    match op {
        DeviceOp::NcRead => (!state.is_valid()).then_some(Opcode::RdCurr),
        DeviceOp::CsRead => (!state.is_valid()).then_some(Opcode::RdShared),
        DeviceOp::CoRead => (!state.may_write()).then_some(Opcode::RdOwn),
        DeviceOp::CoWrite => (!state.may_write()).then_some(Opcode::RdOwnNoData),
        DeviceOp::NcWrite => Some(Opcode::WrInv),
        DeviceOp::NcPush => Some(Opcode::ItoMWr),
    }
}

fn serve_hit<W: Watch>(line: &mut CoherentLine, op: DeviceOp, cx: &mut Context<W>) {
    match op {
        DeviceOp::CoWrite => write_cache(line, cx),
        _ => {
            let is_exclusive = line.device.state == CacheState::Exclusive;
            if op == DeviceOp::CsRead && is_exclusive && cx.rules.cs_read_shares_hit {
                line.device.state = CacheState::Shared;
            }
            end_read(line, line.device.copy, cx);
        }
    }
}

/// Device bias: no coherence. CO-rd and CS-rd are cacheable reads, NC-P and NC-wr writes to device memory.
fn serve_by_itself<W: Watch>(line: &mut CoherentLine, op: DeviceOp, cx: &mut Context<W>) {
    let is_hit = line.device.state.is_valid();
    match op {
        DeviceOp::NcRead | DeviceOp::CoRead | DeviceOp::CsRead if is_hit => {
            end_read(line, line.device.copy, cx);
        }
        DeviceOp::NcRead => {
            cx.watch.passed(TimedStage::DeviceRead);
            end_read(line, line.memory, cx);
        }
        DeviceOp::CoRead | DeviceOp::CsRead => {
            cx.watch.passed(TimedStage::DeviceRead);
            install(line, CacheState::Exclusive, line.memory, cx);
        }
        DeviceOp::CoWrite => write_cache(line, cx),
        DeviceOp::NcWrite | DeviceOp::NcPush => {
            write_memory(line, cx);
            end(line, cx);
        }
    }
}

fn end<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    line.device.job = Job::IDLE;
    cx.watch.ended(Party::Device);
}

fn end_read<W: Watch>(line: &mut CoherentLine, copy: DataCopy, cx: &mut Context<W>) {
    cx.watch
        .read(Party::Device, copy.was_last_for(Party::Device));
    end(line, cx);
}

/// Puts a line into HMC or DMC; the read that wanted it ends.
fn install<W: Watch>(
    line: &mut CoherentLine,
    state: CacheState,
    copy: DataCopy,
    cx: &mut Context<W>,
) {
    cx.watch.passed(TimedStage::CacheFill);
    line.device.state = state;
    line.device.copy = copy;
    end_read(line, copy, cx);
}

fn write_cache<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    cx.watch.passed(TimedStage::CacheWrite);
    line.device.copy = line.write();
    line.device.state = CacheState::Modified;
    end(line, cx);
}

fn write_memory<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    cx.watch.passed(TimedStage::DeviceWrite);
    line.device.state = CacheState::Invalid;
    line.memory = line.write();
}

/// A line leaves HMC or DMC. DCOH must be idle for it, and the line there.
pub fn evict<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    let is_modified = line.device.state == CacheState::Modified;
    if line.home == LineHome::DeviceMemory {
        if is_modified {
            line.memory = line.device.copy;
        }
        line.device.state = CacheState::Invalid;
        return;
    }
    // A clean line is gone at once; a modified one is snooped until the host has asked for it.
    let opcode = if is_modified {
        Opcode::DirtyEvict
    } else {
        line.device.state = CacheState::Invalid;
        Opcode::CleanEvict
    };
    line.device.job = Job::waiting(DeviceTask::Evict);
    cx.send(line, Lane::D2hReq, Message::new(opcode));
}

/// Whether DCOH can take the channel's message now.
pub fn can_take(line: &CoherentLine, lane: Lane, fault: Option<Fault>) -> bool {
    match lane {
        Lane::H2dReq => {
            let waits_for_data = line.device.job.answer.opcode.is_some();
            let pushes_go = line.wires.get(Lane::H2dRsp).is_some();
            (!pushes_go || fault == Some(Fault::SnoopPassesGo))
                && (!waits_for_data || fault == Some(Fault::SnoopBeforeData))
        }
        Lane::M2sReqBehind => fault == Some(Fault::ReadPassesForward),
        _ => true,
    }
}

pub fn take<W: Watch>(line: &mut CoherentLine, lane: Lane, cx: &mut Context<W>) {
    let Some(message) = line.wires.take(lane) else {
        return;
    };
    match lane {
        Lane::H2dReq => answer_snoop(line, message, cx),
        Lane::H2dRsp => take_go(line, message, cx),
        Lane::H2dData => take_data(line, message, cx),
        Lane::M2sRwd => take_host_write(line, message, cx),
        _ => match message.opcode {
            Opcode::MemRdFwdI | Opcode::MemRdFwdS | Opcode::MemRdFwdE | Opcode::MemWrFwd => {
                take_forward(line, message, cx);
            }
            _ => serve_host(line, message, cx),
        },
    }
}

/// A snoop of the home agent (host memory).
fn answer_snoop<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    cx.watch.passed(TimedStage::DcohLook);
    let (before, copy) = (line.device.state, line.device.copy);
    let (after, clean, modified) = match message.opcode {
        Opcode::SnpData => (CacheState::Shared, Opcode::RspSHitSE, Opcode::RspSFwdM),
        Opcode::SnpCur => (before, Opcode::RspVHitV, Opcode::RspVFwdV),
        _ => (CacheState::Invalid, Opcode::RspIHitSE, Opcode::RspIFwdM),
    };
    let answer = match before {
        CacheState::Invalid => Opcode::RspIHitI,
        CacheState::Modified => modified,
        _ => clean,
    };
    if before.is_valid() && after != before {
        cx.watch.passed(TimedStage::TagChange);
        line.device.state = after;
    }
    cx.send(line, Lane::D2hRsp, Message::new(answer));
    if before == CacheState::Modified {
        cx.send(line, Lane::D2hData, Message::with(Opcode::Data, copy));
    }
}

fn take_go<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    match (line.device.job.task, message.opcode) {
        (Some(DeviceTask::Op(DeviceOp::CoWrite)), Opcode::GoE) => write_cache(line, cx),
        (
            Some(DeviceTask::Op(DeviceOp::CoRead | DeviceOp::CsRead)),
            Opcode::GoS | Opcode::GoE | Opcode::GoM,
        ) => {
            line.device.job.answer.opcode = Some(message.opcode);
            install_when_complete(line, cx);
        }
        (Some(DeviceTask::Op(DeviceOp::NcWrite)), Opcode::WritePull) => {
            line.device.state = CacheState::Invalid;
            cx.send(line, Lane::D2hData, Message::new(Opcode::Data));
        }
        (Some(DeviceTask::Op(DeviceOp::NcWrite)), Opcode::GoI) => end(line, cx),
        (Some(DeviceTask::Op(DeviceOp::NcPush)), Opcode::GoWritePull) => {
            // The line goes through the HMC: written there, sent, invalidated (IV-A).
            cx.watch.passed(TimedStage::CacheWrite);
            line.device.state = CacheState::Invalid;
            cx.send(line, Lane::D2hData, Message::new(Opcode::Data));
            end(line, cx);
        }
        (Some(DeviceTask::Evict), Opcode::GoWritePull) => {
            let is_taken = line.device.state != CacheState::Modified;
            let opcode = if is_taken && !cx.has(Fault::BogusWrittenBack) {
                Opcode::Bogus
            } else {
                Opcode::Data
            };
            let message = Message::with(opcode, line.device.copy);
            line.device.state = CacheState::Invalid;
            cx.send(line, Lane::D2hData, message);
            line.device.job = Job::IDLE;
        }
        (Some(DeviceTask::Evict), Opcode::GoI) => line.device.job = Job::IDLE,
        _ => cx.watch.unexpected(Lane::H2dRsp, message),
    }
}

fn take_data<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    match line.device.job.task {
        Some(DeviceTask::Op(DeviceOp::NcRead)) => end_read(line, message.copy, cx),
        Some(DeviceTask::Op(DeviceOp::CoRead | DeviceOp::CsRead)) => {
            line.device.job.answer.data = Some(message.copy);
            install_when_complete(line, cx);
        }
        _ => cx.watch.unexpected(Lane::H2dData, message),
    }
}

fn install_when_complete<W: Watch>(line: &mut CoherentLine, cx: &mut Context<W>) {
    let answer = line.device.job.answer;
    if let (Some(opcode), Some(copy)) = (answer.opcode, answer.data) {
        let state = match opcode {
            Opcode::GoS => CacheState::Shared,
            Opcode::GoE => CacheState::Exclusive,
            _ => CacheState::Modified,
        };
        install(line, state, copy, cx);
    }
}

/// The home agent's word that the host has nothing newer: DCOH ends the operation with device memory.
fn take_forward<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    match (line.device.job.task, message.opcode) {
        (Some(DeviceTask::Op(DeviceOp::NcRead)), Opcode::MemRdFwdI) => {
            cx.watch.passed(TimedStage::DeviceRead);
            end_read(line, line.memory, cx);
        }
        (Some(DeviceTask::Op(DeviceOp::CsRead)), Opcode::MemRdFwdS) => {
            cx.watch.passed(TimedStage::DeviceRead);
            install(line, CacheState::Shared, line.memory, cx);
        }
        (Some(DeviceTask::Op(DeviceOp::CoRead)), Opcode::MemRdFwdE) => {
            cx.watch.passed(TimedStage::DeviceRead);
            install(line, CacheState::Exclusive, line.memory, cx);
        }
        (Some(DeviceTask::Op(DeviceOp::CoWrite)), Opcode::MemRdFwdE) => write_cache(line, cx),
        (Some(DeviceTask::Op(DeviceOp::NcWrite)), Opcode::MemWrFwd) => {
            write_memory(line, cx);
            cx.send(line, Lane::S2mNdr, Message::new(Opcode::Cmp));
        }
        _ => cx.watch.unexpected(Lane::M2sReq, message),
    }
}

/// A request of the host to device memory. The DMC never serves it: a modified line is written back, and
/// device memory is read.
fn serve_host<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    flip_to_host(cx);
    cx.watch.passed(TimedStage::MemPipeline);
    cx.watch.passed(TimedStage::DcohLook);
    let before = line.device.state;
    let after = match (message.opcode, before) {
        (_, CacheState::Invalid) => CacheState::Invalid,
        (Opcode::MemRdData, _) => CacheState::Shared,
        (Opcode::MemRdCur, CacheState::Modified) => CacheState::Exclusive,
        (Opcode::MemRdCur, state) => state,
        _ => CacheState::Invalid,
    };
    if before == CacheState::Exclusive && message.opcode != Opcode::MemRdData {
        cx.watch.passed(TimedStage::OwnerQuery);
    }
    if before == CacheState::Modified {
        cx.watch.passed(TimedStage::DmcWriteBack);
        if !cx.has(Fault::NoWriteBack) {
            line.memory = line.device.copy;
        }
    }
    if before != after {
        cx.watch.passed(TimedStage::TagChange);
        line.device.state = after;
    }
    if message.opcode == Opcode::MemInv {
        return cx.send(line, Lane::S2mNdr, Message::new(Opcode::CmpE));
    }
    cx.watch.passed(TimedStage::DeviceRead);
    let answer = match (message.opcode, after) {
        (Opcode::MemRdCur, _) => Opcode::Cmp,
        (_, CacheState::Invalid) => Opcode::CmpE,
        _ => Opcode::CmpS,
    };
    cx.send(line, Lane::S2mNdr, Message::new(answer));
    let data = Message::with(Opcode::MemData, line.memory);
    cx.send(line, Lane::S2mDrs, data);
}

/// A line of the host for device memory: nt-st, or a modified line of the LLC.
fn take_host_write<W: Watch>(line: &mut CoherentLine, message: Message, cx: &mut Context<W>) {
    flip_to_host(cx);
    cx.watch.passed(TimedStage::MemPipeline);
    cx.watch.passed(TimedStage::DcohLookWrite);
    if message.opcode == Opcode::MemWrInv {
        if line.device.state.is_valid() {
            cx.watch.passed(TimedStage::TagChange);
            line.device.state = CacheState::Invalid;
        }
        line.memory = line.write();
    } else {
        line.memory = message.copy;
    }
    cx.watch.passed(TimedStage::DeviceAccept);
    cx.send(line, Lane::S2mNdr, Message::new(Opcode::Cmp));
}

fn flip_to_host<W: Watch>(cx: &mut Context<W>) {
    if !cx.has(Fault::BiasStays) {
        *cx.bias = Bias::Host;
    }
}
