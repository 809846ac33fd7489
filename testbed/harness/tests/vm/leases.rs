// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does every limit end, however weir ends? Two real readers overload the emulated device on a real
//! kernel and are limited; then weir gets SIGTERM, is killed, finds others writing the same
//! files, or the cgroup is gone. The earlier values of `cpu.max`, `cpu.max.burst`, `cpu.weight` and
//! `cpu.weight.nice` must stand there again, to the byte, and what others set meanwhile must not be lost.
//!
//! `a` has a limit of its own (which weir may tighten and must give back) with a burst; `b` has none. `a` has
//! a weight, and `b` a nice value for which there is no weight: a written 4 reads as nice 14.

use crate::common::{
    self, Bench, LINES, MODULE, Questions, SET_POINT, SLICE, aside, attempt, empty_cgroup,
    ends_with, holds, is, json, load_weir, max_is, mount_group, next_line, signal_weir,
    start_readers, until,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

/// What stands in the files of `a` and `b` while weir is not there.
const THEIRS: &str = "70000 100000\n20000\n10\n10\nmax 100000\n0\n4\n15\n";
/// Lines of a cgroup in it: limit, burst, weight, nice value.
const FILES: usize = 4;

fn files(vm: &Vm) -> Result<String> {
    vm.run(&format!(
        "cd {SLICE} && for name in a b; do cd $name.service &&
         cat cpu.max cpu.max.burst cpu.weight cpu.weight.nice && cd ..; done"
    ))
}

fn prepare(vm: &Vm) -> Result<()> {
    vm.run(&format!("insmod {MODULE}"))?;
    mount_group(vm)?;
    start_readers(vm, &["a", "b"])?;
    vm.switch_model_on()
}

/// What others set, as it was: also after a question that failed.
fn set_theirs(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "killall -KILL weir; weir reset > /dev/null
         cd {SLICE} && echo 0 > b.service/cpu.idle && echo 0 > a.service/cpu.max.burst && echo 70000 100000 > a.service/cpu.max &&
         echo 20000 > a.service/cpu.max.burst && echo max 100000 > b.service/cpu.max &&
         echo 10 > a.service/cpu.weight && echo 15 > b.service/cpu.weight.nice"
    ))?;
    ensure!(files(vm)? == THEIRS, "the guest's own: {}", files(vm)?);
    Ok(())
}

/// Starts weir and waits until both readers are under a limit of its own.
fn limit_both(vm: &Vm) -> Result<u32> {
    set_theirs(vm)?;
    let pid = load_weir(vm, &format!("--limit --set-point {SET_POINT}"))?;
    until(vm, held("a", "70000 100000"))?;
    until(vm, held("b", "max 100000"))?;
    until(vm, weighed("a", 10))?;
    until(vm, weighed("b", 4))?;
    Ok(pid)
}

/// A condition: a lower weight than `theirs` is in force.
fn weighed(name: &str, theirs: u64) -> Condition {
    !Condition::AtLeast(format!("{SLICE}/{name}.service/cpu.weight"), theirs)
}

/// A condition: something else than `theirs` is in force.
fn held(name: &str, theirs: &str) -> Condition {
    !max_is(name, theirs)
}

/// A condition: less than so many CPUs are in force. Limits change from tick to tick, so one read must say
/// it.
fn below(name: &str, cpus: f64) -> String {
    format!("awk '{{exit !($1 != \"max\" && $1 / $2 < {cpus})}}' {SLICE}/{name}.service/cpu.max")
}

/// The limit in CPUs.
fn in_force(vm: &Vm, name: &str) -> Result<f64> {
    let text = vm.run(&format!("cat {SLICE}/{name}.service/cpu.max"))?;
    let (quota, period) = text
        .trim()
        .split_once(' ')
        .context("cpu.max has two words")?;
    Ok(quota.parse::<f64>().with_context(|| text.clone())? / period.parse::<f64>()?)
}

