// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disks: they move blocks by themselves, while the task that asked for one sleeps.

use crate::engine::ceil_ns;
use crate::engine::machine::{At, Machine};
use crate::engine::task_exec;
use std::collections::VecDeque;

/// Less than this many lines is nothing.
const EPSILON: f64 = 1e-3;

/// A block that a task has asked for.
#[derive(Clone, Copy, Debug)]
struct DmaBlock {
    task: u32,
    class: u32,
    lines: f64,
}

/// The block that a disk moves.
#[derive(Clone, Copy, Debug)]
struct DmaRun {
    block: DmaBlock,
    kind: u32,
    reference: f64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DmaDisk {
    run: Option<DmaRun>,
    waiting: VecDeque<DmaBlock>,
}

/// A task asks for a block, and sleeps until it is there.
pub(crate) fn submit(m: &mut Machine, disk: u32, task: u32, class: u32, lines: f64) {
    let block = DmaBlock { task, class, lines };
    m.disks[disk as usize].waiting.push_back(block);
    begin_next(m, disk);
}

fn begin_next(m: &mut Machine, disk: u32) {
    let state = &mut m.disks[disk as usize];
    if state.run.is_some() {
        return;
    }
    let Some(block) = state.waiting.pop_front() else {
        return;
    };
    let kind = m.fluid.dma_kind(block.class);
    state.run = Some(DmaRun {
        block,
        kind,
        reference: m.fluid.integral(kind),
    });
    m.fluid.enter(kind);
}

/// Accounts for what all disks have moved up to now.
pub(crate) fn settle_disks(m: &mut Machine) {
    for disk in 0..m.disks.len() {
        let Some(run) = &mut m.disks[disk].run else {
            continue;
        };
        let integral = m.fluid.integral(run.kind);
        let lines = integral - run.reference;
        run.reference = integral;
        run.block.lines -= lines;
        let (task, class) = (run.block.task, run.block.class);
        let workload = m.tasks[task as usize].workload as usize;
        let bytes = m.account_lines(workload, class, lines);
        m.workloads[workload].tally.dma_bytes += bytes;
    }
}

/// The first moment at which a disk has moved its block, with the rates of now.
pub(crate) fn earliest_end(m: &Machine) -> u64 {
    let end = |run: &DmaRun| {
        let left = run.block.lines - (m.fluid.integral(run.kind) - run.reference);
        let rate = m.fluid.rate(run.kind);
        match () {
            () if left <= EPSILON => m.now,
            () if rate > 0.0 => m.now + ceil_ns(left / rate),
            () => u64::MAX,
        }
    };
    let runs = m.disks.iter().filter_map(|disk| disk.run.as_ref());
    runs.map(end).min().unwrap_or(u64::MAX)
}

/// Disks that have moved their blocks go on with the next, and tasks wake.
pub(crate) fn end_blocks(m: &mut Machine) {
    if m.disks.is_empty() {
        return;
    }
    settle_disks(m);
    for disk in 0..m.disks.len() as u32 {
        let done = m.disks[disk as usize]
            .run
            .filter(|run| run.block.lines <= EPSILON);
        let Some(run) = done else { continue };
        m.disks[disk as usize].run = None;
        m.fluid.leave(run.kind);
        begin_next(m, disk);
        let task = &m.tasks[run.block.task as usize];
        if task.at == At::Sleeping && m.workloads[task.workload as usize].is_alive {
            task_exec::carry_on(m, run.block.task);
        }
    }
}
