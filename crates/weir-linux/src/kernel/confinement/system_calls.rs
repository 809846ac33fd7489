// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Filters of system calls (seccomp(2)): a refused call fails with an error, as it would without the right to
//! it.

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;

/// System calls, each with what its arguments must be; without conditions whatever they are.
pub(super) type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Whatever their arguments.
pub(super) fn any(numbers: &[libc::c_long]) -> Calls {
    numbers.iter().map(|number| (*number, Vec::new())).collect()
}

/// Where this argument has these bits, of those in the mask.
pub(super) fn masked(argument: u8, mask: u64, bits: u64) -> Result<SeccompCondition, Error> {
    let operator = SeccompCmpOp::MaskedEq(mask);
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, bits);
    Ok(condition?)
}

/// A call where this argument has these bits.
pub(super) fn where_masked(argument: u8, mask: u64, bits: u64) -> Result<Vec<SeccompRule>, Error> {
    Ok(vec![SeccompRule::new(vec![masked(argument, mask, bits)?])?])
}

/// A call where this argument is one of these.
pub(super) fn where_one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, Error> {
    let mut rules = Vec::new();
    for value in values {
        rules.push(SeccompRule::new(vec![masked(
            argument,
            u64::from(u32::MAX),
            *value,
        )?])?);
    }
    Ok(rules)
}

/// Lets through what is named, and refuses the rest with EPERM.
pub(super) fn allow(calls: Calls) -> Result<(), Error> {
    let program = program(calls, SeccompAction::Errno(EPERM), SeccompAction::Allow)?;
    apply_filter(&program)
}

/// Refuses what is named with this error, and lets through the rest.
pub(super) fn refuse(calls: Calls, errno: i32) -> Result<(), Error> {
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    apply_filter(&program(calls, SeccompAction::Allow, refusal)?)
}

/// The same with EPERM, also of threads that are there.
pub(super) fn refuse_all_threads(calls: Calls) -> Result<(), Error> {
    let program = program(calls, SeccompAction::Allow, SeccompAction::Errno(EPERM))?;
    apply_filter_all_threads(&program)
}

const EPERM: u32 = libc::EPERM.unsigned_abs();

fn program(calls: Calls, others: SeccompAction, named: SeccompAction) -> Result<BpfProgram, Error> {
    let filter = SeccompFilter::new(calls, others, named, ARCH.try_into()?)?;
    Ok(BpfProgram::try_from(filter)?)
}
