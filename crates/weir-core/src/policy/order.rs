// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Orders of numbers by comparisons of integers. Thousands of workloads are sorted at each step, and a
//! comparison of integers takes no branch.

/// An integer that stands to that of another number as [`f64::total_cmp`] has it of the two.
pub(crate) fn in_order(number: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    let bits = number.to_bits();
    match bits & SIGN {
        0 => bits | SIGN,
        _ => !bits,
    }
}

/// Positions by ascending key, equal ones in their own order.
pub(crate) fn positions_by(keys: impl Iterator<Item = u64>) -> Vec<usize> {
    let keyed = keys.zip(0u64..);
    let mut keyed: Vec<u128> = keyed
        .map(|(key, position)| u128::from(key) << 64 | u128::from(position))
        .collect();
    keyed.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the lower half is the position"
    )]
    let positions = keyed.into_iter().map(|key| key as u64 as usize);
    positions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ODD: [f64; 8] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
    ];

    fn compared(numbers: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        order
    }

    #[test]
    fn odd_numbers_have_their_places() {
        assert_eq!(positions_by(ODD.into_iter().map(in_order)), compared(&ODD));
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_total_cmp(
            numbers in prop::collection::vec(prop_oneof![any::<f64>(), prop::sample::select(&ODD[..])], 0..60)
        ) {
            let up = positions_by(numbers.iter().map(|n| in_order(*n)));
            prop_assert_eq!(up, compared(&numbers));
            let down = positions_by(numbers.iter().map(|n| !in_order(n.abs())));
            let mut wanted: Vec<usize> = (0..numbers.len()).collect();
            wanted.sort_by(|a, b| numbers[*b].abs().total_cmp(&numbers[*a].abs()).then(a.cmp(b)));
            prop_assert_eq!(down, wanted);
        }
    }
}
