// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From events to roles: which events, added and taken off, make the count of a role. The tables of events
//! are not this crate's: the command hands their content in as [`Recipes`].

use crate::perf_stat::{PerfRow, PerfStat, event_name};
use crate::window_file::{Header, WindowFile};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_core::window::{Count, CountProvenance, CountScope, UnassignedEvent, WorkloadCounts};
use weir_core::{Missing, Nanos, Role, Window, WorkloadId};

/// Events of other programs that are left out of a file by name; the rest is counted.
const NOTES_MAX: usize = 40;

/// PMUs of an event that are added up at one place; a socket has fewer boxes. What is more has no role.
const PMUS_MAX: usize = 512;

/// A role's count, made of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    pub role: Role,
    /// Events that are added, as the tables name them.
    pub plus: Vec<String>,
    /// Events that are taken off.
    pub minus: Vec<String>,
    pub provenance: CountProvenance,
    /// Entries of the queue.
    pub capacity: Option<u32>,
    /// Nanoseconds that a count stands for.
    pub ns: Option<u32>,
}

/// The recipes of a family of CPUs; of several of a role the best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipes {
    /// The family, as `weir events` names it.
    pub family: Option<String>,
    pub all: Vec<Recipe>,
}

/// Finds the table's name of an event that perf names: by name, or by terms such as `event=0x36`; nothing
/// where the table has none, or has it on another PMU.
pub type Naming<'a> = dyn Fn(Option<&str>, &str) -> Option<String> + 'a;

/// Names that perf has on every machine.
const GENERAL: &[(&str, Stage, Quantity)] = &[
    ("cycles", Stage::Core, Quantity::Clock),
    ("cpu-cycles", Stage::Core, Quantity::Clock),
    ("instructions", Stage::Core, Quantity::Instructions),
    ("task-clock", Stage::Core, Quantity::TimeNs),
    ("cpu-clock", Stage::Core, Quantity::TimeNs),
];

/// Counts of one place in one interval, by the table's name of the event.
type Events = BTreeMap<String, EventSum>;
type Place = (Option<String>, CountScope);

#[derive(Clone, Debug)]
struct EventSum {
    value: Result<u64, Missing>,
    enabled: Nanos,
    running: Nanos,
    /// Names of the rows in it, as perf prints them.
    names: Vec<String>,
}

impl EventSum {
    fn add(&mut self, value: Result<u64, Missing>, times: (Nanos, Nanos)) {
        self.enabled = Nanos(self.enabled.0.saturating_add(times.0.0));
        self.running = Nanos(self.running.0.saturating_add(times.1.0));
        self.value = match (self.value.clone(), value) {
            (Ok(a), Ok(b)) => a.checked_add(b).ok_or_else(|| overflow("a sum")),
            (Err(why), _) | (_, Err(why)) => Err(why),
        };
    }
}

fn overflow(what: &str) -> Missing {
    Missing::Lost(format!("{what} does not fit 64 bits"))
}

#[derive(Default)]
struct Interval {
    places: BTreeMap<Place, Events>,
    unassigned: Vec<UnassignedEvent>,
    length: Option<u64>,
}

impl Interval {
    /// Whether an event of the table is counted at a place under another name, so that this row is in it.
    fn has_other(&self, row: &PerfRow, place: &Place, canonical: &str) -> bool {
        let name = event_name(&row.event);
        let all = (row.workload.clone(), row.of);
        let sums = [place, &all].into_iter();
        let mut sums = sums.filter_map(|place| self.places.get(place)?.get(canonical));
        sums.any(|sum| {
            // The same name once more is another box: what was asked for twice is left out before.
            let is_other =
                |other: &String| *other != row.event && event_name(other).overlaps(&name);
            sum.names.len() >= PMUS_MAX || sum.names.iter().any(is_other)
        })
    }
}

