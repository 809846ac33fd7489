// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Content of a table. The keys of the files are the names of the fields.

use crate::counters::CounterSet;
use crate::cpu::{Cpu, Models};
use crate::encoding::Field;
use crate::pattern::Pattern;
use crate::role::RoleSum;
use crate::terms::Terms;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The events of one family of CPUs, or of a PMU that any machine can have.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub family: String,
    pub title: String,
    #[serde(default)]
    pub notes: Vec<String>,
    /// CPUs that have these events. Empty: any machine with such a PMU.
    #[serde(default)]
    pub cpu: Vec<Models>,
    /// Where its facts come from, by the names that events use.
    pub source: BTreeMap<String, String>,
    /// Its PMUs, by the names that events use.
    pub pmu: BTreeMap<String, Pmu>,
    pub event: Vec<Event>,
    /// Amounts of traffic that can be made of its events, best first.
    #[serde(default)]
    pub amount: Vec<Amount>,
    /// Events that attribute writes to tasks, best first.
    #[serde(default)]
    pub store: Vec<Store>,
    /// Latencies that can be made of its events, best first.
    #[serde(default)]
    pub latency: Vec<Latency>,
    /// Events that can be sampled with the physical address of what was accessed, best first.
    #[serde(default)]
    pub sample: Vec<Sample>,
    /// Counts by their role, for profiles; of several of a role the best first. In a file of its own: see
    /// [`RoleTable`].
    #[serde(skip)]
    pub role: Vec<RoleSum>,
}

/// The part of a table that only profiles need: one file of `data/roles/`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoleTable {
    /// Events that only roles use.
    pub event: Vec<Event>,
    pub role: Vec<RoleSum>,
}

impl Table {
    /// Whether a machine with this CPU may have these events.
    pub fn is_of(&self, cpu: &Cpu) -> bool {
        self.cpu.is_empty() || self.cpu.iter().any(|models| models.has(cpu))
    }

    pub fn event(&self, name: &str) -> Option<&Event> {
        self.event.iter().find(|event| event.name == name)
    }
}

/// A kind of PMU: often there are several of it on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pmu {
    /// Its names in `/sys/bus/event_source/devices`.
    pub names: Vec<Pattern>,
    /// How many counters one has; nothing where only the device knows, or all events always count.
    pub counters: Option<u32>,
    /// Scope of one of them.
    pub scope: Scope,
    /// Terms that have few registers behind them.
    #[serde(default)]
    pub limited: Vec<Limited>,
    /// The term that says which of several things of the same PMU is counted; an event has a counter for
    /// each of them.
    pub each: Option<String>,
    /// The kernel it needs.
    pub needs: Option<String>,
    /// Content of its format files on a kernel that is new enough, where the table gives it.
    #[serde(default)]
    pub format: BTreeMap<String, String>,
}

impl Pmu {
    /// Its fields, where the table gives their format.
    pub fn fields(&self) -> BTreeMap<&str, Field> {
        let format = self.format.iter();
        format
            .filter_map(|(name, text)| Some((name.as_str(), Field::parse(text.as_bytes()).ok()?)))
            .collect()
    }
}

/// A term of which few values can be in use at once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limited {
    pub term: String,
    /// How many values.
    pub at_once: u32,
}

/// Scope of a PMU, or of a figure made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One CPU, and so the task that runs on it.
    Cpu,
    /// CPUs that share a last-level cache.
    L3,
    Socket,
    /// One CXL port of a socket.
    Port,
    Device,
    /// One monitoring group of a CXL device.
    Group,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counts {
    /// A byte that was moved.
    Bytes,
    /// A line of 64 bytes that was moved or requested.
    Lines,
    /// A transfer of the data bus; how many bytes is said beside.
    Beats,
    /// A request message, whether data follows or not.
    Requests,
    Loads,
    Stores,
    Instructions,
    /// A cycle of the PMU's clock.
    Cycles,
    /// A request that waits, for each cycle it waits.
    WaitingCycles,
    /// A sampled latency, in the unit that is said beside.
    SampledTime,
    /// A request that was sampled.
    Samples,
    /// A cycle in which a buffer was in some state.
    BusyCycles,
    /// A cycle in which a core executed nothing, or retired nothing.
    StallCycles,
    Errors,
}

