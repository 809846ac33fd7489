// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Residences and waits by stage, path and target, against entries that were held and requests that
//! waited. A cell needs [`REQUESTS_MIN`] requests: a mean of fewer is chance, in the counts as in the truth.

use super::comparison::{ComparedFigure, ComparedRun};
use weir_core::Role;
use weir_core::window::role::{AccessPath, Stage, Target};
use weir_profile::Answer;
use weir_profile::report::{self, Report};
use weir_profile::stages::{StageFigures, Stages};
use weir_server_model::truth::{HeldTruth, PlaceTruth};
use weir_server_model::{Path, Queue, Stage as Place, Target as Supplier};

/// Requests that a cell needs.
const REQUESTS_MIN: u64 = 500;
/// A shorter residence is compared with this, ns: queues that nothing waits in have one of 0.
const RESIDENCE_NS_MIN: f64 = 1.0;
/// A wait that is a smaller part of its residence is compared as a part of it alone.
const WAIT_PART_MIN: f64 = 0.1;

/// Places at which a request has an entry of the table of requests.
const IN_TABLE: &[Place] = &[
    Place::Llc,
    Place::Tor,
    Place::Dram,
    Place::Upi,
    Place::Port,
    Place::Device,
];

/// True times of a cell, over all windows.
#[derive(Clone, Copy, Debug, Default)]
struct CellTruth {
    requests: u64,
    residence_ns: f64,
    wait_ns: f64,
}

impl CellTruth {
    fn mean(self, ns: f64) -> f64 {
        ns / self.requests as f64
    }

    /// What differences are divided by.
    fn residence_scale(self) -> f64 {
        self.mean(self.residence_ns).max(RESIDENCE_NS_MIN)
    }
}

fn report_of(case: &ComparedRun) -> Report {
    let options = report::Options {
        idle: Some(&case.idle),
        ..report::Options::default()
    };
    report::report(&case.file, &options)
}

fn paths_of(path: AccessPath) -> &'static [Path] {
    const READS: &[Path] = &[
        Path::Drd,
        Path::Rfo,
        Path::PfL1,
        Path::PfL2,
        Path::PfLlc,
        Path::Nt,
    ];
    match path {
        AccessPath::Drd => &READS[..1],
        AccessPath::Rfo => &READS[1..2],
        AccessPath::PfL2 => &READS[2..4],
        AccessPath::PfLlc => &READS[4..5],
        AccessPath::Nt => &READS[5..],
        AccessPath::Reads => &READS[..5],
        AccessPath::Any => READS,
        AccessPath::Wb => &[Path::Wb],
        AccessPath::Pf | AccessPath::PfL1 => &[],
    }
}

fn is_of(target: Target, supplier: Supplier) -> bool {
    use Supplier as S;
    match target {
        Target::Any => true,
        Target::Own => matches!(supplier, S::Llc | S::Snc),
        Target::Snc => supplier == S::Snc,
        // The table of requests learns of a hit in the other socket when the line comes.
        Target::DramRemote => matches!(supplier, S::DramRemote | S::RemoteCache),
        Target::RemoteCache => supplier == S::RemoteCache,
        Target::DramOwn => supplier == S::Dram,
        Target::CxlOwn => supplier == S::Cxl,
        Target::CxlRemote => supplier == S::CxlRemote,
        Target::Dram => is_of(Target::DramOwn, supplier) || is_of(Target::DramRemote, supplier),
        Target::Cxl => is_of(Target::CxlOwn, supplier) || is_of(Target::CxlRemote, supplier),
        Target::Miss => is_of(Target::Dram, supplier) || is_of(Target::Cxl, supplier),
    }
}

/// Whether a request writes memory, in queues of the port and of DRAM.
fn is_write(path: Path) -> bool {
    matches!(path, Path::Wb | Path::Nt)
}

