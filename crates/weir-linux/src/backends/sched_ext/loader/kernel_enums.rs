// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers the scheduler was compiled with, against those of the running kernel. Places of members move
//! by themselves when it is loaded. A number does not: a kernel with another value would do something else
//! than weir means.

use crate::kernel::skeletons::sched;
use libbpf_rs::btf::{Btf, types};

/// Enumeration, name, and value as in `bpf/include/vmlinux_min.h`.
macro_rules! numbers {
    ($($of:ident: $($name:ident),+;)+) => {
        &[$($((stringify!($of), stringify!($name), sched::$name)),+),+]
    };
}

const NUMBERS: &[(&str, &str, u64)] = numbers![
    scx_ops_flags: SCX_OPS_ENQ_LAST, SCX_OPS_SWITCH_PARTIAL, SCX_OPS_ENQ_MIGRATION_DISABLED;
    scx_ent_flags: SCX_TASK_QUEUED;
    scx_enq_flags: SCX_ENQ_WAKEUP, SCX_ENQ_PREEMPT, SCX_ENQ_REENQ, SCX_ENQ_LAST;
    scx_kick_flags: SCX_KICK_IDLE, SCX_KICK_PREEMPT;
    scx_dsq_iter_flags: SCX_DSQ_ITER_REV;
    scx_dsq_id_flags: SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL, SCX_DSQ_LOCAL_ON;
];

/// The first number that is another one in this kernel: its name, weir's value and the kernel's.
pub(super) fn difference(btf: &Btf<'_>) -> Option<(&'static str, u64, Option<u64>)> {
    let differs = |(of, name, ours): &(&str, &'static str, u64)| {
        let theirs = value(btf, of, name);
        (theirs != Some(*ours)).then_some((*name, *ours, theirs))
    };
    NUMBERS.iter().find_map(differs)
}

fn value(btf: &Btf<'_>, of: &str, name: &str) -> Option<u64> {
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "bits are meant"
    )]
    let bits = |value: i128| value as u64;
    if let Some(wide) = btf.type_by_name::<types::Enum64<'_>>(of) {
        let found = wide.iter().find(|m| m.name.is_some_and(|n| n == name))?;
        return Some(bits(found.value));
    }
    let narrow = btf.type_by_name::<types::Enum<'_>>(of)?;
    let found = narrow.iter().find(|m| m.name.is_some_and(|n| n == name))?;
    Some(bits(i128::from(found.value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../../../../bpf/include/vmlinux_min.h");

    #[test]
    fn all_numbers_of_the_header_are_compared() {
        let defined = HEADER
            .lines()
            .filter_map(|l| l.strip_prefix("#define "))
            .filter(|l| l.starts_with("SCX_"))
            .filter_map(|l| l.split_once('\t'));
        let mut defined: Vec<&str> = defined.map(|(name, _)| name).collect();
        let mut compared: Vec<&str> = NUMBERS.iter().map(|(_, name, _)| *name).collect();
        defined.sort_unstable();
        compared.sort_unstable();
        assert_eq!(compared, defined);
    }
}
