// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A division never cuts for nothing: on made-up machines, and on few by hand.

use crate::parts::{decision, group, near};
use crate::plant::Dice;
use crate::steady::{Bench, SET_POINT, steady};
use weir_core::policy::{Demand, Policy, split};
use weir_core::{BytesPerSec, Plan};

/// What the smoothing of demands leaves after the ticks of [`plan_for`].
const CLOSE: f64 = 1e-3;
/// The same of the largest demands, which are taken off what small shares are made of.
const CLOSE_BYTES: f64 = 1e-4 * SET_POINT;

const IDS: [&str; 8] = ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"];

#[derive(Clone, Copy, Debug)]
struct User {
    rate: f64,
    weight: f64,
    is_excluded: bool,
}

fn plan_for(policy: Policy, users: &[User], unowned: f64) -> Plan {
    let own = |i: usize| group(0, i as u32);
    let mut rates: Vec<_> = users
        .iter()
        .enumerate()
        .map(|(i, u)| (own(i), u.rate))
        .collect();
    rates.push((own(users.len()), unowned));
    let workload = |(i, user): (usize, &User)| {
        let mut one = steady(IDS[i], 0.5, &[own(i)]);
        (one.weight, one.excluded) = (user.weight, user.is_excluded);
        one
    };
    let workloads = users.iter().enumerate().map(workload).collect();
    let mut bench = Bench::new(&rates, workloads).by(policy).uncorrected();
    bench.config.limit = false;
    bench.ticks(40)
}

/// The fair share of each user of the whole set-point, by the order of demand ÷ weight.
fn fair_shares(users: &[User], unowned: f64) -> Vec<f64> {
    let all = users.iter().map(|user| (user.rate, user.weight));
    let all: Vec<(f64, f64)> = all.chain([(unowned, 100.0)]).collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| (all[*a].0 / all[*a].1).total_cmp(&(all[*b].0 / all[*b].1)));
    let (mut left, mut given) = (SET_POINT, vec![0.0; all.len()]);
    for (place, i) in order.iter().enumerate() {
        let weights: f64 = order[place..].iter().map(|i| all[*i].1).sum();
        given[*i] = all[*i].0.min(left * all[*i].1 / weights);
        left -= given[*i];
    }
    given
}

/// What each user keeps: its demand up to its fair share; of those above it, no less than half of that, so
/// that the set-point is held where it can be.
fn kept_shares(users: &[User], unowned: f64) -> Vec<f64> {
    let mut shares = fair_shares(users, unowned);
    let is_claim = |user: &User| !user.is_excluded && user.rate >= 0.001 * SET_POINT;
    let (mut fair, mut left) = (0.0, SET_POINT - unowned);
    for (user, share) in users.iter().zip(&shares) {
        if is_claim(user) && user.rate > *share {
            fair += share
        } else {
            left -= user.rate
        }
    }
    let left = left.max(0.0);
    for (user, share) in users.iter().zip(&mut shares) {
        if is_claim(user) && user.rate > *share {
            *share *= (left.max(fair - left) / fair).min(1.0);
        }
    }
    shares
}

