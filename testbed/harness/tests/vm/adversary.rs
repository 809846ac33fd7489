// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a limit bind a user that does not want it? Two equal readers; the cgroup of one is delegated to a
//! user with no other right. This user makes cgroups in it, deep ones and many, moves the reader between
//! them, starts it anew, takes the controller and lifts limits, in an order by a seed
//! (`guest/adversary.c`). By the ground truth the neighbour must have its part, and the user no more than its
//! own. weir must know which of them moved what.

use crate::common::evidence::Evidence;
use crate::common::{
    self, Bench, MODULE, Questions, SLICE, aside, empty_cgroup, hurried, last_line_says, load_weir,
    machine_with_a_device, make_cgroup, mount_group, said, says, signal_weir, snapshots, start_in,
    until,
};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::live::guest::own_pages;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

/// Workloads: owner 1 and owner 2 of the ground truth.
const NAMES: [&str; 2] = ["innocent", "user"];
const MIB: u64 = 16;
/// [`common::SET_POINT`]: the part of each is half.
const SET_POINT: f64 = (8u32 << 20) as f64;
/// The user has at most this much of its part, and the innocent at least so much of what the user has.
const MOST: f64 = 1.1;
const LEAST: f64 = 0.9;
/// No more than this part of what the user moved may be charged to others. If more is charged to the user
/// that is its own doing: where bytes are shared out by CPU time, starting processes counts as reading.
const WRONG_MAX: f64 = 0.1;
/// From the first move on there are so many seconds for weir to follow.
const FOLLOWS_IN: Duration = Duration::from_secs(2);
const PAUSE_MS: u32 = 150;

fn moved(vm: &Vm) -> [f64; 2] {
    let truth = vm.ground_truth();
    [1, 2].map(|owner| {
        let tally = truth.owner(owner);
        ((tally.read_lines + tally.write_lines) * 64) as f64
    })
}

/// The innocent reader, and the user's, each with memory of its own on the device.
fn start(vm: &Vm, seed: u64) -> Result<u32> {
    hurried(vm, || {
        let path = make_cgroup(vm, NAMES[0])?;
        vm.run("rm -f /run/out.txt")?;
        start_in(
            vm,
            &path,
            &format!("/tests/owner mapped /cxl0/{} {MIB}", NAMES[0]),
        )?;
        until(vm, says("/run/out.txt", "ready"))?;
        own_pages(vm, &format!("/cxl0/{}", NAMES[0]), 1)?;
        let path = make_cgroup(vm, NAMES[1])?;
        let files = [
            "",
            "/cgroup.procs",
            "/cgroup.threads",
            "/cgroup.subtree_control",
        ];
        let files = files.map(|file| format!("{path}{file}")).join(" ");
        vm.run(&format!("chown 1000 {files}; rm -f /run/out.txt"))?;
        let command = format!(
            "/tests/adversary {path} /cxl0/{} {MIB} {seed} {PAUSE_MS}",
            NAMES[1]
        );
        let mover = make_cgroup(vm, "mover")?;
        let pid = start_in(vm, &mover, &command)?;
        until(vm, says("/run/out.txt", "ready"))?;
        own_pages(vm, &format!("/cxl0/{}", NAMES[1]), 2)?;
        Ok(pid)
    })
}

fn end(vm: &Vm) -> Result<()> {
    hurried(vm, || {
        empty_cgroup(vm, &format!("{SLICE}/mover.service"))?;
        for name in NAMES {
            empty_cgroup(vm, &format!("{SLICE}/{name}.service"))?;
            own_pages(vm, &format!("/cxl0/{name}"), 0)?;
            vm.run(&format!(
                "rm /cxl0/{name}; find {SLICE}/{name}.service -depth -type d -exec rmdir {{}} +"
            ))?;
        }
        Ok(())
    })
}

/// Mean of what weir says of both over its lines between two times of its own, in bytes per second.
fn weir_says(vm: &Vm, span: Duration) -> Result<[f64; 2]> {
    let lines = snapshots(vm)?;
    let at = |line: &serde_json::Value| line["plan"]["at"].as_f64().unwrap_or(0.0);
    let last = lines.last().map_or(0.0, at);
    let (mut sums, mut count) = ([0.0; 2], 0.0);
    for line in lines
        .iter()
        .filter(|line| at(line) > last - span.as_nanos() as f64)
    {
        count += 1.0;
        for verdict in line["plan"]["workloads"].as_array().into_iter().flatten() {
            let id = verdict["id"].as_str().unwrap_or_default();
            let rate = verdict["bandwidth"]["bytes_per_sec"]
                .as_f64()
                .unwrap_or(0.0);
            let of = |name: &str| id.starts_with(&format!("/work.slice/{name}.service"));
            for (sum, name) in sums.iter_mut().zip(NAMES) {
                *sum += if of(name) { rate } else { 0.0 };
            }
        }
    }
    ensure!(count > 0.0, "weir said nothing");
    Ok(sums.map(|sum| sum / count))
}

