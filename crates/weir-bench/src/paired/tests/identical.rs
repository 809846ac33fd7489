// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pairs that are the same twice, measured on the machine that runs the test: what is found is wrong.

use crate::kernels::Operation;
use crate::paired::{Pair, effect, verdicts};
use crate::streams::{MemoryPlan, MemoryStream, Part, measure};
use crate::{BenchError, cpu};
use std::time::Duration;
use weir_core::random::SplitMix;

const PAIRS: usize = 200;
/// Rounds: as many as [`crate::paired::is_enough`] asks for.
const ROUNDS: usize = 7;
const WARM: Duration = Duration::from_millis(10);
const SPAN: Duration = Duration::from_millis(40);
/// A measurement in which others had more of our CPU is made again, at most twice.
const RUN_RATIO_MIN: f64 = 0.97;

/// Lines in a nanosecond.
fn rate(stream: &mut MemoryStream) -> Result<f64, BenchError> {
    let mut last = f64::NAN;
    for _ in 0..3 {
        let mut parts = [Part { stream, cpus: 1 }];
        let counts = measure(&mut parts, WARM, SPAN, &|| false)?;
        let count = counts.ok_or(BenchError::Stopped)?[0];
        last = count.count as f64 / count.span_ns as f64;
        if count.run_ratio.is_none_or(|ratio| ratio >= RUN_RATIO_MIN) {
            break;
        }
    }
    Ok(last)
}

/// `cargo test --release -p weir-bench --lib identical -- --ignored --nocapture`
#[test]
#[ignore = "measures for three minutes; other load makes it fail"]
fn identical_pairs_do_not_interfere() {
    let mut stream = MemoryStream::prepare(MemoryPlan {
        kernel: Operation::Ld.kernel(None).unwrap(),
        cpus: vec![cpu::allowed().unwrap()[0]],
        node: 0,
        other_node: 0,
        thread_bytes: 128 << 20,
        seed: 1,
    })
    .unwrap();
    let mut random = SplitMix::new(1);
    let mut cells: Vec<Vec<Pair>> = vec![Vec::new(); PAIRS];
    for _ in 0..ROUNDS {
        for cell in &mut cells {
            let (one, other) = (rate(&mut stream).unwrap(), rate(&mut stream).unwrap());
            // Which of both was first is random, as in a repetition.
            cell.push(if random.below(2) == 0 {
                (one, other)
            } else {
                (other, one)
            });
        }
    }
    let found = verdicts(&cells);
    let count = |is: &dyn Fn(usize) -> bool| (0..PAIRS).filter(|i| is(*i)).count();
    let interferes = count(&|i| found[i].interferes == Some(true));
    let none = count(&|i| found[i].interferes == Some(false));
    let excluding = count(&|i| effect(&cells[i]).is_some_and(|e| e.excludes_one()));
    let beyond =
        count(&|i| effect(&cells[i]).is_some_and(|e| e.excludes_one() && !e.is_equivalent()));
    println!(
        "of {PAIRS} identical pairs {interferes} interfere, {none} have no influence; {excluding} intervals exclude 1, \
         {beyond} of them are not within 5 % of it"
    );
    assert!(20 * interferes <= PAIRS, "{interferes} of {PAIRS}");
}
