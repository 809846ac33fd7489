// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithm 2, PFEstimator: stalls of a CXL device, handed back towards the cores. Each stage takes its part
//! of the stalls behind it, by requests, and adds its own on the way:
//!
//! ```text
//! S(j) += S(i) · N(i→j) ÷ Σ_j N(i→j)        device → port → uncore → CHA
//! ```
//!
//! As printed, lines 18 and 27 say `=`: of several parts behind it a part keeps the last one's stalls. Line
//! 25 runs over the uncores where CHAs are meant. What mending cannot mend: the cycles belong to five clocks,
//! a buffer that is not empty is busy and nothing need wait, and the queues of DRAM are not on the way to a
//! CXL device.

use serde::Serialize;

/// A step from a stage to the one before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Requests: of each part behind (row) from each part before (column).
    pub requests: Vec<Vec<f64>>,
    /// Own stalls of the parts before.
    pub own: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Edition {
    /// With `+=`, over all parts.
    Mended,
    /// With `=`, and with the last loop over the wrong set.
    Printed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HandedBack {
    /// Stalls of each part, a stage a row: the first stage as given, then one row a step.
    pub stalls: Vec<Vec<f64>>,
    /// Stalls that no request says the way of. They stay where they are.
    pub stuck: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstimatorError {
    /// A step does not fit the one behind it.
    #[error(
        "step {0}: a row of requests for each part behind it, a column for each own stall is wanted"
    )]
    Shape(usize),
    /// A number that is no amount.
    #[error("step {0}: stalls and requests are finite and not below 0")]
    Amount(usize),
}

