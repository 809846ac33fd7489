// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many instructions of its guest a question may take, some one and a half times what it was measured to
//! take. One that takes more has become dear: make it cheaper, or move it to `make soak`, before raising its
//! bound. A question of more than 60 s of CPU time belongs to the soak: some three milliard instructions
//! under the device model.

use anyhow::{Result, ensure};

const MILLION: u64 = 1_000_000;
/// The bound of most questions, in millions of instructions.
const USUAL: u64 = 4_000;

/// The bounds of other questions, in millions of instructions: the module, what is in the name of the
/// question, the bound.
const EXCEPTIONS: [(&str, &str, u64); 7] = [
    // Pages come to the device, and each time their owner is searched.
    ("tasks", "memory that moves", 4_600),
    ("driver", "its own script", 8_700),
    ("live", "two runs", 6_000),
    ("resize", "random resizes under load", 4_900),
    ("resize", "two hands on one block", 11_500),
    ("scx", "the statistics agree", 4_800),
    ("scx_stress", " tasks, ", 5_200),
];

/// Whether a question is within its bound. Those of the soak have none.
///
/// # Errors
/// It is not.
pub fn check(test: &str, question: &str, instructions: u64) -> Result<()> {
    if test.contains("::soak_") {
        return Ok(());
    }
    let module = test.split("::").next().unwrap_or_default();
    let is_its = |(of, part, _): &&(&str, &str, u64)| *of == module && question.contains(part);
    let bound = EXCEPTIONS.iter().find(is_its).map_or(USUAL, |row| row.2);
    ensure!(
        instructions <= bound * MILLION,
        "{test}, '{question}': over its budget: {} million instructions, {bound} million allowed (tests/vm/common/budgets.rs)",
        instructions / MILLION
    );
    Ok(())
}

/// A bound whose question has gone would go unnoticed.
#[test]
fn each_exception_is_of_a_question_that_is_put() {
    for (module, question, _) in EXCEPTIONS {
        let path = format!("{}/tests/vm/{module}.rs", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(source.contains(question), "{module}: {question}");
    }
}

#[test]
fn what_is_dear_fails_with_its_name() {
    assert!(check("a::b", "a question", USUAL * MILLION).is_ok());
    let why = check("a::b", "a question", USUAL * MILLION + 1)
        .unwrap_err()
        .to_string();
    assert!(why.contains("a::b") && why.contains("a question"), "{why}");
    assert!(check("a::soak_b", "a question", u64::MAX).is_ok());
}
