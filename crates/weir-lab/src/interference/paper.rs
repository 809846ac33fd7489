// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's figures beside the model's, with one set of parameters.

use super::ask::{MixAnswer, PathModel};
use crate::papers::{Ours, Paper};
use anyhow::{Context, Result};
use weir_figures::Comparison;
use weir_hw::host_path::{HostStream, Lever, StreamOp};

/// Threads of the paper's victims and backgrounds.
pub const THREADS: u32 = 16;

/// A victim beside a background, with the victim alone.
pub struct VictimBeside {
    /// The victim without the background.
    pub alone: MixAnswer,
    pub together: MixAnswer,
}

impl VictimBeside {
    /// Part of its bandwidth that the victim keeps.
    pub fn kept(&self) -> f64 {
        self.together.streams[0].bytes_per_sec() / self.alone.streams[0].bytes_per_sec()
    }

    /// L2-miss latency, together ÷ alone.
    pub fn l2_ratio(&self) -> f64 {
        let of = |mix: &MixAnswer| {
            mix.streams[0]
                .counters
                .l2_miss_latency_ns
                .unwrap_or(f64::NAN)
        };
        of(&self.together) / of(&self.alone)
    }

    /// L3-miss latency, together ÷ alone.
    pub fn l3_ratio(&self) -> f64 {
        let of = |mix: &MixAnswer| {
            mix.streams[0]
                .counters
                .l3_miss_latency_ns
                .unwrap_or(f64::NAN)
        };
        of(&self.together) / of(&self.alone)
    }

    /// Mean residence of all lines with a tracker, together ÷ alone.
    pub fn residence_ratio(&self) -> f64 {
        self.together.mean_residence_ns / self.alone.mean_residence_ns
    }

    /// Lines that get a tracker per time, together ÷ alone.
    pub fn inserts_ratio(&self) -> f64 {
        self.together.inserts_per_ns / self.alone.inserts_per_ns
    }
}

/// Asks for a victim beside a background under levers.
///
/// # Errors
/// The streams do not fit the machine.
pub fn beside(
    model: &PathModel,
    victim: (&str, StreamOp, u32),
    background: (&str, StreamOp, u32),
    levers: &[Lever],
) -> Result<VictimBeside> {
    let stream =
        |(target, op, threads): (&str, StreamOp, u32)| HostStream::new(target, op, threads);
    let streams = [stream(victim), stream(background)];
    Ok(VictimBeside {
        alone: model.plain(&streams[..1])?,
        together: model.levered(&streams, 1, levers)?,
    })
}

/// What the background moves under levers, relative to without, beside the victim.
fn background_kept(with: &VictimBeside, without: &VictimBeside) -> f64 {
    with.together.streams[1].bytes_per_sec() / without.together.streams[1].bytes_per_sec()
}

const MMEM_LD: (&str, StreamOp, u32) = ("mmem", StreamOp::Ld, THREADS);
const CXL_NTST: (&str, StreamOp, u32) = ("cxl", StreamOp::Ntst, THREADS);
/// A buffered thread of random writes.
pub const SSD_RANDOM: (&str, StreamOp, u32) = ("ssd", StreamOp::RandWrite, 1);
const SSD_SEQUENTIAL: (&str, StreamOp, u32) = ("ssd", StreamOp::Write, 1);

/// All figures.
///
/// # Errors
/// The machine has not what the paper's had: mmem, cxl, an SSD, 32 cores.
pub fn rows(model: &PathModel) -> Result<Vec<Comparison>> {
    let has_all = ["mmem", "cxl", "ssd"]
        .iter()
        .all(|target| model.machine.targets().contains(target));
    let fits = has_all && model.machine.cores.count >= 2 * THREADS;
    fits.then_some(()).context(
        "the paper's figures need a machine with mmem, cxl, ssd and 32 cores: see --print",
    )?;
    let mut ours = Ours::default();
    mechanism(model, &mut ours)?;
    levers(model, &mut ours)?;
    storage(model, &mut ours)?;
    signs_of_mmem(model, &mut ours)?;
    signs_of_others(model, &mut ours)?;
    Paper::interference()?.beside(ours)
}

fn mechanism(model: &PathModel, ours: &mut Ours) -> Result<()> {
    let base = beside(model, MMEM_LD, CXL_NTST, &[])?;
    let ssd = beside(model, SSD_RANDOM, CXL_NTST, &[])?;
    ours.put("mmem_alone", base.alone.streams[0].bytes_per_sec() / 1e9);
    ours.put("mmem_lost", (1.0 - base.kept()) * 1e2);
    ours.put("l2_miss", ssd.l2_ratio());
    ours.put("l3_miss", ssd.l3_ratio());
    ours.put("residence", ssd.residence_ratio());
    ours.put("inserts", ssd.inserts_ratio());
    ours.put("l3_bandwidth", ssd.kept());
    // The number of writers at which a load takes as long as GAPBS's slow-down.
    for writers in 1..model.machine.cores.count {
        let (load, writer) = (
            ("mmem", StreamOp::LdChase, 1),
            ("cxl", StreamOp::Ntst, writers),
        );
        if beside(model, load, writer, &[])?.l2_ratio() >= 20.8 {
            ours.put("writers", f64::from(writers));
            break;
        }
    }
    Ok(())
}

