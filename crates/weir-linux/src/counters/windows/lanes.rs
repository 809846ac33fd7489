// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan of weir-events on this machine: each set with its encodings on each PMU that counts it, and why
//! other roles are not counted.

use super::perf::{GroupRequest, Perf};
use super::wanted::{is_of_core, wanted};
use crate::counters::pmu::{Machine, PerfScope, denied};
use crate::inventory::numa::online;
use crate::kernel::files::read_path;
use crate::options::Roots;
use std::collections::BTreeMap;
use weir_core::window::CountProvenance;
use weir_core::window::role::Quantity;
use weir_core::{Missing, Role};
use weir_events::plan::{EventPlan, Lane, LaneSet, PlanLimits, SETS_MAX, WhyAbsent, plan};
use weir_events::{Config, Event, Provenance, RoleSum, Scope, Table};

/// Counters of a CXL device's PMU, which says only to its driver how many it has.
const DEVICE_COUNTERS: u32 = 4;

#[derive(Clone, Debug)]
pub(super) struct CountingLane {
    /// What one of its PMUs sees.
    pub(super) scope: Scope,
    /// Whether there are several of it on a socket, over which lines are hashed.
    pub(super) is_hashed: bool,
    pub(super) set_sizes: Vec<usize>,
    pub(super) roles: Vec<LaneRole>,
    pub(super) boxes: Vec<LaneBox>,
}

#[derive(Clone, Debug)]
pub(super) struct LaneBox {
    pub(super) name: String,
    pub(super) kind: u32,
    /// CPUs that its events are opened on; of a core's PMU all.
    pub(super) cpus: Vec<u32>,
    pub(super) configs: Vec<Vec<Config>>,
}

/// A role, and the sets that count it.
#[derive(Clone, Debug)]
pub(super) struct LaneRole {
    pub(super) role: Role,
    pub(super) provenance: CountProvenance,
    /// The entries that its queue has, where that is known.
    pub(super) capacity: Option<u32>,
    /// Nanoseconds that a count stands for.
    pub(super) ns: u64,
    /// Whether each of its parts counts all of it.
    pub(super) is_repeated: bool,
    pub(super) parts: Vec<LanePart>,
}

/// A set that counts a role or a part of it: places of the events in the set.
#[derive(Clone, Debug)]
pub(super) struct LanePart {
    pub(super) set: usize,
    pub(super) plus: Vec<usize>,
    pub(super) minus: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Uncounted {
    pub(super) role: Role,
    pub(super) is_of_core: bool,
    pub(super) why: Missing,
}

#[derive(Clone, Debug, Default)]
pub(super) struct MachinePlan {
    pub(super) lanes: Vec<CountingLane>,
    pub(super) absent: Vec<Uncounted>,
}

/// Finds the events, tries each of them, and makes the sets.
pub(super) fn machine_plan(roots: &Roots, machine: &Machine, perf: &dyn Perf) -> MachinePlan {
    let cpus = online(roots).unwrap_or_else(|_| vec![0]);
    let mut found = Found {
        machine,
        perf,
        first_cpu: cpus.first().copied().unwrap_or(0),
        tried: BTreeMap::new(),
    };
    let limits = PlanLimits {
        held: watchdog_counters(roots),
        unknown_counters: DEVICE_COUNTERS,
        sets_max: SETS_MAX,
    };
    let wanted = wanted(machine);
    let made = plan(&wanted, &limits, &mut |table, event| {
        found.countable(table, event)
    });
    let lanes = made.lanes.iter().filter_map(|lane| found.lane(lane, &cpus));
    MachinePlan {
        lanes: lanes.collect(),
        absent: absent(&made),
    }
}

/// The NMI watchdog holds a counter of each CPU.
fn watchdog_counters(roots: &Roots) -> u32 {
    let watchdog = read_path(&roots.proc.join("sys/kernel/nmi_watchdog"));
    u32::from(watchdog.is_ok_and(|text| text.trim_ascii() == b"1"))
}

fn absent(made: &EventPlan<'static, Missing>) -> Vec<Uncounted> {
    let all = made.absent.iter().filter_map(|absent| {
        let why = match &absent.why {
            WhyAbsent::NotHere(why) => why.clone(),
            WhyAbsent::TooLarge => {
                Missing::NotSupported("its events do not fit on the counters at once".into())
            }
            WhyAbsent::LeftOut => Missing::NotSupported(format!(
                "left out: all {SETS_MAX} sets of its PMU are full, and with more each would count too little \
                 of the time"
            )),
        };
        Some(Uncounted {
            role: absent.wanted.name.parse().ok()?,
            is_of_core: is_of_core(absent.wanted.of),
            why,
        })
    });
    all.collect()
}

/// PMUs that have an event, each with its encoding.
type Encoded = Vec<(crate::counters::pmu::Pmu, Config)>;

struct Found<'m> {
    machine: &'m Machine,
    perf: &'m dyn Perf,
    first_cpu: u32,
    tried: BTreeMap<(String, String), Result<Encoded, Missing>>,
}

