// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's own perf, by its event of CPU time: the made machine's fields lie where that event reads
//! nothing, so that each event of the tables counts the nanoseconds for which tasks ran.

use super::{pmu, roots};
use crate::counters::windows::{Asked, HeldCommand, RecordError, WindowRecorder};
use crate::fake::Fake;
use std::ffi::OsString;
use std::io::Write;
use weir_core::window::Count;
use weir_core::{Missing, Nanos};

fn machine() -> Fake {
    let fake = Fake::new();
    fake.write(
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n",
    );
    let fields = [
        ("event", "config3:0-7"),
        ("umask", "config3:8-15"),
        ("cmask", "config3:24-31"),
        ("offcore_rsp", "config2:0-63"),
    ];
    // Type 1 has the events of software, and its event 0 is the clock of a CPU.
    pmu(&fake, "cpu", 1, None, &fields);
    fake
}

/// A recorder, or nothing and the reason where none may count.
fn recorder(fake: &Fake, asked: Asked) -> Option<WindowRecorder> {
    match WindowRecorder::open(&roots(fake), asked) {
        Ok(recorder) => Some(recorder),
        Err(RecordError::NothingCounts {
            why: why @ Missing::NotPermitted(_),
            ..
        }) => {
            let _ = writeln!(std::io::stderr(), "SKIP software events: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn clock_of(counts: &[Count]) -> u64 {
    let role = "core.any.any.clock".parse().unwrap();
    let count = counts.iter().find(|count| count.role == role).unwrap();
    assert!(count.running_ns <= count.enabled_ns);
    *count.value.as_ref().unwrap()
}

#[test]
fn a_command_is_counted_from_its_start_with_what_it_starts() {
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let words = ["sh", "-c", &format!("({script}) & {script}; wait; exit 3")].map(OsString::from);
    let command = HeldCommand::start(&words).unwrap();
    let Some(mut recorder) = recorder(&machine(), Asked::Command(command)) else {
        return;
    };
    recorder.start().unwrap();
    let hour = Nanos::from_millis(3_600_000);
    let window = recorder.window(hour, &|| false);
    assert!(recorder.is_over(), "it ends the window");
    // It has ended and need only be asked.
    assert_eq!(recorder.command().unwrap().ended(), Some(3));
    let workload = &window.workloads[0];
    assert!(workload.id.as_str().starts_with("sh-"), "{}", workload.id);
    assert!(clock_of(&workload.counts) > 0);
    let all = recorder
        .never_ran()
        .iter()
        .flat_map(|group| group.roles.clone())
        .count();
    assert!(
        all < workload.counts.len(),
        "the first set began with the program"
    );
}

#[test]
fn all_tasks_of_the_machine_are_counted_on_each_cpu() {
    let Some(mut recorder) = recorder(&machine(), Asked::Machine) else {
        return;
    };
    recorder.start().unwrap();
    let mut window = recorder.window(Nanos::from_millis(250), &|| false);
    window.machine.retain(|count| count.enabled_ns.0 > 0);
    assert!(clock_of(&window.machine) > 0);
    let role = "core.any.any.stalls".parse().unwrap();
    let stalls = window
        .machine
        .iter()
        .find(|count| count.role == role)
        .unwrap();
    assert!(
        stalls.running_ns < stalls.enabled_ns,
        "other sets had turns too"
    );
}
