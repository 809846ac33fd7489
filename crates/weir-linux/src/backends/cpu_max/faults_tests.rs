// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes and notes that fail while weir lives on, and what else happens to a limited cgroup meanwhile: in
//! the end all is as it was, or as another program set it.

use super::*;
use crate::fake::kernel::FileChange;
use crate::kernel::parse::cgroup::cpu_max;
use std::path::Path;

const BURST: &str = "sys/fs/cgroup/system.slice/fio.service/cpu.max.burst";
const PID: &str = "pid:100@4000";
const DIR: &str = "sys/fs/cgroup/system.slice/fio.service";

/// The kernel refuses a quota below the burst, and a burst above the quota.
fn burst_rule(path: &Path, change: FileChange<'_>) -> kernel::Answer {
    let FileChange::Write(value) = change else {
        return None;
    };
    let other = |name| std::fs::read_to_string(path.with_file_name(name)).unwrap();
    let (max, burst) = match path.file_name()?.to_str()? {
        "cpu.max" => (value.to_owned(), other("cpu.max.burst")),
        "cpu.max.burst" => (other("cpu.max"), value.to_owned()),
        _ => return None,
    };
    let quota = cpu_max(max.as_bytes()).unwrap().quota_us;
    let burst: u64 = burst.trim().parse().unwrap();
    (quota? < burst).then_some(Err(Errno::INVAL))
}

/// No write of a limit succeeds.
fn no_limits(path: &Path, change: FileChange<'_>) -> kernel::Answer {
    let is_limit = path.ends_with("cpu.max") && matches!(change, FileChange::Write(_));
    is_limit.then_some(Err(Errno::BUSY))
}

/// `/run` is full.
fn no_notes(_: &Path, change: FileChange<'_>) -> kernel::Answer {
    let is_note = matches!(change, FileChange::Append(_) | FileChange::Create);
    is_note.then_some(Err(Errno::NOSPC))
}

fn is_failed(outcome: &OutcomeKind) -> bool {
    matches!(outcome, OutcomeKind::Failed(_))
}

/// A weir process that ends, or one that is killed and followed by `weir reset`.
fn end(world: &mut World, is_killed: bool) {
    if is_killed {
        world.crash();
        let report = reset(&world.fake.roots()).unwrap();
        assert!(report.is_clean(), "{report:?}");
    } else {
        world.release_all();
    }
    assert!(!world.fake.path("run/weir/journal.jsonl").exists());
}

#[test]
fn what_stands_is_restored_after_any_number_of_writes_that_failed() {
    for is_killed in [false, true] {
        for failures in 1..4u32 {
            let mut world = World::new(Fake::new());
            assert_eq!(world.limit(FIO, 0.8), OutcomeKind::Applied);
            kernel::during(no_limits, || {
                for n in 0..failures {
                    assert!(is_failed(&world.limit(FIO, 0.4 - f64::from(n) * 0.05)));
                }
            });
            assert_eq!(world.max(), "16000 20000");
            end(&mut world, is_killed);
            assert_eq!(world.max(), "max 100000", "{failures}");
        }
    }
}

#[test]
fn a_weight_that_stands_is_restored_after_any_number_of_writes_that_failed() {
    let weight = format!("{DIR}/cpu.weight");
    let no_weights = |path: &Path, change: FileChange<'_>| {
        let is_weight = path.ends_with("cpu.weight") && matches!(change, FileChange::Write(_));
        is_weight.then_some(Err(Errno::IO))
    };
    for is_killed in [false, true] {
        let fake = Fake::new();
        fake.write(&weight, "100\n");
        let mut world = World::new(fake);
        world.limit(FIO, 0.5);
        let id = WorkloadId::new(FIO);
        world.actuator.weigh(&id, 0.5, &mut world.context);
        kernel::during(no_weights, || {
            for ratio in [0.4, 0.3, 0.2] {
                world.actuator.weigh(&id, ratio, &mut world.context);
            }
        });
        assert_eq!(world.fake.read(&weight), "50");
        end(&mut world, is_killed);
        assert_eq!(world.fake.read(&weight), "100");
    }
}

#[test]
fn a_burst_that_another_program_sets_is_lowered_and_comes_back() {
    for is_killed in [false, true] {
        let mut world = World::new(Fake::new());
        kernel::during(burst_rule, || {
            assert_eq!(world.limit(FIO, 0.8), OutcomeKind::Applied);
            world.fake.write(BURST, "10000\n");
            assert_eq!(world.limit(FIO, 0.4), OutcomeKind::Applied);
            assert_eq!(
                (world.max(), world.fake.read(BURST)),
                ("8000 20000".into(), "0".into())
            );
            end(&mut world, is_killed);
        });
        assert_eq!(world.max(), "max 100000");
        assert_eq!(world.fake.read(BURST), "10000");
    }
}

#[test]
fn a_burst_above_the_quota_to_restore_is_lowered_to_it() {
    for is_killed in [false, true] {
        let fake = Fake::new();
        fake.write(FIO_MAX, "9000 10000\n");
        let mut world = World::new(fake);
        kernel::during(burst_rule, || {
            assert_eq!(world.limit(FIO, 0.8), OutcomeKind::Applied);
            world.fake.write(BURST, "12000\n");
            end(&mut world, is_killed);
        });
        assert_eq!(world.max(), "9000 10000");
        assert_eq!(world.fake.read(BURST), "9000");
    }
}

