// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir explain`: which workloads are limited, since when, how much and why, and what changed lately.
//! It reads the running weir's snapshot and its list of changes. With neither there is nothing to explain.

pub mod cli;
mod load;
mod migration;
pub mod recorded;

use crate::cli::exit::{Exit, print, print_json};
use crate::cli::output::wall_clock::wall_unix_ms;
use crate::cli::output::{labels, set_point};
use crate::explain::cli::ExplainArgs;
use crate::run::screens::changes::{self, MachineChange};
use crate::run::screens::publish::{self, is_live};
use anyhow::{Context, Result, bail};
use load::Knees;
use serde::Serialize;
use std::fmt::Write;
use weir_core::owner::{PodNames, owner};
use weir_core::seam::next_move::NextMove;
use weir_core::seam::observation::LatencyReading;
use weir_core::seam::plan::{Decision, DeviceState};
use weir_core::seam::sched_stats::{SchedStats, WorkloadStats};
use weir_core::seam::snapshot::Snapshot;
use weir_figures::{Cell, Setting, Table, terminal_table, text};
use weir_linux::{MigrationSettings, Roots};

/// Names shown when a name was not found.
const NAMES_SHOWN: usize = 8;

/// What this machine's files say beside the snapshot; nothing of another machine.
#[derive(Default)]
struct MachineFiles {
    knees: Knees,
    migration: MigrationSettings,
}

#[derive(Serialize)]
struct Explanation<'a> {
    limiting: bool,
    policy: &'a str,
    devices: &'a [DeviceState],
    latencies: &'a [LatencyReading],
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler: Option<&'a SchedStats>,
    workloads: Vec<Explained<'a>>,
    changes: &'a [MachineChange],
}

#[derive(Serialize)]
struct Explained<'a> {
    verdict: &'a Decision,
    limited_since_unix_ms: Option<u64>,
    throttled_cpus: Option<weir_core::CpuShare>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled: Option<&'a WorkloadStats>,
    explanation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_move: Option<NextMove>,
}

/// Explains.
///
/// # Errors
/// No weir is running, or no workload has that name.
pub fn explain(args: &ExplainArgs, roots: &Roots) -> Result<Exit> {
    if let Some(path) = &args.recording {
        return recorded::explain(args, path);
    }
    let path = roots.run.join(publish::FILE_NAME);
    if !path.exists() {
        bail!(
            "weir is not running; no limits are in force; start it with `weir run`, or explain a recorded \
             run with --recording FILE"
        );
    }
    let snapshot = publish::read(&path)?;
    let now = wall_unix_ms();
    if !is_live(&snapshot, now) {
        bail!(
            "the weir that wrote {} (process {}) does not run any more; if it was killed, undo its \
             limits with `weir reset`",
            text::harmless(&path.to_string_lossy()),
            snapshot.writer_pid
        );
    }
    let files = MachineFiles {
        knees: load::knees(&roots.state, &snapshot.description),
        migration: migration::settings(&snapshot.plan, roots),
    };
    explain_with(args, &snapshot, &files, now, |about| {
        changes::last(&roots.run, args.changes, about)
            .with_context(|| format!("cannot read the changes in {}", roots.run.display()))
    })
}

/// Explains what a snapshot of a recording shows. The knees of its devices and the kernel's settings are not
/// in it. `last` as in [`explain_with`].
///
/// # Errors
/// As [`explain_with`].
pub fn explain_snapshot(
    args: &ExplainArgs,
    snapshot: &Snapshot,
    now_ms: u64,
    last: impl FnOnce(&dyn Fn(&MachineChange) -> bool) -> Result<(Vec<MachineChange>, u64)>,
) -> Result<Exit> {
    explain_with(args, snapshot, &MachineFiles::default(), now_ms, last)
}

/// Explains what a snapshot shows. `last` gives the last changes of the named workloads, and the number of
/// lines in the list that cannot be read.
///
/// # Errors
/// No workload has that name, or the changes cannot be read.
fn explain_with(
    args: &ExplainArgs,
    snapshot: &Snapshot,
    files: &MachineFiles,
    now_ms: u64,
    last: impl FnOnce(&dyn Fn(&MachineChange) -> bool) -> Result<(Vec<MachineChange>, u64)>,
) -> Result<Exit> {
    let chosen = choose(snapshot, args.workload.as_deref())?;
    let about = |change: &MachineChange| {
        args.workload.is_none() || chosen.iter().any(|verdict| verdict.id == change.workload)
    };
    let (changes, unreadable) = last(&about)?;
    if args.json {
        let workloads = chosen
            .iter()
            .map(|verdict| explained(snapshot, verdict, now_ms))
            .collect();
        print_json(&Explanation {
            limiting: snapshot.limiting,
            policy: &snapshot.policy,
            devices: &snapshot.plan.devices,
            latencies: &snapshot.latencies,
            scheduler: snapshot.scheduler.as_ref(),
            workloads,
            changes: &changes,
        })?;
    } else {
        let page = page(snapshot, &chosen, files, &changes, now_ms);
        print(&page)?;
        if unreadable > 0 {
            print(&format!(
                "  ({unreadable} lines of the list cannot be read)\n"
            ))?;
        }
    }
    Ok(Exit::Done)
}