fn it_names_the_limited_workloads_and_restores_on_sigterm(vm: &Vm) -> Result<()> {
    let pid = limit_both(vm)?;
    let shown = once_both_are_shown(vm, "weir explain --json", |shown| {
        let lowered = |w: &&Value| w["verdict"]["limited_weight"]["lowered"]["ratio"].is_f64();
        list(shown, "workloads").iter().filter(lowered).count()
    })?;
    ensure!(shown["limiting"] == true, "{shown}");
    for name in ["a", "b"] {
        let id = format!("/work.slice/{name}.service");
        let workloads = list(&shown, "workloads");
        let limited = workloads.iter().find(|w| w["verdict"]["id"] == id.as_str());
        let limited = limited.with_context(|| format!("{id} is not in {shown}"))?;
        ensure!(limited["verdict"]["limit_cpus"].is_f64(), "{limited}");
        ensure!(limited["limited_since_unix_ms"].is_u64(), "{limited}");
        let ratio = &limited["verdict"]["limited_weight"]["lowered"]["ratio"];
        ensure!(
            ratio.as_f64().is_some_and(|r| r < 1.0),
            "no lower weight: {limited}"
        );
        let began = list(&shown, "changes")
            .iter()
            .any(|c| c["workload"] == id.as_str());
        ensure!(began, "no change of {id} in {shown}");
    }
    top_shows_both(vm)?;
    let no_burst = is(&format!("{SLICE}/a.service/cpu.max.burst"), "0");
    let ours = Condition::All(vec![held("a", "70000 100000"), no_burst]);
    until(vm, ours).context("a limit of ours with a burst")?;
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    ensure!(files(vm)? == THEIRS, "after SIGTERM: {}", files(vm)?);
    let said = ends_with(vm, 0, "weir reset")?;
    ensure!(said.contains("nothing to do"), "{said}");
    Ok(())
}

/// A list of it; none where it is missing.
fn list<'a>(shown: &'a Value, name: &str) -> &'a [Value] {
    shown[name].as_array().map_or(&[], Vec::as_slice)
}

/// Output of a command once it shows both, as `shows` counts them. It reads the published snapshot, which may
/// be a second and a half older than weir's lines: publishing is rare where it is dear, as in a slow guest.
fn once_both_are_shown(vm: &Vm, command: &str, shows: impl Fn(&Value) -> usize) -> Result<Value> {
    for _ in 0..20 {
        next_line(vm)?;
        let shown = json(vm, command)?;
        if shows(&shown) >= 2 {
            return Ok(shown);
        }
    }
    json(vm, command)
}

/// The screen of a weir process that is limiting, as JSON and as a table.
fn top_shows_both(vm: &Vm) -> Result<()> {
    let shown = once_both_are_shown(vm, "weir top --json", |shown| {
        list(&shown["plan"], "workloads").len()
    })?;
    ensure!(shown["limiting"] == true, "{shown}");
    let workloads = list(&shown["plan"], "workloads");
    let table = vm.run("weir top --once")?;
    for name in ["a", "b"] {
        let id = format!("/work.slice/{name}.service");
        let row = workloads.iter().find(|w| w["id"] == id.as_str());
        let row = row.with_context(|| format!("{id} is not in {shown}"))?;
        ensure!(row["limit_cpus"].as_f64().is_some_and(|l| l > 0.0), "{row}");
        let line = table
            .lines()
            .find(|l| l.contains(&format!("{name}.service")));
        ensure!(line.is_some(), "{name} is not in\n{table}");
    }
    Ok(())
}

/// Kills weir while it limits; returns what it left behind.
fn kill_in_mid_throttle(vm: &Vm) -> Result<String> {
    let pid = limit_both(vm)?;
    let status = signal_weir(vm, pid, "KILL")?;
    ensure!(status == 128 + 9, "weir ended with {status}");
    let left = files(vm)?;
    for (place, (line, theirs)) in left.lines().zip(THEIRS.lines()).enumerate() {
        let is_changed = place % FILES == 0 || place % FILES == 2;
        ensure!(
            !is_changed || line != theirs,
            "nothing is left to put back: {left}"
        );
    }
    Ok(left)
}

fn reset_restores_after_a_kill(vm: &Vm) -> Result<()> {
    let left = kill_in_mid_throttle(vm)?;
    aside(vm, || reset_restores(vm, &left))
}

