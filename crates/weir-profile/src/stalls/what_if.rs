// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much faster a workload would be: the same loads and stores, with the same dependence, where CXL memory
//! takes as long as DRAM, as the idle device, or as it does without a neighbour's requests. What comes of it
//! comes from the model.

use super::core_model::{LoadClass, run};
use super::draws::Draws;
use super::loads::{LOADS, LoadFit, LoadStalls, SEED, WINDOW, buffers, fit};
use super::stores::{store_classes, whole};
use super::ways::{Behind, Times, is_cxl, times};
use super::{Measured, load_counts};
use crate::figure::sources::Sources;
use crate::figure::{Answer, Class, Unit};
use crate::quality::Refusal;
use weir_core::window::CountProvenance;
use weir_core::window::role::Target;

/// What would be otherwise.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise<'a> {
    /// CXL memory takes as long as DRAM.
    NoCxl {
        /// Nanoseconds that a line of DRAM takes then; as many as now, where that is not known.
        dram_ns: Option<f64>,
    },
    /// All memory takes as long as on the idle machine.
    Idle(&'a Sources<'a>),
    /// These parts of the waiting time of CXL memory and of DRAM go.
    Without {
        idle: &'a Sources<'a>,
        /// Part of the waiting time behind a neighbour at CXL memory.
        cxl: f64,
        /// The same at DRAM.
        dram: f64,
    },
}

/// A workload as the model has it: what it does now, and what it would do if lines took other times.
pub(super) struct ModelledTime<'a> {
    sources: Sources<'a>,
    measured: Measured,
    known: LoadStalls,
    now: Times,
    /// Loads, and a model that stalls on them as much as the core; nothing where it does not.
    loads: Option<(Vec<LoadClass>, LoadFit)>,
}