/// The way that data went, as the CPU sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// From the device.
    Read,
    /// Data went to the device.
    Write,
}

/// How far an event can be trusted to count what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Its maker says so in a published list, or weir's own driver does.
    Documented,
    /// Its maker publishes these bits under another name, and for CXL on another CPU.
    OtherName,
    Difference,
    /// An encoding that its maker's lists do not have, from elsewhere.
    Raw,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Its maker's name for it; for raw ones the name that the source has.
    pub name: String,
    pub pmu: String,
    pub terms: Terms,
    /// Counters it can be counted on; nothing for any.
    pub counters: Option<CounterSet>,
    /// The fixed counter that counts it besides, and nothing else: it takes none of the others (Linux,
    /// arch/x86/events/intel/core.c, `intel_glc_event_constraints`).
    pub fixed: Option<u32>,
    pub counts: Counts,
    /// Bytes of traffic that one count stands for, where it stands for traffic.
    pub bytes: Option<u32>,
    pub traffic: Option<Traffic>,
    /// How far to trust it.
    pub provenance: Provenance,
    /// Where it comes from: a name of [`Table::source`].
    pub source: String,
    /// What it leaves out or takes in.
    pub note: Option<String>,
}

/// An event that is sampled every so many times, with the accessed address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    pub event: String,
    /// Every how many: `step` times a prime, so that it does not fall into step with a loop.
    pub period: u64,
    /// The hardware's periods are multiples of this.
    #[serde(default = "one")]
    pub step: u64,
    /// `precise_ip` of perf: above 0 where the event is precise on demand only.
    #[serde(default)]
    pub precise: u8,
    /// Whether its samples also name the cache or memory that answered.
    #[serde(default)]
    pub data_source: bool,
    /// Bytes that one event stands for.
    pub bytes: u32,
    /// Its source: a name of [`Table::source`].
    pub source: String,
    /// What it leaves out or takes in.
    pub note: Option<String>,
}

fn one() -> u64 {
    1
}

/// Traffic in bytes, made of events: the sum of `plus` less the sum of `minus`, each times its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    pub traffic: Traffic,
    /// The scope of the figure that is made of these events.
    pub of: Scope,
    pub plus: Vec<String>,
    /// Events that are taken off.
    #[serde(default)]
    pub minus: Vec<String>,
    /// How far to trust it: the worst of its events, or worse.
    pub provenance: Provenance,
    /// Source of this use: a name of [`Table::source`].
    pub source: String,
    /// What it leaves out or takes in.
    pub note: Option<String>,
}

/// An event that gives the ratio of tasks' writes, where no event counts the writes of a task: lines that a
/// CPU fetches in order to store to them (RFO). Each of them is written back later. It is no [`Amount`]:
/// the lines it counts are reads, and the read counts include them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    pub event: String,
    /// Source of this use: a name of [`Table::source`].
    pub source: String,
    /// What it leaves out or takes in.
    pub note: Option<String>,
}

/// Mean time of a request: `total` ÷ `requests`, in the time that one count of `total` stands for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The scope of the figure that is made of these events.
    pub of: Scope,
    /// The event that adds up waiting.
    pub total: String,
    /// The event that counts the requests that waited.
    pub requests: String,
    /// The event that counts the cycles of the clock in which `total` counts; by Little's law.
    pub clock: Option<String>,
    /// Nanoseconds that one count of `total` stands for, instead of cycles.
    pub ns: Option<u32>,
    /// Source of this use: a name of [`Table::source`].
    pub source: String,
    pub note: Option<String>,
}