/// Hands stalls back, from the device to the last step.
///
/// # Errors
/// The steps do not fit each other, or a number is no amount.
pub fn hand_back(
    device: &[f64],
    steps: &[Step],
    rule: Edition,
) -> Result<HandedBack, EstimatorError> {
    let is_amount = |value: &f64| value.is_finite() && *value >= 0.0;
    if !device.iter().all(is_amount) {
        return Err(EstimatorError::Amount(0));
    }
    let mut stalls = vec![device.to_vec()];
    let mut stuck = 0.0;
    for (place, step) in steps.iter().enumerate() {
        let behind = stalls.last().cloned().unwrap_or_default();
        let is_row = |row: &Vec<f64>| row.len() == step.own.len();
        if step.requests.len() != behind.len() || !step.requests.iter().all(is_row) {
            return Err(EstimatorError::Shape(place + 1));
        }
        if !step
            .requests
            .iter()
            .flatten()
            .chain(&step.own)
            .all(is_amount)
        {
            return Err(EstimatorError::Amount(place + 1));
        }
        // Line 25: as many parts of the last stage as the stage behind it has.
        let is_last = place + 1 == steps.len() && place > 0;
        let reached = match rule {
            Edition::Printed if is_last => behind.len().min(step.own.len()),
            _ => step.own.len(),
        };
        let mut before = vec![0.0; step.own.len()];
        for (stall, row) in behind.iter().zip(&step.requests) {
            let all: f64 = row.iter().sum();
            if all <= 0.0 {
                stuck += stall;
                continue;
            }
            for (part, requests) in before.iter_mut().zip(row).take(reached) {
                let handed = stall * requests / all;
                *part = match rule {
                    Edition::Mended => *part + handed,
                    Edition::Printed => handed,
                };
            }
        }
        // Own stalls come after: lines 12 and 21 add them when the next step begins.
        before
            .iter_mut()
            .zip(&step.own)
            .for_each(|(part, own)| *part += own);
        stalls.push(before);
    }
    Ok(HandedBack { stalls, stuck })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two_ports() -> Vec<Step> {
        vec![
            Step {
                requests: vec![vec![30.0, 10.0]],
                own: vec![5.0, 5.0],
            },
            Step {
                requests: vec![vec![20.0, 20.0], vec![10.0, 30.0]],
                own: vec![0.0, 0.0],
            },
            Step {
                requests: vec![vec![1.0, 1.0, 2.0], vec![1.0, 1.0, 2.0]],
                own: vec![0.0, 0.0, 0.0],
            },
        ]
    }

    #[test]
    fn stalls_go_by_requests() {
        let back = hand_back(&[100.0], &two_ports(), Edition::Mended).unwrap();
        assert_eq!(back.stalls[1], [80.0, 30.0]);
        assert_eq!(back.stalls[2], [47.5, 62.5]);
        assert_eq!(back.stalls[3], [27.5, 27.5, 55.0]);
        assert_eq!(back.stuck, 0.0);
    }

    /// The printed algorithm keeps the last port's part only, and of three CHAs reaches two.
    #[test]
    fn as_printed_all_but_the_last_part_is_lost() {
        let back = hand_back(&[100.0], &two_ports(), Edition::Printed).unwrap();
        assert_eq!(
            back.stalls[1],
            [80.0, 30.0],
            "one device: nothing to overwrite"
        );
        assert_eq!(
            back.stalls[2],
            [7.5, 22.5],
            "the second port's 30; the first's 80 are gone"
        );
        assert_eq!(
            back.stalls[3],
            [5.625, 5.625, 0.0],
            "and the third CHA gets nothing"
        );
        let lost: f64 = 110.0 - back.stalls[2].iter().sum::<f64>();
        assert_eq!(lost, 80.0);
    }

    #[test]
    fn what_has_no_request_stays() {
        let step = Step {
            requests: vec![vec![0.0], vec![4.0]],
            own: vec![1.0],
        };
        let back = hand_back(&[7.0, 2.0], &[step], Edition::Mended).unwrap();
        assert_eq!((back.stalls[1][0], back.stuck), (3.0, 7.0));
        let odd = Step {
            requests: vec![vec![1.0]],
            own: vec![1.0],
        };
        assert_eq!(
            hand_back(&[1.0, 2.0], std::slice::from_ref(&odd), Edition::Mended),
            Err(EstimatorError::Shape(1))
        );
        assert_eq!(
            hand_back(&[f64::NAN], &[odd], Edition::Mended),
            Err(EstimatorError::Amount(0))
        );
    }

    fn any_steps() -> impl Strategy<Value = (Vec<f64>, Vec<Step>)> {
        let stages = prop::collection::vec(1usize..5, 2..5);
        stages.prop_flat_map(|sizes| {
            let amounts = |n| prop::collection::vec(0.0..1e6f64, n);
            let steps: Vec<_> = sizes
                .windows(2)
                .map(|pair| {
                    let rows = prop::collection::vec(amounts(pair[1]), pair[0]);
                    (rows, amounts(pair[1])).prop_map(|(requests, own)| Step { requests, own })
                })
                .collect();
            (amounts(sizes[0]), steps)
        })
    }

    proptest! {
        /// Mended, it conserves what it distributes.
        #[test]
        fn mended_it_conserves((device, steps) in any_steps()) {
            let back = hand_back(&device, &steps, Edition::Mended).unwrap();
            let given: f64 = device.iter().sum::<f64>()
                + steps.iter().flat_map(|step| &step.own).sum::<f64>();
            let kept: f64 = back.stalls.last().unwrap().iter().sum::<f64>() + back.stuck;
            prop_assert!((given - kept).abs() <= 1e-9 * given.max(1.0), "{} {}", given, kept);
            prop_assert!(back.stalls.iter().flatten().all(|stall| *stall >= 0.0));
        }

        /// Printed, it never hands back more, and less as soon as a stage has two parts behind it.
        #[test]
        fn printed_it_loses((device, steps) in any_steps()) {
            let sum = |rule| {
                let back = hand_back(&device, &steps, rule).unwrap();
                back.stalls.last().unwrap().iter().sum::<f64>()
            };
            prop_assert!(sum(Edition::Printed) <= sum(Edition::Mended) * (1.0 + 1e-9));
        }
    }
}