/// Plays so many seconds with this seed.
fn play(
    vm: &Vm,
    backend: &str,
    (seed, secs): (u64, u64),
    say: &mut dyn FnMut(String),
) -> Result<()> {
    let user = start(vm, seed)?;
    if !vm.is_model_on() {
        vm.switch_model_on()?;
    }
    let weir = load_weir(
        vm,
        &format!(
            "--limit --backend {backend} --set-point {}",
            common::SET_POINT
        ),
    )?;
    // The kernel says which process is where; until the program for that is loaded, files do.
    aside(vm, || until(vm, last_line_says("a BPF iterator")))?;
    for name in NAMES {
        until(vm, said(&format!("{name}.service: limited")))?;
    }
    vm.sleep(Duration::from_secs(3))?;
    vm.run(&format!("kill -USR1 {user}"))?;
    vm.sleep(FOLLOWS_IN)?;
    let (before, begun) = (moved(vm), vm.now());
    vm.sleep(Duration::from_secs(secs))?;
    let (after, span) = (moved(vm), vm.now() - begun);
    let rates = [0, 1].map(|i| (after[i] - before[i]) / span.as_secs_f64());
    let said = aside(vm, || {
        let said = weir_says(vm, span)?;
        vm.run(&format!("kill -USR2 {user}"))?;
        Ok(said)
    })?;
    let status = signal_weir(vm, weir, "TERM")?;
    until(vm, says("/run/out.txt", "done"))?;
    let moves = vm.run("tail -n 1 /run/out.txt")?;
    let parts = rates.map(|rate| rate / (SET_POINT / 2.0));
    let of_moved = [0, 1].map(|i| said[i] / rates[i]);
    let found = format!(
        "{backend}, seed {seed}: of their parts the innocent has {:.3}, the user {:.3}; weir says {of_moved:.3?} of that; {}",
        parts[0],
        parts[1],
        moves.trim()
    );
    say(found);
    ensure!(status == 0, "weir ended with {status}");
    // Ordinary tasks, such as what makes the moves, may leave neither its part, above all in partial mode:
    // then the innocent must have as much as the user.
    ensure!(
        parts[0] >= LEAST * parts[1].min(1.0),
        "the innocent has {} of its part, and the user {}",
        parts[0],
        parts[1]
    );
    ensure!(parts[1] <= MOST, "the user has {} of his part", parts[1]);
    ensure!(
        of_moved[0] <= 1.0 + WRONG_MAX,
        "what the user moved is said of the innocent"
    );
    ensure!(
        of_moved[1] >= 1.0 - WRONG_MAX,
        "what the user moved is not said of the user"
    );
    end(vm)
}

fn guest(bench: &Bench) -> Result<Vm> {
    let files = ["owner", "adversary"].map(|name| {
        let program = bench.program(name)?;
        Ok(GuestFile::new(program, &format!("tests/{name}")))
    });
    let files = files.into_iter().collect::<Result<Vec<_>>>()?;
    let machine: TestbedMachine = machine_with_a_device();
    let vm = bench.boot(&machine, files, &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(&vm)?;
    Ok(vm)
}

const TIDY: &str = "for of in mover innocent user; do echo 1 > /sys/fs/cgroup/work.slice/$of.service/cgroup.kill; done";

const BACKENDS: [&str; 3] = ["cpu-max", "sched-ext", "sched-ext-full"];

/// Each back end with each seed, for so many seconds.
fn all(test: &str, games: &[(u64, u64)], say: &mut dyn FnMut(String)) -> Result<()> {
    let Some(bench) = Bench::ready(test)? else {
        return Ok(());
    };
    let vm = &guest(&bench)?;
    let mut q = Questions::default();
    for (backend, game) in BACKENDS
        .iter()
        .flat_map(|b| games.iter().map(move |g| (b, *g)))
    {
        let name = format!("{backend} binds a user that moves, seed {}", game.0);
        common::ask_about_scheduler(&mut q, vm, TIDY, &name, |vm| play(vm, backend, game, say));
    }
    q.done()
}

#[test]
fn a_limit_binds_a_user_with_a_delegated_cgroup() -> Result<()> {
    all("adversary", &[(1, 8)], &mut |found| println!("{found}"))
}

/// A thousand moves for each back end.
#[test]
#[ignore = "minutes: make soak"]
fn soak_adversary() -> Result<()> {
    let mut evidence = Evidence::of("adversary");
    let games = [(2, 50), (3, 50), (4, 50)];
    let verdict = all("adversary, soak", &games, &mut |found| evidence.say(found));
    evidence.write(verdict)
}