/// The named workloads: an exact name alone, else all with a name that contains it. Without a name: those
/// under a limit, and those that should be and are not.
fn choose<'a>(snapshot: &'a Snapshot, name: Option<&str>) -> Result<Vec<&'a Decision>> {
    let all = &snapshot.plan.workloads;
    let Some(name) = name else {
        use weir_core::seam::plan::Why;
        let concerns = |verdict: &&Decision| {
            verdict.limit_cpus.is_some() || matches!(verdict.why, Why::NotEnforced { .. })
        };
        return Ok(all.iter().filter(concerns).collect());
    };
    if let Some(exact) = all.iter().find(|verdict| verdict.id.as_str() == name) {
        return Ok(vec![exact]);
    }
    let found: Vec<_> = all
        .iter()
        .filter(|verdict| {
            verdict.id.as_str().contains(name) || is_called(verdict, &snapshot.pod_names, name)
        })
        .collect();
    if found.is_empty() {
        let known = all
            .iter()
            .take(NAMES_SHOWN)
            .map(|v| text::harmless(v.id.as_str()));
        let known: Vec<String> = known.collect();
        let more = if all.len() > NAMES_SHOWN { " …" } else { "" };
        bail!(
            "no workload that uses a CXL device has \"{}\" in its name. If the name is right, the workload has \
             no memory on a CXL device, and the device does not make it slow. Users of a device: {}{more}",
            text::harmless(name),
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        );
    }
    Ok(found)
}

/// Whether it is the pod, the container or the virtual machine of this name, or of one that begins so.
fn is_called(verdict: &Decision, names: &PodNames, name: &str) -> bool {
    let owner = owner(verdict.id.as_str());
    let named = names.short(verdict.id.as_str());
    let bare = named.as_deref().and_then(|n| n.strip_prefix("pod:"));
    let names = [
        owner.pod_uid,
        owner.container_id,
        owner.machine,
        owner.short,
        bare.map(str::to_owned),
        named.clone(),
    ];
    names.iter().flatten().any(|known| known.starts_with(name))
}

fn explained<'a>(snapshot: &'a Snapshot, verdict: &'a Decision, now_ms: u64) -> Explained<'a> {
    let since = snapshot.limited_since_unix_ms.get(&verdict.id).copied();
    Explained {
        verdict,
        limited_since_unix_ms: since,
        throttled_cpus: snapshot.throttled_cpus.get(&verdict.id).copied(),
        scheduled: scheduled(snapshot, verdict),
        explanation: sentence(verdict, since, now_ms),
        next_move: labels::next_move(&verdict.why),
    }
}

/// Its entry in the statistics of weir's scheduler.
fn scheduled<'a>(snapshot: &'a Snapshot, verdict: &Decision) -> Option<&'a WorkloadStats> {
    snapshot.scheduler.as_ref()?.workloads.get(&verdict.id)
}

fn sentence(verdict: &Decision, since_ms: Option<u64>, now_ms: u64) -> String {
    if let Some(cpus) = verdict
        .limit_cpus
        .filter(|_| labels::is_being_released(verdict))
    {
        let why = labels::why_long(&verdict.why);
        return format!(
            "its limit of {} CPU is being lifted: {why}",
            text::cpus(cpus)
        );
    }
    let mut line = match (verdict.limit_cpus, since_ms) {
        (Some(cpus), Some(since)) => format!(
            "limited to {} CPU for {}",
            text::cpus(cpus),
            text::ago(now_ms.saturating_sub(since))
        ),
        (Some(cpus), None) => format!("limited to {} CPU", text::cpus(cpus)),
        (None, _) => "not limited".to_owned(),
    };
    line += &format!(
        "{}: {}",
        labels::weight(verdict),
        labels::verdict_long(verdict)
    );
    line
}