impl<'a> ModelledTime<'a> {
    /// Fits it.
    ///
    /// # Errors
    /// As [`super::stalls`].
    pub(super) fn new(sources: &Sources<'a>) -> Result<ModelledTime<'a>, Refusal> {
        let measured = Measured::new(sources)?;
        let now = times(sources)?;
        let known = measured.of_loads();
        let loads = if known.stalled > 0.0 {
            let classes = load_counts::load_classes(sources, &now)?;
            let fitted = fit(&known, &classes, WINDOW, buffers(sources));
            Some((classes, fitted))
        } else {
            None
        };
        Ok(ModelledTime {
            sources: *sources,
            measured,
            known,
            now,
            loads,
        })
    }

    /// Time now ÷ time with other times of lines, of the same instructions.
    pub(super) fn speedup(&self, then: &Times) -> f64 {
        let known = &self.known;
        let mut cycles = known.working;
        if let Some((classes, fitted)) = &self.loads {
            let slower = with_times(classes, then);
            let draws = Draws::new(classes, LOADS[1], SEED);
            let other = run(&fitted.core, &slower, &draws, fitted.dependence);
            let is = fitted.run.stalled / fitted.run.cycles;
            let is = if is > 0.0 { is } else { 1.0 };
            cycles += known.stalled * (other.stalled / fitted.run.cycles / is);
        }
        let on_stores = self.measured.on_stores.value;
        if on_stores > 0.0 {
            let whole = |times| whole(&store_classes(&self.sources, times));
            let lengths = [&self.now, then].map(whole);
            cycles += stalled_on_stores(known.working, on_stores, lengths);
        }
        (known.working + known.stalled + on_stores) / cycles
    }

    /// The same where DRAM takes so many nanoseconds, and CXL memory as many.
    pub(super) fn speedup_in_dram(&self, dram_ns: f64) -> f64 {
        self.speedup(&in_dram(&self.now, dram_ns * self.now.ghz))
    }
}

/// Time now ÷ time then, of the same instructions.
///
/// # Errors
/// As [`super::stalls`]; or the time of DRAM, or of the idle machine, is not known.
pub fn speedup(sources: &Sources, otherwise: Otherwise) -> Answer {
    let modelled = ModelledTime::new(sources)?;
    let then = changed(&modelled.now, otherwise)?;
    let (measured, now) = (&modelled.measured, &modelled.now);
    let quality = measured.all().and(&now.figure, 0.0, Unit::Ratio);
    let ratio = modelled.speedup(&then);
    let mut figure = quality.and(&measured.clock, ratio, Unit::Ratio);
    figure.class = Class::Modelled;
    figure.provenance = CountProvenance::Modelled;
    Ok(figure)
}

/// Lines of CXL memory come from DRAM, which takes so many cycles.
fn in_dram(now: &Times, cycles: f64) -> Times {
    let mut then = now.clone();
    let is_moved = |way: &Behind| is_cxl(way.target) || way.target == Target::DramOwn;
    for way in then.behind.iter_mut().filter(|way| is_moved(way)) {
        *way = Behind {
            cycles,
            port: None,
            ..*way
        };
    }
    then
}

/// What stores stall where their lines, one after the other, take `after` cycles instead of `before`. By
/// Little's law so many lines are on their way at once as `before` has times of the work and the stalls; each
/// cycle that goes shortens the time by its part of them. The work itself stays.
///
/// At first each cycle of each line's way was taken for a cycle of time. Programs that wait for stores were
/// then said to be up to 33.9 times faster without CXL memory, where 2.8 is true (docs/evidence/stalls.md).
fn stalled_on_stores(working: f64, stalled: f64, [before, after]: [f64; 2]) -> f64 {
    let at_once = (before / (working + stalled)).max(1.0);
    (stalled - (before - after) / at_once).max(0.0)
}

fn changed(now: &Times, otherwise: Otherwise) -> Result<Times, Refusal> {
    let mut then = now.clone();
    match otherwise {
        Otherwise::NoCxl { dram_ns } => {
            let dram = now.behind.iter().find(|way| way.target == Target::DramOwn);
            let dram = dram.map(|way| way.cycles).ok_or(Refusal::NotCounted {
                what: "residences of DRAM".into(),
            })?;
            return Ok(in_dram(now, dram_ns.map_or(dram, |ns| ns * now.ghz)));
        }
        Otherwise::Idle(idle) => {
            shorten(&mut then, idle, 1.0, 1.0)?;
            let idle = times(idle)?;
            then.mesh_in = then.mesh_in.min(idle.mesh_in / idle.ghz * now.ghz);
        }
        Otherwise::Without { idle, cxl, dram } => shorten(&mut then, idle, cxl, dram)?,
    }
    Ok(then)
}

/// Takes parts of the waiting time off.
fn shorten(then: &mut Times, idle: &Sources, cxl: f64, dram: f64) -> Result<(), Refusal> {
    let quiet = times(idle)?;
    for way in &mut then.behind {
        let known = quiet.behind.iter().find(|other| other.target == way.target);
        let Some(known) = known else { continue };
        let waits = (way.cycles - known.cycles / quiet.ghz * then.ghz).max(0.0);
        let part = if is_cxl(way.target) { cxl } else { dram };
        let left = way.cycles - waits * part.clamp(0.0, 1.0);
        way.port = way.port.map(|port| port * left / way.cycles);
        way.cycles = left;
    }
    Ok(())
}

/// The same loads on other ways. On a longer way a prefetch comes the same time ahead, so that all of what it
/// is longer is left; on a shorter one the same part is left.
fn with_times(classes: &[LoadClass], then: &Times) -> Vec<LoadClass> {
    let other = classes.iter().map(|class| {
        let mut class = class.clone();
        if class.legs.len() > 1 {
            let before = class.cycles();
            class.legs = super::ways::legs(then, class.target);
            let after = class.cycles();
            class.left_cycles = class.left_cycles.map(|left| {
                if after > before {
                    left + after - before
                } else {
                    left * after / before
                }
            });
        }
        class
    });
    other.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{chain, slowed_chain};
    use super::*;

    #[test]
    fn a_chain_is_faster_by_the_ratio_of_its_latencies() {
        let now = chain(0, 1_000_000);
        let with_dram = chain(1, 1_000_000);
        let made = speedup(
            &Sources::alone(&with_dram),
            Otherwise::NoCxl { dram_ns: None },
        )
        .unwrap();
        // 700 cycles a load, and 200 of DRAM; a little of both is beside the work.
        assert!((made.value - 3.5).abs() < 0.2, "{made:?}");
        assert_eq!(made.class, Class::Modelled);
        let why = speedup(&Sources::alone(&now), Otherwise::NoCxl { dram_ns: None }).unwrap_err();
        assert!(why.to_string().contains("residences of DRAM"), "{why}");
    }

    #[test]
    fn a_stream_of_stores_is_faster_by_the_ratio_of_its_latencies_at_most() {
        // Ten lines at once, each 1000 cycles; half of the time is work.
        let stalled = |after| stalled_on_stores(50_000.0, 50_000.0, [1e6, after]);
        assert_eq!(stalled(1e6), 50_000.0);
        assert!((stalled(0.8e6) - 30_000.0).abs() < 1e-6);
        assert_eq!(stalled(0.3e6), 0.0, "the work itself stays");
        // One now and then: each cycle that goes is saved.
        let rare = stalled_on_stores(1e6, 500.0, [1000.0, 800.0]);
        assert!((rare - 300.0).abs() < 1e-9, "{rare}");
    }

    #[test]
    fn without_a_wait_nothing_changes_and_without_all_of_it_the_wait_goes() {
        let quiet = chain(1000, 1_000_000);
        let idle = Sources::alone(&quiet);
        let same = speedup(&idle, Otherwise::Idle(&idle)).unwrap();
        assert!((same.value - 1.0).abs() < 1e-6, "{same:?}");
        // A chain of which each load takes 400 cycles more, all of them in the table of requests.
        let now = slowed_chain(1000, 1_000_000, 400);
        let sources = Sources::alone(&now);
        let without = |cxl| Otherwise::Without {
            idle: &idle,
            cxl,
            dram: 1.0,
        };
        let half = speedup(&sources, without(0.5)).unwrap();
        assert!((half.value - 1100.0 / 900.0).abs() < 0.05, "{half:?}");
        for whole in [without(1.0), Otherwise::Idle(&idle)] {
            let all = speedup(&sources, whole).unwrap();
            assert!((all.value - 1100.0 / 700.0).abs() < 0.05, "{all:?}");
        }
        let none = speedup(&sources, without(0.0)).unwrap();
        assert!((none.value - 1.0).abs() < 1e-6, "{none:?}");
    }
}