/// On each machine: a workload is allowed its demand up to its fair share of the whole set-point, whatever
/// is not limited beside it, and one above that no less than half of its share; the sum is the set-point
/// where that is possible; where it is not, it is said, and limits that remove less than half of the overload
/// are not set.
#[test]
fn what_is_not_limited_is_taken_off_the_goal_and_not_off_the_small() {
    let mut dice = Dice::new(41);
    let (mut unenforceable, mut given_back) = (0, 0);
    for _ in 0..20_000 {
        let count = 1 + (dice.next() % IDS.len() as u64) as usize;
        let mut user = || User {
            rate: SET_POINT * 10f64.powf(dice.unit() * 3.0 - 2.3),
            weight: [10.0, 100.0, 100.0, 100.0, 700.0][(dice.next() % 5) as usize],
            is_excluded: dice.next().is_multiple_of(3),
        };
        let users: Vec<User> = (0..count).map(|_| user()).collect();
        let unowned = [0.0, 0.02, 0.3, 1.5][(dice.next() % 4) as usize] * SET_POINT;
        let plan = plan_for(Policy::MaxMin, &users, unowned);
        let shares = kept_shares(&users, unowned);
        let (mut kept, mut allowed, mut gain) = (0.0, 0.0, 0.0);
        let mut unlimited = unowned;
        for ((id, user), share) in IDS.iter().zip(&users).zip(&shares) {
            let part = decision(&plan, id).allowed_bytes_per_sec;
            let Some(part) = part.map(BytesPerSec::get) else {
                assert!(
                    user.is_excluded || user.rate < 0.011 * SET_POINT,
                    "{user:?}"
                );
                unlimited += user.rate;
                continue;
            };
            assert!(
                part + CLOSE_BYTES >= share * (1.0 - CLOSE),
                "{part} of {share}: {user:?} among {users:?}"
            );
            assert!(part <= user.rate * (1.0 + CLOSE), "{part}: {user:?}");
            (kept, allowed) = (kept + share, allowed + part);
            gain += user.rate - share;
        }
        let excess = kept + unlimited - SET_POINT;
        let said = plan.devices[0].unenforceable.as_ref();
        if excess > 0.011 * SET_POINT {
            unenforceable += 1;
            near(
                "unlimited",
                said.expect("said").unlimited_bytes_per_sec.get(),
                unlimited,
            );
            if excess >= gain * (1.0 + CLOSE) {
                given_back += usize::from(gain > 0.0);
                near("all is given back", allowed, kept + gain);
            } else if 2.0 * excess <= gain {
                near("none is given back", allowed, kept);
            }
        } else if excess < 0.009 * SET_POINT {
            assert_eq!(said, None, "{users:?} {unowned}");
            let demanded = kept + gain + unlimited;
            near(
                "the sum",
                allowed + unlimited,
                demanded.min(SET_POINT.max(kept + unlimited)),
            );
        }
    }
    assert!(
        unenforceable > 2000 && given_back > 200,
        "{unenforceable}, {given_back}"
    );
}

/// Under each policy, traffic that is not limited takes nothing from those below their fair share that the
/// policy alone would leave them.
#[test]
fn no_policy_lets_the_small_pay_for_what_is_not_limited() {
    let mut dice = Dice::new(30);
    for round in 0..4_000 {
        let policy = Policy::ALL[round % Policy::ALL.len()];
        let count = 2 + (dice.next() % 6) as usize;
        let mut users: Vec<User> = (0..count)
            .map(|_| User {
                rate: SET_POINT * 10f64.powf(dice.unit() * 2.0 - 1.5),
                weight: 100.0,
                is_excluded: false,
            })
            .collect();
        users[0].is_excluded = true;
        let plan = plan_for(policy, &users, 0.0);
        let demand = |user: &User| Demand {
            bytes_per_sec: BytesPerSec::new(user.rate),
            weight: user.weight,
        };
        let demands: Vec<Demand> = users[1..].iter().map(demand).collect();
        let alone = split(&demands, BytesPerSec::new(SET_POINT));
        let shares = fair_shares(&users, 0.0);
        for (i, (alone, share)) in alone.iter().zip(&shares[1..]).enumerate() {
            let part = decision(&plan, IDS[i + 1]).allowed_bytes_per_sec;
            let part = part.expect("a claim").get();
            let half = if users[i + 1].rate > *share { 0.5 } else { 1.0 };
            let least = alone.get().min(share * half);
            assert!(
                part >= least * (1.0 - CLOSE),
                "{policy}: {part} of {least}, {users:?}"
            );
        }
    }
}

#[test]
fn the_reason_why_a_set_point_cannot_be_held_is_the_largest_that_is_not_limited() {
    let user = |rate: f64, is_excluded| User {
        rate: rate * SET_POINT,
        weight: 100.0,
        is_excluded,
    };
    let users = [user(1.9, true), user(0.4, true), user(0.1, false)];
    for policy in Policy::ALL {
        let plan = plan_for(policy, &users, 0.2 * SET_POINT);
        let said = plan.devices[0].unenforceable.as_ref().expect("said");
        near("all", said.unlimited_bytes_per_sec.get(), 2.5e6);
        assert_eq!(
            said.largest.workload.as_ref().map(|id| id.as_str()),
            Some("/a")
        );
        near("largest", said.largest.bytes_per_sec.get(), 1.9e6);
        let small = decision(&plan, "/c")
            .allowed_bytes_per_sec
            .expect("a claim");
        near("the small one keeps", small.get(), 1e5);
    }
    let plan = plan_for(Policy::MaxMin, &users[1..], 1.5 * SET_POINT);
    let said = plan.devices[0].unenforceable.as_ref().expect("said");
    assert_eq!(said.largest.workload, None, "traffic of no workload");
}