fn held<'a>(case: &'a ComparedRun, subject: &'a str) -> impl Iterator<Item = &'a HeldTruth> {
    let rows = case.truth.windows.iter().flat_map(|window| &window.held);
    rows.filter(move |row| subject == "machine" || row.workload == subject)
}

fn places<'a>(case: &'a ComparedRun, subject: &'a str) -> impl Iterator<Item = &'a PlaceTruth> {
    let rows = case.truth.windows.iter().flat_map(|window| &window.places);
    rows.filter(move |row| subject == "machine" || row.workload == subject)
}

/// The queue whose occupancy a role counts, and whether a path and supplier are in it.
fn queue_of(role: Role) -> Option<Queue> {
    Some(match (role.stage, role.target) {
        (Stage::Tor, _) => Queue::Tor,
        (Stage::SuperQueue, Target::Any) => Queue::SuperQueue,
        (Stage::Imc, _) if role.path == AccessPath::Wb => Queue::Wpq,
        (Stage::Imc, _) => Queue::Rpq,
        (Stage::M2pcie, _) => Queue::PortIngress,
        (Stage::Device, _) => Queue::Device,
        // Of those that missed the cache only the time after it is counted; buffers of the port are messages.
        _ => return None,
    })
}

fn is_in_role(role: Role, path: Path, supplier: Supplier) -> bool {
    match role.stage {
        Stage::Imc | Stage::M2pcie if role.path == AccessPath::Reads => !is_write(path),
        Stage::Imc | Stage::M2pcie => is_write(path),
        Stage::Device => true,
        _ => paths_of(role.path).contains(&path) && is_of(role.target, supplier),
    }
}

/// The truth of a role's queue. Its wait is that of all places at which the table's entry is held.
fn truth_of(case: &ComparedRun, subject: &str, role: Role) -> Option<CellTruth> {
    let queue = queue_of(role)?;
    let mut truth = CellTruth::default();
    let rows = held(case, subject).filter(|row| row.queue == queue);
    for row in rows.filter(|row| is_in_role(role, row.path, row.target)) {
        truth.requests += row.entries;
        truth.residence_ns += row.held_ns;
    }
    for row in places(case, subject).filter(|row| is_in_role(role, row.path, row.target)) {
        // A write to DRAM is taken over by the channel's queue, and gives its entry back.
        let is_left = is_write(row.path) && row.stage == Place::Dram;
        if IN_TABLE.contains(&row.stage) && !is_left {
            truth.wait_ns += row.wait_ns;
        }
    }
    (truth.requests >= REQUESTS_MIN).then_some(truth)
}

/// Truth of the time on the mesh, in either direction and in the ingress.
fn mesh_truth(case: &ComparedRun) -> Option<CellTruth> {
    let mut truth = CellTruth::default();
    let rows = places(case, "machine").filter(|row| row.stage == Place::Mesh);
    for row in rows.filter(|row| row.path == Path::Drd) {
        truth.requests += row.requests;
        truth.residence_ns += row.residence_ns;
        truth.wait_ns += row.wait_ns;
    }
    (truth.requests >= REQUESTS_MIN).then_some(truth)
}

fn compared(of: String, answer: &Answer, truth: f64, scale: f64) -> ComparedFigure {
    let estimate = match answer {
        Ok(figure) => Ok(figure.value),
        Err(why) => Err(why.to_string()),
    };
    ComparedFigure {
        of,
        estimate,
        truth,
        scale,
    }
}

/// A figure of each queue with enough requests, of each subject.
fn of_queues(
    case: &ComparedRun,
    is_wanted: fn(Role) -> bool,
    make: fn(String, &StageFigures, CellTruth) -> Option<ComparedFigure>,
) -> Vec<ComparedFigure> {
    let report = report_of(case);
    let mut all = Vec::new();
    for subject in &report.subjects {
        for queue in subject
            .figures
            .stages
            .queues
            .iter()
            .filter(|q| is_wanted(q.role))
        {
            let truth = truth_of(case, &subject.name, queue.role);
            let of = format!("{} {}", subject.name, queue.role);
            all.extend(truth.and_then(|truth| make(of, queue, truth)));
        }
    }
    all
}