impl Found<'_> {
    fn countable(&mut self, table: &Table, event: &Event) -> Result<(), Missing> {
        let key = (table.family.clone(), event.name.clone());
        if let Some(known) = self.tried.get(&key) {
            return known.as_ref().map(|_| ()).map_err(Clone::clone);
        }
        let tried = self.try_it(table, event);
        let answer = tried.as_ref().map(|_| ()).map_err(Clone::clone);
        self.tried.insert(key, tried);
        answer
    }

    /// Opens it alone: what the kernel refuses then, it refuses in a set.
    fn try_it(&self, table: &Table, event: &Event) -> Result<Encoded, Missing> {
        let standing = self.machine.standing(table, event);
        let Some((pmu, config)) = standing.here.first() else {
            let nothing = || Missing::NotSupported("no PMU has it".into());
            return Err(standing.why.into_iter().next().unwrap_or_else(nothing));
        };
        let scope = table.pmu.get(&event.pmu).map(|kind| kind.scope);
        let cpu = match (scope, pmu.cpus.first()) {
            (Some(Scope::Cpu), _) | (_, None) => self.first_cpu,
            (_, Some(cpu)) => *cpu,
        };
        let request = GroupRequest {
            kind: pmu.kind,
            configs: &[*config],
            on: PerfScope::Cpu(cpu),
        };
        let opened = self.perf.open(&request);
        opened.map_err(|e| denied(&pmu.name, &format!("CPU {cpu}"), &e))?;
        let all = standing.here.into_iter();
        Ok(all.map(|(pmu, config)| (pmu.clone(), config)).collect())
    }

    /// A lane on the PMUs that have all of its events. A PMU that lacks one of them is left out as a whole,
    /// so that each sum is over the same PMUs for all events. Events of a core are opened on the CPUs that
    /// are counted, those of other PMUs on the CPUs that the PMU names.
    fn lane(&self, lane: &Lane<'static>, cpus: &[u32]) -> Option<CountingLane> {
        let kind = lane.table.pmu.get(lane.pmu)?;
        let mut boxes: BTreeMap<String, LaneBox> = BTreeMap::new();
        for (place, set) in lane.sets.iter().enumerate() {
            for event in &set.events {
                let key = (lane.table.family.clone(), event.name.clone());
                let Some(Ok(encoded)) = self.tried.get(&key) else {
                    continue;
                };
                for (pmu, config) in encoded {
                    let made = boxes.entry(pmu.name.clone()).or_insert_with(|| LaneBox {
                        name: pmu.name.clone(),
                        kind: pmu.kind,
                        cpus: if is_of_core(kind.scope) {
                            cpus.to_vec()
                        } else {
                            pmu.cpus.clone()
                        },
                        configs: vec![Vec::new(); lane.sets.len()],
                    });
                    made.configs[place].push(*config);
                }
            }
        }
        let set_sizes: Vec<usize> = lane.sets.iter().map(|set| set.events.len()).collect();
        boxes.retain(|_, made| {
            made.configs
                .iter()
                .map(Vec::len)
                .eq(set_sizes.iter().copied())
        });
        Some(CountingLane {
            scope: kind.scope,
            is_hashed: kind.scope == Scope::Socket && boxes.len() > 1,
            set_sizes,
            roles: lane_roles(&lane.sets),
            boxes: in_order(boxes.into_values().collect()),
        })
    }
}

/// Sorts boxes by their numbers: `uncore_cha_10` comes after `uncore_cha_9`, although a comparison of texts
/// says otherwise.
fn in_order(mut boxes: Vec<LaneBox>) -> Vec<LaneBox> {
    boxes.sort_by_key(|made| (made.name.len(), made.name.clone()));
    boxes
}

fn lane_roles(sets: &[LaneSet<'static>]) -> Vec<LaneRole> {
    let mut roles: Vec<LaneRole> = Vec::new();
    for (set, part) in sets
        .iter()
        .enumerate()
        .flat_map(|(place, set)| set.roles.iter().map(move |part| (place, part)))
    {
        let Some(role) = lane_role(part.role, part.is_repeated) else {
            continue;
        };
        let part = LanePart {
            set,
            plus: part.plus.clone(),
            minus: part.minus.clone(),
        };
        match roles.iter_mut().find(|known| known.role == role.role) {
            Some(known) => known.parts.push(part),
            None => roles.push(LaneRole {
                parts: vec![part],
                ..role
            }),
        }
    }
    roles
}

fn lane_role(role: &RoleSum, is_repeated: bool) -> Option<LaneRole> {
    let parsed: Role = role.name.parse().ok()?;
    Some(LaneRole {
        role: parsed,
        provenance: match role.provenance {
            Provenance::Documented => CountProvenance::Documented,
            Provenance::OtherName => CountProvenance::OtherName,
            Provenance::Difference => CountProvenance::Difference,
            Provenance::Raw => CountProvenance::Raw,
        },
        capacity: role
            .capacity
            .filter(|_| parsed.quantity == Quantity::Occupancy),
        ns: role.ns.unwrap_or(1).into(),
        is_repeated,
        parts: Vec::new(),
    })
}