/// Nothing was written, so the 0 is not weir's.
#[test]
fn a_burst_that_weir_has_not_lowered_is_not_raised() {
    let fake = Fake::new();
    fake.write(BURST, "7\n");
    let mut world = World::new(fake);
    let no_writes = |path: &Path, change: FileChange<'_>| match change {
        FileChange::Append(line) if line.windows(7).any(|part| part == b"\"wrote\"") => {
            Some(Err(Errno::NOSPC))
        }
        change => no_limits(path, change),
    };
    assert!(is_failed(
        &kernel::during(no_writes, || world.limit(FIO, 0.5))
    ));
    world.fake.write(BURST, "0\n");
    end(&mut world, false);
    assert_eq!(world.fake.read(BURST), "0\n");
}

#[test]
fn what_another_program_sets_is_kept_where_it_cannot_be_noted_at_once() {
    for is_killed in [false, true] {
        let mut world = World::new(Fake::new());
        world.limit(FIO, 0.5);
        world.fake.write(FIO_MAX, "80000 100000\n");
        kernel::during(no_notes, || {
            world.tend();
            assert!(is_failed(&world.limit(FIO, 0.4)));
        });
        assert_eq!(world.max(), "80000 100000\n", "nothing is written over it");
        assert_eq!(world.rewrites(), 0, "it is counted once it is noted");
        assert_eq!(world.limit(FIO, 0.4), OutcomeKind::Applied);
        world.tend();
        assert_eq!(world.rewrites(), 1);
        end(&mut world, is_killed);
        assert_eq!(world.max(), "80000 100000");
    }
}

/// The journal says of a limit that is over that it is there, until the file system takes a line again.
#[test]
fn an_end_that_cannot_be_noted_is_noted_later() {
    let mut world = World::new(Fake::new());
    world.limit(FIO, 0.5);
    kernel::during(no_notes, || {
        assert_eq!(world.release(FIO), OutcomeKind::Applied);
        world.tend();
    });
    assert!(world.journal().contains("wrote"));
    world.tend();
    assert_eq!(world.journal(), "");
    world.limit(FIO, 0.5);
    kernel::during(no_notes, || world.release(FIO));
    end(&mut world, false);
}

#[test]
fn a_cgroup_that_could_not_be_restored_is_not_limited_anew() {
    let mut world = World::new(Fake::new());
    world.limit(FIO, 0.8);
    world.crash();
    kernel::during(no_limits, || {
        assert_eq!(world.context.leases.claim().unwrap().failed.len(), 1);
    });
    assert!(refused(world.limit(FIO, 0.4)).contains("weir reset"));
    assert_eq!(world.max(), "16000 20000");
    world.crash();
    assert_eq!(
        reset(&world.fake.roots()).unwrap().restored,
        [WorkloadId::new(FIO)]
    );
    assert_eq!(world.max(), "max 100000");
}

/// Process 100, alone in its cgroup and limited there.
fn one_process(change: impl FnOnce(&Fake)) -> World {
    let fake = Fake::new();
    fake.process(107, "fio", FIO, 4007);
    change(&fake);
    let mut world = World::with(fake, |o| o.by = By::Process);
    assert_eq!(world.limit(PID, 0.8), OutcomeKind::Applied);
    world
}

#[test]
fn a_second_process_is_not_limited_by_a_cgroup_that_is_held() {
    let mut world = one_process(|_| ());
    // 100 is gone, and discovery has not seen that yet.
    world.fake.remove("proc/100");
    world.fake.write(format!("{DIR}/cgroup.procs"), "107\n");
    assert!(refused(world.limit("pid:107@4007", 0.4)).contains("for another process"));
    assert_eq!(world.max(), "16000 20000");
    end(&mut world, true);
    assert_eq!(world.max(), "max 100000");
}

#[test]
fn a_process_with_cgroups_below_its_own_is_refused() {
    let fake = Fake::new();
    fake.cgroup("system.slice/fio.service/below", &[]);
    let mut world = World::with(fake, |o| o.by = By::Process);
    assert!(refused(world.limit(PID, 0.4)).contains("below"));
    world
        .fake
        .write(format!("{DIR}/cgroup.type"), "domain threaded\n");
    assert_eq!(world.limit(PID, 0.4), OutcomeKind::Applied);
}

/// The limit ends twice over: by the check at each tick, and by the one before each change.
#[test]
fn a_limit_of_a_process_ends_when_its_cgroup_limits_others_too_or_not_that_process() {
    let joined = |fake: &Fake| fake.write(format!("{DIR}/cgroup.procs"), "100\n107\n");
    let made = |fake: &Fake| fake.cgroup("system.slice/fio.service/below", &[]);
    let moved = |fake: &Fake| {
        fake.cgroup("other.service", &[100]);
        fake.write("proc/100/cgroup", "0::/other.service\n");
    };
    let changes: [&dyn Fn(&Fake); 3] = [&joined, &made, &moved];
    for change in changes {
        for is_planned in [false, true] {
            let mut world = one_process(|_| ());
            change(&world.fake);
            if is_planned {
                refused(world.limit(PID, 0.4));
            } else {
                world.tend();
            }
            assert_eq!(world.max(), "max 100000");
            assert!(!world.actuator.is_holding());
            assert_eq!(
                world
                    .fake
                    .read("sys/fs/cgroup/system.slice/fio.service/cpu.max"),
                "max 100000"
            );
        }
    }
}