fn residence(of: String, queue: &StageFigures, truth: CellTruth) -> Option<ComparedFigure> {
    let ns = truth.mean(truth.residence_ns);
    Some(compared(
        of,
        &queue.residence_ns,
        ns,
        truth.residence_scale(),
    ))
}

fn wait(of: String, queue: &StageFigures, truth: CellTruth) -> Option<ComparedFigure> {
    let ns = truth.mean(truth.wait_ns);
    let is_large = truth.wait_ns >= WAIT_PART_MIN * truth.residence_ns;
    (is_large && ns >= RESIDENCE_NS_MIN).then(|| compared(of, &queue.waiting_ns, ns, ns))
}

fn wait_in_residence(of: String, queue: &StageFigures, truth: CellTruth) -> Option<ComparedFigure> {
    let ns = truth.mean(truth.wait_ns);
    let scale = truth.residence_scale();
    Some(compared(of, &queue.waiting_ns, ns, scale))
}

fn is_table(role: Role) -> bool {
    role.stage == Stage::Tor
}

/// Requests of one kind: what waits of all of them together answers no question.
fn is_flow(role: Role) -> bool {
    is_table(role) && role.path != AccessPath::Any
}

/// Residence in the table of requests, by path and target.
pub fn table_residence(case: &ComparedRun) -> Vec<ComparedFigure> {
    of_queues(case, is_table, residence)
}

/// Residence in the super queue, of workloads and of the machine.
pub fn core_residence(case: &ComparedRun) -> Vec<ComparedFigure> {
    of_queues(case, |role| role.stage == Stage::SuperQueue, residence)
}

/// Residence in queues of DRAM channels, of the port and of the device.
pub fn memory_residence(case: &ComparedRun) -> Vec<ComparedFigure> {
    let is_memory = |role: Role| matches!(role.stage, Stage::Imc | Stage::M2pcie | Stage::Device);
    of_queues(case, is_memory, residence)
}

/// Waits of requests in the table, by path and target, ÷ the true wait.
pub fn table_wait(case: &ComparedRun) -> Vec<ComparedFigure> {
    of_queues(case, is_flow, wait)
}

/// The same ÷ the true residence.
pub fn table_wait_in_residence(case: &ComparedRun) -> Vec<ComparedFigure> {
    of_queues(case, is_flow, wait_in_residence)
}

/// Mesh and ingress by difference, of demand reads.
pub fn mesh_residence(case: &ComparedRun) -> Vec<ComparedFigure> {
    of_mesh(case, |stages, truth| {
        let ns = truth.mean(truth.residence_ns);
        (&stages.before_tor_ns, ns, ns)
    })
}

/// Waits there ÷ the true residence.
pub fn mesh_wait_in_residence(case: &ComparedRun) -> Vec<ComparedFigure> {
    of_mesh(case, |stages, truth| {
        let (ns, scale) = (truth.mean(truth.wait_ns), truth.mean(truth.residence_ns));
        (&stages.before_tor_waiting_ns, ns, scale)
    })
}

/// The machine's figure on the mesh, with its truth and its scale, ns.
fn of_mesh(
    case: &ComparedRun,
    of: impl for<'a> Fn(&'a Stages, &CellTruth) -> (&'a Answer, f64, f64),
) -> Vec<ComparedFigure> {
    let report = report_of(case);
    let machine = report.subjects.first();
    let known = machine.zip(mesh_truth(case)).map(|(machine, truth)| {
        let (estimate, ns, scale) = of(&machine.figures.stages, &truth);
        compared("machine mesh".into(), estimate, ns, scale)
    });
    known.into_iter().collect()
}
