// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many runs at once, on all CPUs, with progress on stderr. Results do not depend on the number of CPUs, nor
//! on the order in which runs finish.

use super::builtin_scenarios::Loaded;
use super::controllers::Choice;
use super::fairness::{reasons, shares_of};
use super::results::run_of;
use anyhow::{Context, Result};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use weir_report::results::{Results, Run};
use weir_sim::{RunMetrics, Scenario, Witness};

#[derive(Clone, Debug)]
pub struct Made {
    pub choice: usize,
    pub measures: RunMetrics,
    pub run: Run,
    /// How long it took, in seconds. Not a result: it differs from time to time.
    pub took_sec: f64,
}

/// All runs of a scenario: every choice with every seed, in that order.
#[derive(Clone, Debug)]
pub struct Batch {
    pub scenario: Scenario,
    pub choices: Vec<Choice>,
    /// The runs: by choice, then by seed.
    pub runs: Vec<Made>,
}

impl Batch {
    /// The results, as live runs have them.
    pub fn results(&self) -> Results {
        Results {
            scenario: self.scenario.name.clone(),
            runs: self.runs.iter().map(|made| made.run.clone()).collect(),
            ..Results::default()
        }
    }

    /// The runs of one choice, by seed.
    pub fn of(&self, choice: usize) -> impl Iterator<Item = &Made> {
        self.runs.iter().filter(move |made| made.choice == choice)
    }

    /// The runs with one seed, by choice.
    pub fn with_seed(&self, seed: u64) -> Results {
        let same = self.runs.iter().filter(|made| made.run.seed == seed);
        Results {
            scenario: self.scenario.name.clone(),
            runs: same.map(|made| made.run.clone()).collect(),
            ..Results::default()
        }
    }
}

/// Runs every choice with every seed. Of each run `shed` drops what is not needed, as soon as it is
/// made.
///
/// # Errors
/// A device profile of the scenario does not exist, or weir's configuration makes no sense.
pub fn run(
    loaded: &Loaded,
    choices: &[Choice],
    seeds: &[u64],
    shed: impl Fn(&mut Made) + Sync,
) -> Result<Batch> {
    run_missing(loaded, choices, seeds, Vec::new(), shed)
}

/// The same where some runs were made before, and all is kept.
///
/// # Errors
/// As [`run`].
pub fn run_rest(
    loaded: &Loaded,
    choices: &[Choice],
    seeds: &[u64],
    made: Vec<Made>,
) -> Result<Batch> {
    run_missing(loaded, choices, seeds, made, |_| ())
}

fn run_missing(
    loaded: &Loaded,
    choices: &[Choice],
    seeds: &[u64],
    made: Vec<Made>,
    shed: impl Fn(&mut Made) + Sync,
) -> Result<Batch> {
    let is_made = |(choice, seed): &(usize, u64)| {
        let same = |m: &Made| (m.choice, m.run.seed) == (*choice, *seed);
        made.iter().any(same)
    };
    let jobs: Vec<(usize, u64)> = (0..choices.len())
        .flat_map(|c| seeds.iter().map(move |s| (c, *s)))
        .filter(|job| !is_made(job))
        .collect();
    let finished = AtomicUsize::new(0);
    let mut runs = in_parallel(&jobs, |(choice, seed)| {
        let mut made = one(loaded, choices, *choice, *seed, None)?;
        shed(&mut made);
        progress(
            finished.fetch_add(1, Ordering::Relaxed),
            jobs.len(),
            &loaded.scenario.name,
            &choices[*choice],
            &made,
        );
        Ok(made)
    })?;
    runs.extend(made);
    runs.sort_by_key(|made| (made.choice, seeds.iter().position(|s| *s == made.run.seed)));
    Ok(Batch {
        scenario: loaded.scenario.clone(),
        choices: choices.to_vec(),
        runs,
    })
}

/// Does `job` for each item on all CPUs; results are in the order of the items.
///
/// # Errors
/// The first error by order of the items.
fn in_parallel<I: Sync, O: Send>(
    items: &[I],
    job: impl Fn(&I) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<O>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let done = job(item);
            if let Ok(mut slot) = slots[at].lock() {
                *slot = Some(done);
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 1..workers.min(items.len()) {
            scope.spawn(work);
        }
        work();
    });
    let taken = slots.into_iter().map(|slot| {
        let done = slot.into_inner().ok().flatten();
        done.context("a run was not made")?
    });
    taken.collect()
}

/// Makes one run, before a witness if there is one.
///
/// # Errors
/// As [`run`].
pub fn one(
    loaded: &Loaded,
    choices: &[Choice],
    choice: usize,
    seed: u64,
    witness: Option<&mut dyn Witness>,
) -> Result<Made> {
    let begun = Instant::now();
    let (scenario, variant) = (&loaded.scenario, &choices[choice].variant);
    let measures = match witness {
        Some(witness) => weir_sim::run_watched(scenario, variant, seed, witness),
        None => weir_sim::run(scenario, variant, seed),
    }
    .with_context(|| format!("scenario {}", scenario.name))?;
    let mut run = run_of(&measures, &choices[choice]);
    if run.shares.is_empty() {
        run.shares = shares_of(scenario, &measures);
    }
    run.missing.extend(reasons(&run.shares));
    Ok(Made {
        choice,
        run,
        took_sec: begun.elapsed().as_secs_f64(),
        measures,
    })
}

fn progress(number: usize, count: usize, scenario: &str, choice: &Choice, made: &Made) {
    let width = count.to_string().len();
    // A closed stderr is no trouble.
    let _ = writeln!(
        std::io::stderr(),
        "[{:>width$}/{count}] {scenario}: {}, seed {}: {:.0} s simulated in {:.2} s",
        number + 1,
        choice.label,
        made.run.seed,
        made.measures.simulated_sec,
        made.took_sec,
    );
}