fn reset_restores(vm: &Vm, left: &str) -> Result<()> {
    let said = ends_with(vm, 2, "weir explain")?;
    ensure!(said.contains("weir reset"), "no next move: {said}");
    let said = ends_with(vm, 0, "weir doctor")?;
    ensure!(
        said.contains("weir reset"),
        "the doctor has no next move: {said}"
    );
    ensure!(
        files(vm)? == left,
        "reading changed something: {}",
        files(vm)?
    );
    let said = ends_with(vm, 0, "weir reset")?;
    ensure!(
        said.contains("2 restored, 0 unchanged, 0 gone, 0 left alone, 0 failed"),
        "{said}"
    );
    ensure!(files(vm)? == THEIRS, "after reset: {}", files(vm)?);
    let said = ends_with(vm, 0, "weir reset")?;
    ensure!(said.contains("nothing to do"), "twice: {said}");
    Ok(())
}

/// It has nothing to limit itself at a set-point above anything the device can do.
fn the_next_start_restores_after_a_kill(vm: &Vm) -> Result<()> {
    kill_in_mid_throttle(vm)?;
    let pid = load_weir(vm, "--limit --set-point 100GiB/s")?;
    next_line(vm)?;
    ensure!(
        files(vm)? == THEIRS,
        "with the next weir running: {}",
        files(vm)?
    );
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    ensure!(files(vm)? == THEIRS, "after it: {}", files(vm)?);
    Ok(())
}

fn two_do_not_limit_at_once(vm: &Vm) -> Result<()> {
    let pid = limit_both(vm)?;
    let said = ends_with(vm, 2, "weir reset")?;
    ensure!(
        said.contains(&pid.to_string()) && said.contains("--force"),
        "{said}"
    );
    ensure!(
        holds(vm, &held("b", "max 100000"))?,
        "reset took the limit of a living weir away"
    );
    signal_weir(vm, pid, "TERM")?;
    ensure!(files(vm)? == THEIRS, "after it: {}", files(vm)?);
    Ok(())
}

/// Another process tightens `a` below anything weir would set, and loosens `b` above it.
fn what_others_set_is_respected_and_kept(vm: &Vm) -> Result<()> {
    let pid = limit_both(vm)?;
    // A value written between weir's read and its own write is overwritten unseen: the kernel cannot prevent
    // that.
    for (name, max) in [("a", "1000 100000"), ("b", "90000 100000")] {
        until(
            vm,
            &format!(
                "grep -q 'changed by another program.*{name}.service' {LINES}.err ||
                 {{ echo {max} > {SLICE}/{name}.service/cpu.max; false; }}"
            ),
        )?;
    }
    // Ours is set again where it is tighter, theirs stays where it is not.
    until(vm, &below("b", 0.9))?;
    next_line(vm)?;
    ensure!(
        in_force(vm, "a")? == 0.01,
        "theirs was loosened: {}",
        files(vm)?
    );
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    let left = files(vm)?;
    let lines: Vec<&str> = left.lines().collect();
    ensure!(
        lines[0] == "1000 100000" && lines[FILES] == "90000 100000",
        "theirs is lost: {left}"
    );
    // All of its burst that the kernel takes under the new quota.
    ensure!(
        lines[1] == "1000" && lines[FILES + 1] == "0",
        "bursts: {left}"
    );
    ensure!(
        lines[2..4] == ["10", "10"] && lines[FILES + 2..] == ["4", "15"],
        "{left}"
    );
    Ok(())
}

/// Another program gives `a` another weight, and makes `b` idle, while weir has lowered both.
fn weights_that_others_set_stay(vm: &Vm) -> Result<()> {
    let pid = limit_both(vm)?;
    vm.run(&format!(
        "cd {SLICE} && echo 77 > a.service/cpu.weight && echo 1 > b.service/cpu.idle"
    ))?;
    for name in ["a", "b"] {
        let words = format!("left alone while it is limited*{name}.service");
        until(vm, common::said(&words))?;
    }
    let said = |shown: &Value| shown.to_string().contains("another program set weight 77");
    let shown = once_both_are_shown(vm, "weir explain --json", |shown| {
        list(shown, "workloads")
            .len()
            .min(if said(shown) { 2 } else { 0 })
    })?;
    ensure!(said(&shown), "{shown}");
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    let left = files(vm)?;
    ensure!(left.lines().nth(2) == Some("77"), "theirs is lost: {left}");
    let idle = vm.run(&format!("cat {SLICE}/b.service/cpu.idle"))?;
    ensure!(idle.trim() == "1", "cpu.idle is {idle}");
    set_theirs(vm)
}

