// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which windows follow each other at one pace: seasons, forecasts and lags need that.

use weir_core::Window;

/// Part of a window's length by which times may be off.
const SLACK: u64 = 10;

/// Says for each window but the first whether the one before ends where it begins, and is as long. Windows
/// without times follow each other.
pub fn adjoining(windows: &[Window]) -> Vec<bool> {
    let pairs = windows.windows(2).map(|pair| {
        let [before, after] = pair else { return false };
        match (before.length(), after.length()) {
            (Some(one), Some(other)) => {
                let slack = one.0.max(other.0) / SLACK;
                let is_next = before.to.0.abs_diff(after.from.0) <= slack;
                is_next && one.0.abs_diff(other.0) <= slack
            }
            (None, None) => true,
            _ => false,
        }
    });
    pairs.collect()
}

/// Places at which time is missing between windows.
pub fn gaps(windows: &[Window]) -> usize {
    let missing = windows.windows(2).filter(|pair| match pair {
        [before, after] => {
            let length = before.length().map_or(0, |length| length.0);
            length > 0 && after.from.0.saturating_sub(before.to.0) > length / SLACK
        }
        _ => false,
    });
    missing.count()
}

/// The values of the last windows, as far back as all are known and follow each other, from `first` on.
pub fn last_run(values: &[Option<f64>], adjoining: &[bool], first: usize) -> Vec<f64> {
    let mut run = Vec::new();
    for (place, value) in values.iter().enumerate().skip(first).rev() {
        let Some(value) = value else { break };
        run.push(*value);
        let is_next = place
            .checked_sub(1)
            .and_then(|before| adjoining.get(before));
        if is_next != Some(&true) {
            break;
        }
    }
    run.reverse();
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::Nanos;

    fn windows(times: &[(u64, u64)]) -> Vec<Window> {
        let window = |(from, to): &(u64, u64)| Window {
            from: Nanos(*from),
            to: Nanos(*to),
            ..Window::default()
        };
        times.iter().map(window).collect()
    }

    #[test]
    fn gaps_and_other_lengths_end_a_run() {
        let all = windows(&[(0, 100), (100, 201), (300, 400), (400, 500), (500, 900)]);
        assert_eq!(adjoining(&all), [true, false, true, false]);
        assert_eq!(gaps(&all), 1);
        let values = [1.0, 2.0, 3.0, 4.0, 5.0].map(Some);
        assert_eq!(last_run(&values, &adjoining(&all), 0), [5.0]);
        assert_eq!(last_run(&values[..4], &adjoining(&all[..4]), 0), [3.0, 4.0]);
        assert_eq!(last_run(&values[..4], &adjoining(&all[..4]), 3), [4.0]);
        let absent = [Some(1.0), Some(2.0), None];
        assert!(last_run(&absent, &adjoining(&all[..3]), 0).is_empty());
        let timeless = windows(&[(7, 7), (9, 9)]);
        assert_eq!((adjoining(&timeless), gaps(&timeless)), (vec![true], 0));
    }
}
