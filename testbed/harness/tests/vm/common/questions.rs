// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions put to a guest, and what each of them costs: a row in `guest-cost.tsv` of the build's folder,
//! and a bound on instructions, which are equal from run to run on any host.

use super::budgets;
use anyhow::{Context, Result, anyhow, ensure};
use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use weir_testbed::vm::cost::Cost;

/// What guests do between two questions is a row too if they do this much.
const WORTH_A_ROW: u64 = 1_000_000;

thread_local! {
    /// What this test had spent when its last question was answered.
    static ANSWERED: Cell<Cost> = const { Cell::new(Cost { cpu_sec: 0.0, guest: Duration::ZERO, instructions: 0 }) };
}

/// Questions put to one guest; one that fails does not hide the next. With `WEIR_VM_ASK=part of a
/// name` only some are put.
#[derive(Default)]
pub struct Questions {
    count: usize,
    failed: Vec<String>,
}

impl Questions {
    pub fn ask(&mut self, name: &str, question: impl FnOnce() -> Result<()>) {
        if std::env::var("WEIR_VM_ASK").is_ok_and(|part| !name.contains(&part)) {
            return println!("left out - {name}");
        }
        self.count += 1;
        let test = test_name();
        let begun = Cost::so_far();
        let before = begun.since(ANSWERED.get());
        if before.instructions >= WORTH_A_ROW {
            report(&test, "(before it)", before);
        }
        let answer = catch_unwind(AssertUnwindSafe(question));
        let ended = Cost::so_far();
        ANSWERED.set(ended);
        let cost = ended.since(begun);
        report(&test, name, cost);
        let answer = answer.unwrap_or_else(|_| Err(anyhow!("it panicked")));
        match answer.and_then(|()| budgets::check(&test, name, cost.instructions)) {
            Ok(()) => println!("ok - {name}"),
            Err(why) => {
                println!("not ok - {name}\n{why:#}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// The verdict.
    ///
    /// # Errors
    /// One failed: with its name.
    pub fn done(self) -> Result<()> {
        ensure!(self.count > 0, "no question was put");
        ensure!(self.failed.is_empty(), "failed: {}", self.failed.join("; "));
        Ok(())
    }
}

/// A test of one question.
///
/// # Errors
/// The answer is no, or it was dear.
pub fn ask_one(name: &str, question: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut questions = Questions::default();
    questions.ask(name, question);
    questions.done()
}

/// The test that runs, as `module::function`: the test runner calls its threads so.
fn test_name() -> String {
    std::thread::current().name().unwrap_or("?").to_owned()
}

/// Prints what a question has cost, and adds it to the table. CPU time is the host's, and is not asserted.
fn report(test: &str, question: &str, cost: Cost) {
    let Cost {
        cpu_sec,
        guest,
        instructions,
    } = cost;
    let guest = guest.as_secs_f64();
    let million = instructions / 1_000_000;
    println!(
        "cost - {question}: {cpu_sec:.1} s of CPU time, {guest:.1} s of the guest's, {million} million instructions"
    );
    let row = format!("{test}\t{question}\t{cpu_sec:.2}\t{guest:.3}\t{instructions}\n");
    if let Err(why) = add_row(&row) {
        println!("no row in guest-cost.tsv: {why:#}");
    }
}

/// One write: rows of tests that run at once do not mix.
fn add_row(row: &str) -> Result<()> {
    let program = std::env::current_exe()?;
    // target/PROFILE/deps/program
    let target = program.ancestors().nth(3).context("no target folder")?;
    let mut options = std::fs::File::options();
    let mut file = options
        .create(true)
        .append(true)
        .open(target.join("guest-cost.tsv"))?;
    Ok(file.write_all(row.as_bytes())?)
}