/// Where weights are off none is touched.
fn weights_are_left_alone_with_weights_off(vm: &Vm) -> Result<()> {
    set_theirs(vm)?;
    let flags = format!("--limit --set-point {SET_POINT} --limited-weight off");
    let pid = load_weir(vm, &flags)?;
    until(vm, held("a", "70000 100000"))?;
    until(vm, held("b", "max 100000"))?;
    for _ in 0..5 {
        next_line(vm)?;
        for name in ["a", "b"] {
            let theirs = if name == "a" { 10 } else { 4 };
            let is_touched = holds(vm, &weighed(name, theirs))?;
            ensure!(!is_touched, "{name}: {}", files(vm)?);
        }
    }
    signal_weir(vm, pid, "TERM")?;
    ensure!(files(vm)? == THEIRS, "after it: {}", files(vm)?);
    Ok(())
}

/// Another process changes a limit after the kill: it is theirs now, and is left alone and named. The burst
/// beside it is not: that was lowered by weir.
fn a_change_after_the_kill_is_left_alone(vm: &Vm) -> Result<()> {
    kill_in_mid_throttle(vm)?;
    vm.run(&format!("echo 50000 100000 > {SLICE}/a.service/cpu.max"))?;
    let said = ends_with(vm, 1, "weir reset")?;
    ensure!(said.contains("left alone: /work.slice/a.service"), "{said}");
    ensure!(said.contains("restored: /work.slice/b.service"), "{said}");
    let left = files(vm)?;
    ensure!(left == THEIRS.replace("70000", "50000"), "{left}");
    Ok(())
}

/// `b` goes away after the kill, and another cgroup of that name takes its place.
fn a_vanished_cgroup_is_counted_and_its_name_is_not_touched(vm: &Vm) -> Result<()> {
    kill_in_mid_throttle(vm)?;
    let b = format!("{SLICE}/b.service");
    empty_cgroup(vm, &b)?;
    vm.run(&format!(
        "rmdir {b} && mkdir {b} && echo 30000 100000 > {b}/cpu.max"
    ))?;
    let reply = attempt(vm, "weir reset --json")?;
    ensure!(reply.status == Some(0), "{reply:?}");
    let report: serde_json::Value = serde_json::from_str(&reply.stdout)?;
    ensure!(
        report["vanished"] == serde_json::json!(["/work.slice/b.service"]),
        "{report}"
    );
    ensure!(
        report["restored"] == serde_json::json!(["/work.slice/a.service"]),
        "{report}"
    );
    until(vm, max_is("a", "70000 100000"))?;
    until(vm, max_is("b", "30000 100000"))
}

#[test]
fn every_limit_ends() -> Result<()> {
    let Some(bench) = Bench::ready("leases")? else {
        return Ok(());
    };
    let vm = &bench.guest()?;
    prepare(vm)?;
    let mut q = Questions::default();
    q.ask("SIGTERM", || {
        it_names_the_limited_workloads_and_restores_on_sigterm(vm)
    });
    q.ask("SIGKILL, then reset", || reset_restores_after_a_kill(vm));
    q.ask("SIGKILL, then the next start", || {
        the_next_start_restores_after_a_kill(vm)
    });
    q.ask("one weir at a time", || two_do_not_limit_at_once(vm));
    q.ask("others write cpu.max", || {
        what_others_set_is_respected_and_kept(vm)
    });
    q.ask("others write cpu.weight", || {
        weights_that_others_set_stay(vm)
    });
    q.ask("weights off", || {
        weights_are_left_alone_with_weights_off(vm)
    });
    q.ask("others write after the kill", || {
        a_change_after_the_kill_is_left_alone(vm)
    });
    q.ask("a cgroup vanished", || {
        a_vanished_cgroup_is_counted_and_its_name_is_not_touched(vm)
    });
    q.done()
}
