// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting time: residence less that of the idle machine. Requests to several targets have one residence,
//! which changes with their mix though nothing waits: there the idle machine's is taken by target, in today's
//! mix.

use crate::counts::Counts;
use crate::figure::{Answer, Unit};
use crate::quality::{self, Refusal};
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Targets that one is made of, as the table of requests counts them.
fn parts_of(target: Target) -> &'static [Target] {
    const ALL: [Target; 5] = [
        Target::Own,
        Target::DramOwn,
        Target::DramRemote,
        Target::CxlOwn,
        Target::CxlRemote,
    ];
    match target {
        Target::Any => &ALL,
        Target::Miss => ALL.get(1..).unwrap_or(&[]),
        Target::Dram => ALL.get(1..3).unwrap_or(&[]),
        Target::Cxl => ALL.get(3..).unwrap_or(&[]),
        _ => &[],
    }
}

/// Requests without a known time on the idle machine may be this part of all.
const UNKNOWN_PART_MAX: f64 = 0.001;

/// Residence on the idle machine of requests like those of `counts`. `ns` is the residence in a recording.
pub(super) fn idle_ns(
    counts: &Counts,
    idle: &Counts,
    role: Role,
    ns: &dyn Fn(&Counts, Role) -> Answer,
) -> Answer {
    let parts = parts_of(role.target);
    match role.stage {
        Stage::Tor if parts.is_empty() => return table_idle_ns(idle, role, ns),
        // Cores count no residence by target.
        Stage::SuperQueue if !parts.is_empty() => return Err(Refusal::OtherMix { role }),
        Stage::Tor => {}
        _ => return ns(idle, role),
    }
    if role.path == AccessPath::Any {
        return Err(Refusal::OtherMix { role });
    }
    let inserts = |target| counts.get(Role { target, ..role }.with(Quantity::Inserts));
    let known = parts
        .iter()
        .filter_map(|target| Some((*target, inserts(*target).ok()?)));
    let known: Vec<_> = known.filter(|(_, count)| count.value > 0.0).collect();
    let is_whole = matches!(role.target, Target::Any | Target::Miss);
    if known.is_empty() && !is_whole {
        return table_idle_ns(idle, role, ns);
    }
    let whole = counts.get(role.with(Quantity::Inserts))?;
    let (mut requests, mut sum_ns, mut quality) = (0.0, 0.0, whole.clone());
    for (target, count) in &known {
        let part = Role {
            target: *target,
            ..role
        };
        // A part that the idle machine lacks is left out; how many requests that are is seen below.
        if let Ok(part) = table_idle_ns(idle, part, ns) {
            requests += count.value;
            sum_ns += part.value * count.value;
            quality = quality.and(&part, 0.0, Unit::Ns).and(count, 0.0, Unit::Ns);
        }
    }
    let named: f64 = known.iter().map(|(_, count)| count.value).sum();
    let is_known = requests >= named * (1.0 - UNKNOWN_PART_MAX);
    if requests <= 0.0 || !is_known || (named / whole.value - 1.0).abs() > quality::PARTS_SLACK {
        return Err(Refusal::OtherMix { role });
    }
    Ok(quality.and(&quality, sum_ns / requests, Unit::Ns))
}

/// Time in the table of requests for one target on the idle machine. A read without any load takes as long
/// for whatever reason it is made, and prefetches come in bursts, which wait for each other on an idle
/// machine too: demand reads stand for all reads.
fn table_idle_ns(idle: &Counts, role: Role, ns: &dyn Fn(&Counts, Role) -> Answer) -> Answer {
    let is_read = !matches!(role.path, AccessPath::Wb | AccessPath::Nt | AccessPath::Any);
    if is_read
        && let Ok(of_demand) = ns(
            idle,
            Role {
                path: AccessPath::Drd,
                ..role
            },
        )
    {
        return Ok(of_demand);
    }
    ns(idle, role)
}

/// Residence less that of the idle machine.
pub(super) fn waiting_ns(now: &Answer, idle: Option<Answer>) -> Answer {
    let now = now.as_ref().map_err(Clone::clone)?;
    let idle = idle.ok_or(Refusal::NotCalibrated)??;
    let waiting = now.and(&idle, (now.value - idle.value).max(0.0), Unit::Ns);
    Ok(waiting.noting("residence less that of the recording of the idle machine"))
}

#[cfg(test)]
mod tests {
    use crate::counts::tests::counts;
    use crate::stages::{Capacities, stages};

    /// Reads of DRAM and of CXL memory, so many each, that stay so many cycles of 2 GHz.
    fn table(dram: [u64; 2], cxl: [u64; 2]) -> crate::Counts {
        counts(&[
            ("tor.any.any.clock", 2_000_000_000),
            ("tor.drd.miss.inserts", dram[0] + cxl[0]),
            (
                "tor.drd.miss.occupancy",
                dram[0] * dram[1] + cxl[0] * cxl[1],
            ),
            ("tor.drd.dram-own.inserts", dram[0]),
            ("tor.drd.dram-own.occupancy", dram[0] * dram[1]),
            ("tor.drd.cxl-own.inserts", cxl[0]),
            ("tor.drd.cxl-own.occupancy", cxl[0] * cxl[1]),
        ])
    }

    #[test]
    fn another_mix_is_no_wait() {
        let idle = table([900, 160], [100, 600]);
        let waiting = |now: &crate::Counts, role: &str| {
            let made = stages(now, Some(&idle), &Capacities::new());
            let queue = made
                .queues
                .iter()
                .find(|q| q.role.to_string() == role)
                .unwrap();
            queue.waiting_ns.clone()
        };
        let more_cxl = table([100, 160], [900, 600]);
        let wait = waiting(&more_cxl, "tor.drd.miss.occupancy").unwrap();
        assert!(wait.value.abs() < 1e-9, "{wait:?}");
        let loaded = table([100, 200], [900, 1000]);
        assert_eq!(
            waiting(&loaded, "tor.drd.cxl-own.occupancy").unwrap().value,
            200.0
        );
        let all = waiting(&loaded, "tor.drd.miss.occupancy").unwrap().value;
        assert!((all - (0.1 * 20.0 + 0.9 * 200.0)).abs() < 1e-9, "{all}");
    }

    #[test]
    fn a_mix_without_its_parts_gives_no_wait() {
        let whole = [
            ("tor.any.any.clock", 2_000_000_000),
            ("tor.drd.miss.inserts", 1000),
            ("tor.drd.miss.occupancy", 200_000),
        ];
        let made = stages(&counts(&whole), Some(&counts(&whole)), &Capacities::new());
        let why = made.queues[0].waiting_ns.clone().unwrap_err().to_string();
        assert!(why.contains("another mix"), "{why}");
    }
}
