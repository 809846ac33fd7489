// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines are hashed over the boxes of a socket, so that all boxes hold as many requests. Where one holds far
//! more, a line is fought for, and boxes do not stand for each other: no figure is made of their sum.

use super::lanes::CountingLane;
use super::sums::LaneSums;
use weir_core::window::role::Quantity;
use weir_core::window::{Count, CountScope};
use weir_core::{Missing, Role};

/// A box above so many times the median is hot.
const HOT_RATIO: f64 = 3.0;
/// Boxes below which there is no median to speak of.
const BOXES_MIN: usize = 3;
/// Counts of the median box below which scatter looks hot.
const COUNT_MIN: f64 = 10_000.0;

/// Takes the counts of occupancies away of which one box has far too much. `boxes` have counted since the
/// recording began.
pub(super) fn refuse_hot(counts: &mut [Count], lane: &CountingLane, boxes: &[&LaneSums]) {
    if boxes.len() < BOXES_MIN {
        return;
    }
    let of_boxes = boxes.iter().map(|sums| sums.counts(lane, CountScope::All));
    let of_boxes: Vec<Vec<Count>> = of_boxes.collect();
    let occupancies = counts
        .iter_mut()
        .filter(|count| count.role.quantity == Quantity::Occupancy && count.value.is_ok());
    for count in occupancies {
        if let Some(ratio) = hottest(count.role, &of_boxes) {
            count.value = Err(Missing::Lost(format!(
                "one box holds {ratio:.1} times as many requests as the median: a line that all want"
            )));
        }
    }
}

/// The largest box ÷ the median, where that is hot.
fn hottest(role: Role, boxes: &[Vec<Count>]) -> Option<f64> {
    let of_box = |counts: &Vec<Count>| {
        let count = counts.iter().find(|count| count.role == role)?;
        let value = count.value.as_ref().ok()?;
        (count.running_ns.0 > 0).then_some(*value as f64)
    };
    let mut values: Vec<f64> = boxes.iter().filter_map(of_box).collect();
    values.sort_unstable_by(f64::total_cmp);
    let (median, largest) = (values.get(values.len() / 2)?, values.last()?);
    let is_hot = values.len() >= BOXES_MIN && *median >= COUNT_MIN && *largest > HOT_RATIO * median;
    is_hot.then(|| largest / median)
}