fn page(
    snapshot: &Snapshot,
    chosen: &[&Decision],
    files: &MachineFiles,
    changes: &[MachineChange],
    now_ms: u64,
) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail, here and below.
    for device in &snapshot.plan.devices {
        let _ = writeln!(out, "{}", load::device_line(snapshot, device, &files.knees));
        if let Some(why) = set_point::not_held(device) {
            let _ = writeln!(out, "  {why}");
        }
        if let Some(kernel) = migration::line(device, &files.migration) {
            let _ = writeln!(out, "  {kernel}");
        }
    }
    if let Some(stats) = &snapshot.scheduler {
        let _ = writeln!(out, "{}", labels::scheduler(stats));
    }
    if chosen.is_empty() {
        let _ = if snapshot.limiting {
            writeln!(out, "no workload is limited")
        } else {
            writeln!(
                out,
                "no workload is limited: weir observes only\n{}",
                load::rehearsal(snapshot)
            )
        };
    }
    for verdict in chosen {
        out += &paragraph(snapshot, verdict, &files.knees, now_ms);
    }
    if !changes.is_empty() {
        let _ = writeln!(out, "\nlast changes");
    }
    let rows = changes.iter().map(|change| {
        let ago = text::ago(now_ms.saturating_sub(change.wall_unix_ms));
        let ago = Cell::number(format!("  {ago} ago"));
        vec![ago, Cell::words(change.sentence())]
    });
    out + &terminal_table(&Table::new("", &["", ""], rows), Setting::WIDE)
}

/// Bytes per second that all devices write together, where that is known.
fn writes(snapshot: &Snapshot) -> Option<weir_core::BytesPerSec> {
    let mut each = snapshot.plan.devices.iter().map(|d| d.write_bytes_per_sec);
    each.try_fold(weir_core::BytesPerSec::ZERO, |sum, writes| {
        Some(sum + writes?)
    })
}