/// Makes windows of what perf counted. `length` is that of the whole, where perf's lines do not say it.
pub fn windows(
    stat: &PerfStat,
    recipes: &Recipes,
    naming: &Naming,
    length: Option<Nanos>,
) -> WindowFile {
    let mut notes: BTreeSet<String> = BTreeSet::new();
    let mut intervals: BTreeMap<Option<Nanos>, Interval> = BTreeMap::new();
    // Whole counts first: parts of them (`cycles:u`, a box of an uncore PMU) are in them.
    let mut rows: Vec<&PerfRow> = stat.rows.iter().collect();
    rows.sort_by_key(|row| {
        let name = event_name(&row.event);
        (name.is_partial(), name.pmu_number().is_some())
    });
    let mut fractions = Fractions::new();
    for row in rows {
        let interval = intervals.entry(row.at).or_default();
        let value = value(row, &mut fractions);
        file(row, value, interval, naming, &mut notes);
    }
    let mut before = Nanos(0);
    let made = intervals.into_iter().map(|(at, interval)| {
        let to = at
            .or(length)
            .or(interval.length.map(Nanos))
            .unwrap_or(before);
        let from = std::mem::replace(&mut before, to);
        window(from, to, interval, recipes)
    });
    let windows: Vec<Window> = made.collect();
    let capacities = recipes
        .all
        .iter()
        .filter_map(|r| Some((r.role, r.capacity?)));
    let lines = stat
        .problems
        .iter()
        .map(|p| format!("line {} is left out: {}", p.line, p.why));
    let more = stat.problem_count.saturating_sub(stat.problems.len());
    let more = (more > 0).then(|| format!("{more} more lines are left out"));
    let notes = notes.into_iter().chain(stat.notes.iter().cloned());
    let notes = notes.take(NOTES_MAX).chain(lines).chain(more);
    WindowFile {
        header: Header {
            family: recipes.family.clone(),
            capacities: capacities.collect(),
            notes: notes.collect(),
            ..Header::new("perf stat")
        },
        windows,
    }
}

/// Puts a line into its interval.
fn file(
    row: &PerfRow,
    scaled: Result<u64, Missing>,
    interval: &mut Interval,
    naming: &Naming,
    notes: &mut BTreeSet<String>,
) {
    let name = event_name(&row.event);
    if name.inside == "duration_time" {
        // perf has it once: other places, threads and cgroups of the same time did not count it.
        interval.length = interval.length.max(scaled.ok());
        return;
    }
    let lower = name.inside.to_ascii_lowercase();
    let general = name.is_of_cores() && GENERAL.iter().any(|(known, ..)| *known == lower);
    let canonical = naming(name.pmu, name.inside).or_else(|| general.then_some(lower));
    let of = match (row.of, name.pmu_number()) {
        (CountScope::All, Some(number)) => CountScope::Box(number),
        (of, _) => of,
    };
    let place = (row.workload.clone(), of);
    let is_counted =
        |name: &String| is_known_unit(&row.unit) && !interval.has_other(row, &place, name);
    let Some(canonical) = canonical.filter(is_counted) else {
        interval.unassigned.push(UnassignedEvent {
            event: row.event.clone(),
            workload: row.workload.as_deref().map(WorkloadId::new),
            of,
            value: scaled,
        });
        return;
    };
    if name.is_partial() {
        let letters = crate::figure::printable(name.modifiers);
        notes.insert(format!(
            "{canonical} was counted in some modes only (:{letters})"
        ));
    }
    let events = interval.places.entry(place).or_default();
    let times = row.times();
    match events.get_mut(&canonical) {
        Some(sum) => {
            sum.add(scaled, times);
            if !sum.names.contains(&row.event) {
                sum.names.push(row.event.clone());
            }
        }
        None => {
            let (enabled, running) = times;
            events.insert(
                canonical,
                EventSum {
                    value: scaled,
                    enabled,
                    running,
                    names: vec![row.event.clone()],
                },
            );
        }
    }
}

fn is_known_unit(unit: &str) -> bool {
    matches!(unit, "" | "msec" | "ns")
}

/// What rounding left of the windows before, by place and event: of joules and MiB.
type Fractions<'a> = BTreeMap<(CountScope, Option<&'a str>, &'a str), f64>;

