// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Owners of what devices count, on made-up machines. What moved is made first, and a part of it is shown to
//! the controller: each byte must have one owner or be unattributed, and no workload may have more than its
//! memory and its CPU time allow. What the figures must be is computed here from the machine, and not by the
//! code under test.

mod made_up;
mod shown;
mod unseen;

use crate::parts::decision;
use crate::plant::Dice;
use made_up::{CPU_BYTES_PER_SEC, Machine, TICK_SECS, Tick, out_of_caches};
use shown::Run;
use weir_core::rates::attribution::Provenance::{Counted, Unknown};
use weir_core::seam::plan::Decision;
use weir_core::{BytesPerSec, Plan};

/// Above this part of a group, pages that the kernel may have migrated make the rest no count.
const UNSURE_RATIO: f64 = 0.02;

#[derive(Debug, Default)]
struct Seen {
    by_truth: usize,
    counted: usize,
    unexplained: usize,
    unknown: usize,
    migrated: usize,
    by_device: usize,
}

/// Both within what floating-point numbers and whole bytes leave.
fn same(what: &str, got: f64, want: f64, machine: &Machine) {
    let error = (got - want).abs();
    assert!(
        error <= 1e-9 * want.abs() + 1e-3,
        "{what}: {got}, should be {want}: {machine:#?}"
    );
}

fn bytes(decision: &Decision) -> f64 {
    decision.bandwidth.bytes_per_sec.get()
}

fn sum<'a>(decisions: impl Iterator<Item = &'a Decision>) -> f64 {
    decisions.map(bytes).sum()
}

/// What a device counted in a second; nothing where a counter of it was lost.
fn counted(machine: &Machine, tick: &Tick, device: u32) -> Option<f64> {
    let groups = machine.groups_of(device);
    let each = groups.map(|g| (!machine.places[g].is_lost).then(|| tick.total(g) / TICK_SECS));
    each.sum()
}

/// Workloads and what is unattributed are what the devices counted: together, and by device where no workload
/// has memory on two.
fn the_sum_is_what_was_counted(machine: &Machine, tick: &Tick, plan: &Plan, seen: &mut Seen) {
    let mut of_none = Some(0.0);
    let mut all = Some(0.0);
    for device in &plan.devices {
        let want = counted(machine, tick, device.id.0);
        let unattributed = device.unattributed_bytes_per_sec.map(BytesPerSec::get);
        assert_eq!(unattributed.is_some(), want.is_some(), "{machine:#?}");
        of_none = of_none.zip(unattributed).map(|(sum, more)| sum + more);
        all = all.zip(want).map(|(sum, more)| sum + more);
        let (Some(want), Some(unattributed)) = (want, unattributed) else {
            continue;
        };
        let migrated = device.migrated_bytes_per_sec.map_or(0.0, BytesPerSec::get);
        let known: f64 = machine.groups_of(device.id.0).map(|g| tick.known[g]).sum();
        same("migrated", migrated, known / TICK_SECS, machine);
        assert!(
            migrated <= unattributed * (1.0 + 1e-9) + 1e-3,
            "{migrated} migrated, {unattributed} unattributed: {machine:#?}"
        );
        seen.migrated += usize::from(migrated > 0.0);
        if machine
            .users
            .iter()
            .all(|user| user.devices(machine).len() <= 1)
        {
            let is_here = |user: &made_up::User| user.devices(machine) == [device.id.0];
            let users = machine.users.iter().filter(|user| is_here(user));
            let owned = sum(users.map(|user| decision(plan, user.id)));
            same("a device", owned + unattributed, want, machine);
            seen.by_device += 1;
        }
    }
    let owned = sum(plan.workloads.iter());
    if let Some((of_none, all)) = of_none.zip(all) {
        same("all devices", owned + of_none, all, machine);
    }
    let there = machine
        .places
        .iter()
        .enumerate()
        .filter(|(_, p)| !p.is_lost);
    let most: f64 = there.map(|(g, _)| tick.total(g) / TICK_SECS).sum();
    assert!(owned <= most * (1.0 + 1e-9) + 1e-3, "{owned} of {most}");
}

/// Whether a workload's figure may be a count; nothing where that is too close to say.
fn may_be_counted(machine: &Machine, tick: &Tick, user: &made_up::User) -> Option<bool> {
    let mut own = 0.0;
    for (g, place) in machine
        .places
        .iter()
        .enumerate()
        .filter(|(g, _)| user.is_user(*g))
    {
        let others = machine
            .users
            .iter()
            .filter(|other| other.is_user(g))
            .count()
            > 1;
        if place.is_lost || others || place.unowned > 0 {
            return Some(false);
        }
        let (kernel, unsure) = (tick.kernel(g), UNSURE_RATIO * tick.total(g));
        if (kernel - unsure).abs() <= 1e-6 * unsure && unsure > 0.0 {
            return None;
        }
        if kernel > unsure {
            return Some(false);
        }
        let mean = tick.left_mean[g];
        match user.most(g) {
            most if (mean - most).abs() <= 1e-6 * most + 1e-3 && mean > 0.0 => return None,
            most if mean > most => return Some(false),
            _ => {}
        }
        own += tick.left(g);
    }
    let most = user.cpus() * CPU_BYTES_PER_SEC;
    let is_bound = !user.hides_cpu && !user.is_process;
    match is_bound && own > 0.0 {
        true if (own - most).abs() <= 1e-6 * most + 1e-3 => None,
        true => Some(own <= most),
        false => Some(true),
    }
}

