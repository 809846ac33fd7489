// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deliveries alone: whether they come to an end from every state, and after how many.

use super::Exploration;
use super::state_table::StateTable;

/// Not looked at yet, on the way that is being followed, or the most deliveries from here on.
const UNKNOWN: u16 = u16::MAX;
const ON_THE_WAY: u16 = u16::MAX - 1;

/// The most deliveries until nothing is under way, over all states and all orders.
///
/// # Errors
/// The number of a state from which deliveries can follow each other for ever.
pub fn longest<const N: usize>(
    exploration: &Exploration<N>,
    table: &StateTable<N>,
) -> Result<u32, u32> {
    let mut lengths = vec![UNKNOWN; table.len() as usize];
    let mut most = 0;
    for start in 0..table.len() {
        if lengths[start as usize] == UNKNOWN {
            follow(exploration, table, &mut lengths, start)?;
        }
        most = most.max(u32::from(lengths[start as usize]));
    }
    Ok(most)
}

/// Depth first from one state, without recursion, since ways are as long as there are states. A state that is
/// met again while it is still on the way closes a circle of deliveries, which need never end.
fn follow<const N: usize>(
    exploration: &Exploration<N>,
    table: &StateTable<N>,
    lengths: &mut [u16],
    start: u32,
) -> Result<(), u32> {
    let mut way = vec![(start, successors(exploration, table, start), 0u16)];
    lengths[start as usize] = ON_THE_WAY;
    while let Some((state, left, longest)) = way.last_mut() {
        let Some(next) = left.pop() else {
            let (state, length) = (*state, *longest);
            lengths[state as usize] = length;
            way.pop();
            if let Some((_, _, longest)) = way.last_mut() {
                *longest = (*longest).max(length + 1);
            }
            continue;
        };
        match lengths[next as usize] {
            ON_THE_WAY => return Err(next),
            UNKNOWN => {
                lengths[next as usize] = ON_THE_WAY;
                way.push((next, successors(exploration, table, next), 0));
            }
            known => *longest = (*longest).max(known + 1),
        }
    }
    Ok(())
}

fn successors<const N: usize>(
    exploration: &Exploration<N>,
    table: &StateTable<N>,
    state: u32,
) -> Vec<u32> {
    let world = table.state(state);
    let deliveries = world.moves().filter(|step| step.is_delivery());
    let after = deliveries.filter_map(|step| world.after(step, exploration)?.ok());
    after.filter_map(|after| table.number(&after)).collect()
}