/// A count; of milliseconds nanoseconds. Of others the sum of all windows is rounded, not each window: what
/// is less than a half in each would be nothing in all.
fn value<'a>(row: &'a PerfRow, fractions: &mut Fractions<'a>) -> Result<u64, Missing> {
    let value = row.value.clone()?;
    if row.unit == "msec" {
        return value.millions().ok_or_else(|| overflow(&row.event));
    }
    let key = (row.of, row.workload.as_deref(), row.event.as_str());
    let left = fractions.entry(key).or_insert(0.0);
    *left += value.fraction;
    let carried = *left >= 0.5;
    *left -= f64::from(u8::from(carried));
    Ok(value.whole.saturating_add(u64::from(carried)))
}

fn window(from: Nanos, to: Nanos, interval: Interval, recipes: &Recipes) -> Window {
    let mut window = Window {
        from,
        to: to.max(from),
        unassigned: interval.unassigned,
        ..Window::default()
    };
    let mut workloads: BTreeMap<String, Vec<Count>> = BTreeMap::new();
    for ((workload, of), events) in interval.places {
        let (counts, used) = counts(of, &events, recipes);
        for (event, sum) in events.iter().filter(|(event, _)| !used.contains(*event)) {
            window.unassigned.push(UnassignedEvent {
                event: event.clone(),
                workload: workload.as_deref().map(WorkloadId::new),
                of,
                value: sum.value.clone(),
            });
        }
        match workload {
            Some(workload) => workloads.entry(workload).or_default().extend(counts),
            None => window.machine.extend(counts),
        }
    }
    let workloads = workloads.into_iter().map(|(id, counts)| WorkloadCounts {
        id: WorkloadId::new(id),
        counts,
    });
    window.workloads = workloads.collect();
    window
}

/// Counts of all roles that these events make, and the events that are in them.
fn counts(of: CountScope, events: &Events, recipes: &Recipes) -> (Vec<Count>, BTreeSet<String>) {
    let mut made: BTreeMap<Role, Count> = BTreeMap::new();
    let mut used = BTreeSet::new();
    let general = GENERAL.iter().map(|(name, stage, quantity)| Recipe {
        role: Role::new(*stage, AccessPath::Any, Target::Any, *quantity),
        plus: vec![(*name).to_owned()],
        minus: Vec::new(),
        provenance: CountProvenance::Documented,
        capacity: None,
        ns: None,
    });
    for recipe in recipes.all.iter().cloned().chain(general) {
        let names = || recipe.plus.iter().chain(&recipe.minus);
        let is_whole = names().all(|name| events.contains_key(name));
        if is_whole && !made.contains_key(&recipe.role) {
            used.extend(names().cloned());
            made.insert(recipe.role, count(of, events, &recipe));
        }
    }
    (made.into_values().collect(), used)
}

/// All events of the recipe are there.
fn count(of: CountScope, events: &Events, recipe: &Recipe) -> Count {
    let sums = |names: &[String]| -> Vec<EventSum> {
        names
            .iter()
            .filter_map(|name| events.get(name))
            .cloned()
            .collect()
    };
    let (plus, minus) = (sums(&recipe.plus), sums(&recipe.minus));
    let add = |sums: &[EventSum]| -> Result<u64, Missing> {
        sums.iter().try_fold(0u64, |all, sum| {
            all.checked_add(sum.value.clone()?)
                .ok_or_else(|| overflow(&recipe.role.to_string()))
        })
    };
    let value = add(&plus).and_then(|plus| {
        let left = plus.checked_sub(add(&minus)?).ok_or_else(|| {
            Missing::Lost(
                "the difference of its events is below 0: they did not count at the same time"
                    .into(),
            )
        })?;
        let ns = u64::from(recipe.ns.unwrap_or(1));
        left.checked_mul(ns)
            .ok_or_else(|| overflow(&recipe.role.to_string()))
    });
    // Of the event that ran least.
    let least = plus.iter().chain(&minus).min_by(|a, b| {
        let ratio = |sum: &EventSum| sum.running.0 as f64 / sum.enabled.0.max(1) as f64;
        ratio(a).total_cmp(&ratio(b))
    });
    Count {
        role: recipe.role,
        of,
        value,
        enabled_ns: least.map_or(Nanos(0), |sum| sum.enabled),
        running_ns: least.map_or(Nanos(0), |sum| sum.running),
        provenance: recipe.provenance,
    }
}