/// The most that is left to a workload that has all its memory in one group and is alone there, where its CPU
/// time does not explain what was counted: beside it something has the same memory, the other CPUs, and as
/// much of their time as is not explained.
fn by_what_is_explained(machine: &Machine, tick: &Tick, user: &made_up::User) -> Option<f64> {
    let all = 0..machine.places.len();
    let mut there = all.filter(|g| user.is_user(*g));
    let (g, None) = (there.next()?, there.next()) else {
        return None;
    };
    let (mean, most) = (tick.left_mean[g], user.most(g));
    let is_shown = !machine.places[g].is_lost && !machine.has_samples && !user.hides_all;
    if !is_shown || !machine.is_alone(g) || mean <= most {
        return None;
    }
    let other = (made_up::CPUS - user.cpus()) * (1.0 - most / mean) * out_of_caches(user.here[g]);
    let own = user.weight(g);
    let part = if own > 0.0 { own / (own + other) } else { 0.0 };
    Some(tick.left(g) * part)
}

/// What one figure must be and must not be.
fn a_figure_is_possible(
    machine: &Machine,
    tick: &Tick,
    user: &made_up::User,
    found: &Decision,
    seen: &mut Seen,
) {
    let (bytes, provenance) = (bytes(found), found.bandwidth.provenance);
    let case = || format!("{}: {found:?}: {tick:#?} {machine:#?}", user.id);
    if !machine.has_samples && !user.is_process && !user.hides_cpu {
        let most = user.cpus() * CPU_BYTES_PER_SEC;
        assert!(bytes <= most * (1.0 + 1e-9), "beyond {most}: {}", case());
    }
    if let Some(most) = by_what_is_explained(machine, tick, user) {
        assert!(
            bytes <= most * (1.0 + 1e-9) + 1e-3,
            "it supports {most}: {}",
            case()
        );
        seen.unexplained += 1;
    }
    if user.devices(machine).is_empty() {
        assert_eq!(bytes, 0.0, "without memory there: {}", case());
    }
    if let Some(is_count) = may_be_counted(machine, tick, user) {
        assert_eq!(provenance == Counted, is_count, "{}", case());
        seen.counted += usize::from(is_count && bytes > 0.0);
    }
    let is_blind = |g: usize| {
        let is_its = user.hides_here || machine.is_blind(g);
        is_its && !machine.is_alone(g) && !machine.has_samples
    };
    let mut groups = (0..machine.places.len()).filter(|g| user.is_user(*g));
    if groups.any(|g| machine.places[g].is_lost || is_blind(g)) {
        assert_eq!(provenance, Unknown, "{}", case());
        seen.unknown += 1;
    }
    assert!(
        provenance != Unknown || found.traffic.is_none(),
        "{}",
        case()
    );
    if let Some(traffic) = &found.traffic {
        let ways = traffic.read.bytes_per_sec.get() + traffic.write.bytes_per_sec.get();
        same("both ways", ways, bytes, machine);
    }
    if machine.is_even() {
        let moved = tick.truth_of(user) / TICK_SECS;
        let most = moved * (1.0 + 1e-6) + 1e-7 * tick.all() / TICK_SECS + 200.0;
        assert!(bytes <= most, "it moved {moved}: {}", case());
        seen.by_truth += 1;
    }
}

#[test]
fn each_byte_has_one_owner_and_none_has_more_than_it_can_have_moved() {
    let mut dice = Dice::new(2026);
    let mut seen = Seen::default();
    for _ in 0..20_000 {
        let machine = Machine::new(&mut dice);
        let mut run = Run::new(&machine);
        let _ = run.tick(1.0);
        for _ in 0..2 {
            let (tick, plan) = run.tick(dice.unit());
            the_sum_is_what_was_counted(&machine, &tick, &plan, &mut seen);
            for user in machine.users.iter().filter(|user| user.is_listed()) {
                let found = decision(&plan, user.id);
                a_figure_is_possible(&machine, &tick, user, found, &mut seen);
            }
        }
    }
    let Seen {
        by_truth,
        counted,
        unexplained,
        unknown,
        migrated,
        by_device,
    } = seen;
    let least = [
        by_truth / 10,
        counted,
        3 * unexplained,
        unknown,
        migrated,
        by_device,
    ];
    assert!(least.iter().all(|cases| *cases >= 1000), "{seen:?}");
}
