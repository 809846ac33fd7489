// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers the scheduler was compiled with, against those of the running kernel. Places of members move
//! by themselves when it is loaded. A number does not: a kernel with another value would do something else
//! than weir means.

use libbpf_rs::btf::{Btf, types};

/// Enumeration, name, and value as in `bpf/include/vmlinux_min.h`.
const NUMBERS: &[(&str, &str, u64)] = &[
    ("scx_ops_flags", "SCX_OPS_ENQ_LAST", 1 << 1),
    ("scx_ops_flags", "SCX_OPS_SWITCH_PARTIAL", 1 << 3),
    ("scx_ops_flags", "SCX_OPS_ENQ_MIGRATION_DISABLED", 1 << 4),
    ("scx_ent_flags", "SCX_TASK_QUEUED", 1 << 0),
    ("scx_enq_flags", "SCX_ENQ_WAKEUP", 1 << 0),
    ("scx_enq_flags", "SCX_ENQ_PREEMPT", 1 << 32),
    ("scx_enq_flags", "SCX_ENQ_REENQ", 1 << 40),
    ("scx_enq_flags", "SCX_ENQ_LAST", 1 << 41),
    ("scx_kick_flags", "SCX_KICK_IDLE", 1 << 0),
    ("scx_kick_flags", "SCX_KICK_PREEMPT", 1 << 1),
    ("scx_dsq_iter_flags", "SCX_DSQ_ITER_REV", 1 << 16),
    ("scx_dsq_id_flags", "SCX_DSQ_GLOBAL", 1 << 63 | 1),
    ("scx_dsq_id_flags", "SCX_DSQ_LOCAL", 1 << 63 | 2),
    ("scx_dsq_id_flags", "SCX_DSQ_LOCAL_ON", 1 << 63 | 1 << 62),
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

    const HEADER: &str = include_str!("../../../../../bpf/include/vmlinux_min.h");

    /// `(1ULL << 63 | 2)`, `(1U << 0)`.
    fn evaluate(text: &str) -> u64 {
        let bare = text
            .trim()
            .trim_matches(['(', ')'])
            .replace("ULL", "")
            .replace('U', "");
        let term = |term: &str| match term.split_once("<<") {
            Some((one, by)) => {
                one.trim().parse::<u64>().unwrap() << by.trim().parse::<u32>().unwrap()
            }
            None => term.trim().parse().unwrap(),
        };
        bare.split('|').map(term).fold(0, |all, bits| all | bits)
    }

    #[test]
    fn all_numbers_of_the_header_are_compared() {
        let defined: Vec<(&str, u64)> = HEADER
            .lines()
            .filter_map(|l| l.strip_prefix("#define "))
            .filter(|l| l.starts_with("SCX_"))
            .filter_map(|l| l.split_once('\t'))
            .map(|(name, value)| (name, evaluate(value)))
            .collect();
        let mut compared: Vec<_> = NUMBERS
            .iter()
            .map(|(_, name, value)| (*name, *value))
            .collect();
        let mut defined = defined;
        defined.sort_unstable();
        compared.sort_unstable();
        assert_eq!(compared, defined);
    }
}