fn levers(model: &PathModel, ours: &mut Ours) -> Result<()> {
    let base = beside(model, MMEM_LD, CXL_NTST, &[])?;
    let quota = beside(model, MMEM_LD, CXL_NTST, &[Lever::Quota(1.0 / 16.0)])?;
    let half = Lever::named("mba-linear", 0.5, &model.machine)?;
    let mba = beside(model, MMEM_LD, CXL_NTST, &[half])?;
    let ghz = model.machine.levers.least_ghz;
    let slow = beside(model, MMEM_LD, CXL_NTST, &[Lever::Frequency(ghz)])?;
    let lost = (1.0 - background_kept(&quota, &base)) * base.together.streams[1].bytes_per_sec();
    ours.put("kept_by_quota", quota.kept() * 1e2);
    ours.put("l2_by_quota", quota.l2_ratio());
    ours.put("lost_by_quota", lost / 1e9);
    let why = format!(
        "CXL keeps {:.0} %: below its capacity the pool is not full",
        background_kept(&mba, &base) * 1e2
    );
    ours.explained("kept_by_mba", mba.kept() * 1e2, why);
    let why = format!(
        "at {ghz} GHz 16 cores still store more than the device takes, so that the pool stays full; a core's own \
         time for a line would have to be several times longer, or the clock lower than any the paper names"
    );
    ours.explained("kept_at_lowest_clock", slow.kept() * 1e2, why);
    Ok(())
}

fn storage(model: &PathModel, ours: &mut Ours) -> Result<()> {
    let random = beside(model, SSD_RANDOM, CXL_NTST, &[])?;
    let sequential = beside(model, SSD_SEQUENTIAL, CXL_NTST, &[])?;
    let added = |mix: &VictimBeside| {
        let of = |one: &MixAnswer| one.streams[0].figures.cpu_ns_per_op.unwrap_or(f64::NAN);
        of(&mix.together) - of(&mix.alone)
    };
    let why = format!(
        "one thread, buffered; the copy of a block takes {:.1} µs more, in both patterns the same",
        added(&sequential) / 1e3
    );
    let hidden = format!("{why}; alone the SSD is the limit and hides a part of it");
    ours.explained("sequential_lost", (1.0 - sequential.kept()) * 1e2, why);
    ours.explained("random_lost", (1.0 - random.kept()) * 1e2, hidden);
    Ok(())
}

type TargetOps = (&'static str, &'static [StreamOp]);

const CXL_OPS: TargetOps = ("cxl", &[StreamOp::Ld, StreamOp::St, StreamOp::Ntst]);
const MMEM_OPS: TargetOps = ("mmem", CXL_OPS.1);
const SSD_OPS: TargetOps = ("ssd", &[StreamOp::RandRead, StreamOp::RandWrite]);

/// The most that any of these victims loses, in per cent, over 1, 2, 4 … 16 threads of both sides.
fn most_lost(model: &PathModel, victims: TargetOps, backgrounds: TargetOps) -> Result<f64> {
    let streams = |(target, ops): TargetOps| {
        let ops = ops.iter();
        ops.flat_map(move |op| [1, 2, 4, 8, THREADS].map(|threads| (target, *op, threads)))
    };
    let mut most = f64::NEG_INFINITY;
    for victim in streams(victims) {
        for background in streams(backgrounds) {
            let kept = beside(model, victim, background, &[])?.kept();
            most = most.max((1.0 - kept) * 1e2);
        }
    }
    Ok(most)
}

fn lost(
    model: &PathModel,
    victim: (&str, StreamOp, u32),
    background: (&str, StreamOp, u32),
) -> Result<f64> {
    Ok((1.0 - beside(model, victim, background, &[])?.kept()) * 1e2)
}

/// The paper's statements on what DRAM (MMEM) loses beside CXL memory, as conditions on our figures.
fn signs_of_mmem(model: &PathModel, ours: &mut Ours) -> Result<()> {
    let ld = lost(model, MMEM_LD, ("cxl", StreamOp::Ld, THREADS))?;
    let st = lost(model, MMEM_LD, ("cxl", StreamOp::St, THREADS))?;
    let ntst = lost(model, MMEM_LD, CXL_NTST)?;
    let of_ssd = most_lost(model, SSD_OPS, ("cxl", &[StreamOp::Ntst]))?;
    let why = format!(
        "ld {ld:.0} %, st {st:.0} %; the paper does not say which of both. Loads fill the pool only if lines of \
         all cores are more than trackers"
    );
    ours.explained("under_ld_or_st", ld.max(st), why);
    ours.put("worse_than_ld_and_st", ntst - ld.max(st));
    let why = format!("random I/O of an SSD loses {of_ssd:.0} % at most");
    ours.explained("worse_than_for_ssd", ntst - of_ssd, why);
    Ok(())
}

/// What an SSD loses, and CXL memory.
fn signs_of_others(model: &PathModel, ours: &mut Ours) -> Result<()> {
    let under = |op| lost(model, SSD_RANDOM, ("cxl", op, THREADS));
    let mild = most_lost(model, SSD_OPS, ("cxl", &[StreamOp::Ld, StreamOp::St]))?;
    let by_mmem = most_lost(model, ("cxl", &[StreamOp::Ntst]), MMEM_OPS)?;
    ours.put(
        "movdir_milder",
        under(StreamOp::Ntst)? - under(StreamOp::Movdir64b)?,
    );
    ours.put("movdir_from_cxl", under(StreamOp::Movdir64bFrom)?);
    ours.put("ssd_under_ld_or_st", mild);
    ours.put("cxl_under_ssd", most_lost(model, CXL_OPS, SSD_OPS)?);
    ours.put("cxl_under_mmem", by_mmem);
    Ok(())
}
