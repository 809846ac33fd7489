// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's figures beside the model's, with one set of parameters.

use super::ask::{MixAnswer, PathModel};
use super::bounds;
use anyhow::{Context, Result};
use serde::Serialize;
use weir_hw::host_path::{HostStream, Lever, StreamOp};

/// Threads of the paper's victims and backgrounds.
pub const THREADS: u32 = 16;

/// A printed figure and the model's.
#[derive(Clone, Debug, Serialize)]
pub struct PaperRow {
    /// What it is of.
    pub name: &'static str,
    /// As the paper prints it, with its place.
    pub paper: &'static str,
    /// The model's figure; null where the model does not give it.
    pub ours: Option<f64>,
    /// Unit of `ours`, `low`, `high`.
    pub unit: &'static str,
    /// Lower end of what counts as met; null: no lower bound.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether it is met; null where there is no bound or no figure.
    pub met: Option<bool>,
    /// Where the figure comes from, or why it is missed or not given.
    pub why: String,
}

impl PaperRow {
    fn new(name: &'static str, paper: &'static str, ours: f64, unit: &'static str) -> Self {
        PaperRow {
            name,
            paper,
            ours: Some(ours),
            unit,
            low: None,
            high: None,
            met: None,
            why: String::new(),
        }
    }

    fn within(mut self, [low, high]: [f64; 2]) -> Self {
        let ours = self.ours.unwrap_or(f64::NAN);
        (self.low, self.high) = (finite(low), finite(high));
        self.met = Some((low..=high).contains(&ours));
        self
    }

    fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    fn not_given(name: &'static str, paper: &'static str, why: &str) -> Self {
        PaperRow {
            ours: None,
            ..PaperRow::new(name, paper, 0.0, "")
        }
        .because(why)
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// A victim beside a background, with the victim alone.
pub struct VictimBeside {
    /// The victim without the background.
    pub alone: MixAnswer,
    /// Both.
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
pub fn rows(model: &PathModel) -> Result<Vec<PaperRow>> {
    let has_all = ["mmem", "cxl", "ssd"]
        .iter()
        .all(|target| model.machine.targets().contains(target));
    let fits = has_all && model.machine.cores.count >= 2 * THREADS;
    fits.then_some(()).context(
        "the paper's figures need a machine with mmem, cxl, ssd and 32 cores: see --print",
    )?;
    let mut rows = mechanism(model)?;
    rows.extend(levers(model)?);
    rows.extend(storage(model)?);
    rows.extend(signs_of_mmem(model)?);
    rows.extend(signs_of_others(model)?);
    rows.extend(not_given());
    Ok(rows)
}

fn mechanism(model: &PathModel) -> Result<Vec<PaperRow>> {
    let base = beside(model, MMEM_LD, CXL_NTST, &[])?;
    let ssd = beside(model, SSD_RANDOM, CXL_NTST, &[])?;
    let alone = base.alone.streams[0].bytes_per_sec();
    Ok(vec![
        PaperRow::new(
            "MMEM ld alone, 16 threads",
            "206 GB/s (V-A: 190 is 92 %)",
            alone / 1e9,
            "GB/s",
        )
        .within([196.0, 216.0])
        .because("an input: lines of a core follow from it, as a whole number"),
        PaperRow::new(
            "MMEM ld lost under 16 CXL ntst",
            "up to 93.2 % (III-B1)",
            (1.0 - base.kept()) * 1e2,
            "%",
        )
        .within(bounds::MMEM_LOST)
        .because("follows from n, W, C and r; the number of trackers does not matter"),
        PaperRow::new(
            "L2-miss latency under 16 CXL ntst",
            "15.2 × (table IV)",
            ssd.l2_ratio(),
            "×",
        )
        .within(bounds::L2_MISS)
        .because("of the SSD's copy, as in table IV; the number of trackers does not matter"),
        PaperRow::new(
            "L3-miss latency under 16 CXL ntst",
            "1.01 × (table IV)",
            ssd.l3_ratio(),
            "×",
        )
        .within([0.0, 1.1])
        .because("the wait is before admission, and the lookup comes after it"),
        PaperRow::new(
            "tracker residence, all misses",
            "26.4 × = 4090 / 155 (table IV)",
            ssd.residence_ratio(),
            "×",
        )
        .within(bounds::RESIDENCE)
        .because("the one mixed cell: trackers.count is fitted on it"),
        PaperRow::new(
            "tracker inserts, all misses",
            "155 × (table IV)",
            ssd.inserts_ratio(),
            "×",
        )
        .within([124.0, 186.0])
        .because("every line of a copy misses here; 155 asks for an SSD that alone hardly misses"),
        PaperRow::new(
            "L3 access bandwidth of a core",
            "0.14 × (table IV)",
            ssd.kept(),
            "×",
        )
        .within([0.112, 0.168])
        .because("it is as that of the I/O here, and alone the SSD is the limit"),
        writers(model)?,
    ])
}

/// At how many writers a load takes as long as GAPBS's slow-down.
fn writers(model: &PathModel) -> Result<PaperRow> {
    let most = model.machine.cores.count - 1;
    let mut found = None;
    for writers in 1..=most {
        let mix = beside(
            model,
            ("mmem", StreamOp::LdChase, 1),
            ("cxl", StreamOp::Ntst, writers),
            &[],
        )?;
        if mix.l2_ratio() >= 20.8 {
            found = Some(writers);
            break;
        }
    }
    let row = PaperRow::new(
        "writers at which a load takes 20.8 ×",
        "GAPBS up to 20.8 × (IV-B)",
        0.0,
        "threads",
    );
    Ok(PaperRow {
        ours: found.map(f64::from),
        ..row
    }
    .because("the slow-down of loads is linear in the writers; the paper does not say at how many GAPBS had it"))
}

fn levers(model: &PathModel) -> Result<Vec<PaperRow>> {
    let base = beside(model, MMEM_LD, CXL_NTST, &[])?;
    let quota = beside(model, MMEM_LD, CXL_NTST, &[Lever::Quota(1.0 / 16.0)])?;
    let half = Lever::named("mba-linear", 0.5, &model.machine)?;
    let mba = beside(model, MMEM_LD, CXL_NTST, &[half])?;
    let ghz = model.machine.levers.least_ghz;
    let slow = beside(model, MMEM_LD, CXL_NTST, &[Lever::Frequency(ghz)])?;
    let lost = (1.0 - background_kept(&quota, &base)) * base.together.streams[1].bytes_per_sec();
    Ok(vec![
        PaperRow::new("MMEM ld kept at a quota of 1/16", "92 % (V-A)", quota.kept() * 1e2, "%")
            .within(bounds::KEPT_BY_QUOTA)
            .because("a share of time: 1 − 1/16 of the loss"),
        PaperRow::new("L2-miss latency at a quota of 1/16", "nearly its original (V-A)", quota.l2_ratio(), "×")
            .within([0.8, 1.2])
            .because("the mean of all loads: few are done while the writers run"),
        PaperRow::new("CXL lost at a quota of 1/16", "about 10 GB/s (V-A)", lost / 1e9, "GB/s")
            .because("the paper's quota was rewritten each period, and each write refills it"),
        PaperRow::new("MMEM ld kept with MBA at half of CXL", "99, 95, 98 % (V-C)", mba.kept() * 1e2, "%")
            .within(bounds::KEPT_BY_MBA)
            .because(format!(
                "CXL keeps {:.0} %: below its capacity the pool is not full",
                background_kept(&mba, &base) * 1e2
            )),
        PaperRow::new("MMEM ld kept at the lowest clock", "30 to 52 % (V-B)", slow.kept() * 1e2, "%")
            .within(bounds::KEPT_AT_LOWEST_CLOCK)
            .because(format!(
                "at {ghz} GHz 16 cores still store more than the device takes, so that the pool stays full; a core's own \
                 time for a line would have to be several times longer, or the clock lower than any the paper names"
            )),
    ])
}

fn storage(model: &PathModel) -> Result<Vec<PaperRow>> {
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
    Ok(vec![
        PaperRow::new(
            "SSD sequential write lost",
            "80.9 % (figure 3a)",
            (1.0 - sequential.kept()) * 1e2,
            "%",
        )
        .within(bounds::SEQUENTIAL_LOST)
        .because(why.clone()),
        PaperRow::new(
            "SSD random write lost",
            "54.5 % (figure 3a)",
            (1.0 - random.kept()) * 1e2,
            "%",
        )
        .within(bounds::RANDOM_LOST)
        .because(format!(
            "{why}; alone the SSD is the limit and hides a part of it"
        )),
    ])
}

/// Ops of one target.
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

/// What MMEM loses.
fn signs_of_mmem(model: &PathModel) -> Result<Vec<PaperRow>> {
    let ld = lost(model, MMEM_LD, ("cxl", StreamOp::Ld, THREADS))?;
    let st = lost(model, MMEM_LD, ("cxl", StreamOp::St, THREADS))?;
    let ntst = lost(model, MMEM_LD, CXL_NTST)?;
    let of_ssd = most_lost(model, SSD_OPS, ("cxl", &[StreamOp::Ntst]))?;
    Ok(vec![
        PaperRow::new("MMEM ld lost under 16 CXL ld or st, the larger", "over 40 % (III-B1)", ld.max(st), "%")
            .within(bounds::UNDER_LD_OR_ST)
            .because(format!(
                "ld {ld:.0} %, st {st:.0} %; the paper does not say which of both. Loads fill the pool only if lines of \
                 all cores are more than trackers"
            )),
        PaperRow::new("ntst worse for MMEM than ld and st by", "the worst (III-B1)", ntst - ld.max(st), "points")
            .within([0.0, 100.0]),
        PaperRow::new("ntst worse for MMEM than for an SSD by", "MMEM loses more (III-B1)", ntst - of_ssd, "points")
            .within([0.0, 100.0])
            .because(format!("random I/O of an SSD loses {of_ssd:.0} % at most")),
    ])
}

/// What an SSD loses, and CXL memory.
fn signs_of_others(model: &PathModel) -> Result<Vec<PaperRow>> {
    let under = |op| lost(model, SSD_RANDOM, ("cxl", op, THREADS));
    let milder = under(StreamOp::Ntst)? - under(StreamOp::Movdir64b)?;
    let from = under(StreamOp::Movdir64bFrom)?;
    let mild = most_lost(model, SSD_OPS, ("cxl", &[StreamOp::Ld, StreamOp::St]))?;
    let under_ssd = most_lost(model, CXL_OPS, SSD_OPS)?;
    let under_mmem = most_lost(model, ("cxl", &[StreamOp::Ntst]), MMEM_OPS)?;
    Ok(vec![
        PaperRow::new(
            "movdir64b milder for an SSD than ntst by",
            "milder (III-D2)",
            milder,
            "points",
        )
        .within([0.0, 100.0])
        .because("its fewer lines a core are an assumption of the machine file"),
        PaperRow::new(
            "SSD lost under movdir64b from CXL",
            "none (III-D2)",
            from,
            "%",
        )
        .within([-5.0, 5.0]),
        PaperRow::new(
            "SSD random I/O lost under CXL ld or st, the most",
            "mild (III-B1)",
            mild,
            "%",
        )
        .within([-5.0, 10.0]),
        PaperRow::new(
            "CXL lost under SSD random I/O, the most",
            "none (III-B2)",
            under_ssd,
            "%",
        )
        .within([-5.0, 5.0]),
        PaperRow::new(
            "CXL ntst lost under MMEM, the most",
            "mild to moderate: 5 to 40 % (III-B2)",
            under_mmem,
            "%",
        )
        .within([5.0, 40.0])
        .because(
            "only the wait for a tracker could take from it, and MMEM alone does not fill the pool",
        ),
    ])
}

fn not_given() -> Vec<PaperRow> {
    vec![
        PaperRow::not_given(
            "CXL st beside MMEM traffic",
            "rises (III-B2)",
            "not given: every mechanism here only takes; a second stream never makes a first one faster",
        ),
        PaperRow::not_given(
            "RocksDB under CXL ld on system A",
            "+21.2 % (IV-A)",
            "not given: the paper counts 24 % fewer instructions, and this model has no instructions",
        ),
    ]
}