fn paragraph(snapshot: &Snapshot, verdict: &Decision, knees: &Knees, now_ms: u64) -> String {
    let mut out = String::new();
    let since = snapshot.limited_since_unix_ms.get(&verdict.id).copied();
    let short = snapshot.pod_names.short(verdict.id.as_str());
    let short = short.map_or_else(String::new, |short| text::harmless(&short) + "  ");
    let _ = writeln!(out, "\n{short}{}", text::harmless(verdict.id.as_str()));
    let _ = writeln!(out, "  {}", sentence(verdict, since, now_ms));
    if let Some(next_move) = labels::next_move(&verdict.why) {
        let _ = writeln!(out, "  → {next_move}");
    }
    if let Some(waits) = load::waits(snapshot, verdict, knees) {
        let _ = writeln!(out, "  {waits}");
    }
    let _ = writeln!(
        out,
        "  moves {} ({})",
        text::rate(verdict.bandwidth.bytes_per_sec),
        labels::provenance_long(verdict.bandwidth.provenance)
    );
    if let Some(traffic) = &verdict.traffic {
        let _ = writeln!(out, "  {}", labels::traffic(traffic, writes(snapshot)));
    }
    if let Some(allowed) = verdict.allowed_bytes_per_sec {
        let _ = writeln!(out, "  budget {}", text::rate(allowed));
    }
    if let Some(fair) = &verdict.fair {
        let _ = writeln!(out, "  {}", labels::fair_share(fair));
    }
    let cpus = verdict.cpu_cpus.map(text::cpus);
    let cpus = cpus.map_or("CPU use: not known".to_owned(), |cpus| {
        format!("uses {cpus} CPU")
    });
    let intensity = verdict.intensity_bytes_per_cpu_sec.map(text::intensity);
    let intensity = intensity.map_or("MiB per CPU-second: not known".to_owned(), |mib| {
        format!("{mib} MiB per CPU-second")
    });
    let _ = writeln!(out, "  {cpus}, {intensity}");
    if let Some(throttled) = snapshot.throttled_cpus.get(&verdict.id) {
        let part = text::cpus(*throttled);
        let _ = writeln!(
            out,
            "  throttled for {part} s in each second, sum of its CPUs"
        );
    }
    if let Some(stats) = scheduled(snapshot, verdict) {
        let _ = writeln!(out, "  {}", labels::scheduled(stats));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::snapshot;

    #[test]
    fn a_name_may_be_a_part_of_it_and_an_exact_one_wins() {
        let snapshot = snapshot(0, 200.0);
        let ids = |name| {
            let found = choose(&snapshot, name).unwrap();
            found
                .iter()
                .map(|v| v.id.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(None), ["/system.slice/fio-heavy-reader-1.service"]);
        assert_eq!(ids(Some("light")), ["/system.slice/light.service"]);
        assert_eq!(ids(Some("slice")).len(), 3);
        assert_eq!(ids(Some("/weir")), ["/weir"]);
        let error = choose(&snapshot, Some("absent")).unwrap_err().to_string();
        assert!(error.contains("/system.slice/light.service"), "{error}");
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }

    #[test]
    fn a_name_of_systemd_and_the_name_of_a_pod_are_found() {
        let mut snapshot = snapshot(0, 200.0);
        let vm = r"/machine.slice/machine-qemu\x2d1\x2dvm.scope";
        let uid = "2f4c1a7e-0b1d-4c3e-9f5a-6b7c8d9e0f1a";
        let pod = format!(
            "/kubepods.slice/kubepods-pod{}.slice/crio-{}.scope",
            uid.replace('-', "_"),
            "0d".repeat(32)
        );
        for (place, id) in [vm, &pod].into_iter().enumerate() {
            snapshot.plan.workloads[place].id = weir_core::WorkloadId::new(id);
        }
        let ids = |name: &str| -> Vec<String> {
            let found = choose(&snapshot, Some(name)).unwrap();
            found.iter().map(|v| v.id.as_str().to_owned()).collect()
        };
        for name in [vm, r"qemu\x2d1\x2dvm", "qemu-1-vm"] {
            assert_eq!(ids(name), [vm], "{name}");
        }
        for name in [uid, "2f4c1a7e-0b", "0d0d0d0d0d0d", &pod] {
            assert_eq!(ids(name), std::slice::from_ref(&pod), "{name}");
        }
        let chosen = choose(&snapshot, Some(uid)).unwrap();
        let page = page(&snapshot, &chosen, &MachineFiles::default(), &[], 0);
        assert!(
            page.contains(&format!("\npod:2f4c1a7e/0d0d0d0d0d0d  {pod}\n")),
            "{page}"
        );
    }

    #[test]
    fn a_page_names_the_workload_the_time_the_limit_and_the_reason() {
        let snapshot = snapshot(0, 200.0);
        let chosen = choose(&snapshot, None).unwrap();
        let page = page(&snapshot, &chosen, &MachineFiles::default(), &[], 63_000);
        for part in [
            "cxl0 moves 200 MiB/s, set-point 160 MiB/s",
            "limited to 0.20 CPU for 1 min 3 s: limited by max-min: it moved 210 MiB/s when no limit held it back, 1 min 3 s ago",
            "budget 120 MiB/s",
            "throttled for 0.80 s in each second, sum of its CPUs",
            "weir's scheduler has the limited tasks: 1000 ticks of 1.50 µs, 4.20 ms apart at most, 6400 times queued at 250 ns each",
            "parked 1444 times, 12.5 s altogether, for 413.0 ms at most; 350 preemptions, 2 runs in debt; 16 wait now",
            "an estimate",
        ] {
            assert!(page.contains(part), "{page}");
        }
    }

    #[test]
    fn a_page_of_policy_drf_names_the_dominant_resource_and_the_target() {
        let mut snapshot = snapshot(0, 200.0);
        let device = weir_core::seam::plan::SharedResource::Device(weir_core::DeviceId(0));
        snapshot.plan.workloads[0].fair = Some(weir_core::seam::plan::FairShare {
            dominant: device,
            used_ratio: 0.75,
            target_ratio: 0.5,
            held_back_by: Some(device),
            is_by_cpu_alone: false,
        });
        let chosen = choose(&snapshot, None).unwrap();
        let page = page(&snapshot, &chosen, &MachineFiles::default(), &[], 0);
        let line = "  needs cxl0 most: has 75 % of it, its part is 50 %; no more, because the budget of cxl0 \
                    is shared out\n";
        assert!(page.contains(line), "{page}");
    }

    #[test]
    fn a_limit_that_ends_is_not_called_one_that_holds() {
        let mut snapshot = snapshot(0, 200.0);
        let light = &mut snapshot.plan.workloads[1];
        light.limit_cpus = Some(weir_core::CpuShare::new(0.07));
        light.intensity_bytes_per_cpu_sec = None;
        let light = snapshot.plan.workloads[1].clone();
        let page = page(&snapshot, &[&light], &MachineFiles::default(), &[], 63_000);
        for part in [
            "  its limit of 0.07 CPU is being lifted: it takes less than its fair share of the set-point\n",
            "  uses 0.01 CPU, MiB per CPU-second: not known\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("limited to"), "{page}");
    }

    #[test]
    fn a_page_of_an_observer_says_what_limits_would_do() {
        let mut snapshot = snapshot(0, 200.0);
        snapshot.limiting = false;
        let page = page(&snapshot, &[], &MachineFiles::default(), &[], 0);
        assert!(
            page.contains("no workload is limited: weir observes only\nwith --limit, "),
            "{page}"
        );
    }

    #[test]
    fn a_name_that_is_not_there_says_what_follows() {
        let snapshot = snapshot(0, 200.0);
        let error = choose(&snapshot, Some("stress")).unwrap_err().to_string();
        for part in [
            "no workload that uses a CXL device",
            "does not make it slow",
            "Users of a device: /",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}
