// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir health` tell a weir process that lives from one that does not?

use crate::world::{World, stderr};
use rustix::process::Signal;

#[test]
fn a_probe_tells_a_weir_that_lives_from_one_that_is_stopped_or_gone() {
    let world = World::new();
    let code = || world.weir(&["health"]).status.code();
    let none = world.weir(&["health"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(
        stderr(&none).contains("no weir answers"),
        "{}",
        stderr(&none)
    );
    let daemon = world.start(&["run"]);
    world.wait("it is alive", || code() == Some(0));
    daemon.signal(Signal::STOP);
    let stopped = world.weir(&["health"]);
    assert_eq!(stopped.status.code(), Some(2));
    assert!(
        stderr(&stopped).contains("does not answer"),
        "{}",
        stderr(&stopped)
    );
    daemon.signal(Signal::CONT);
    world.wait("it is alive again", || code() == Some(0));
    // Its socket stays, and the next one takes its place.
    daemon.signal(Signal::KILL);
    daemon.end();
    assert!(world.path("run/weir/health.sock").exists());
    assert_eq!(code(), Some(2));
    let next = world.start(&["run"]);
    world.wait("the next one is alive", || code() == Some(0));
    next.signal(Signal::TERM);
    assert_eq!(next.end().code, Some(0));
    assert!(!world.path("run/weir/health.sock").exists());
}

#[test]
fn a_weir_that_waits_for_devices_is_alive() {
    let world = World::new();
    world.take_away("sys/class/weir_cxl");
    world.take_away("sys/devices/system/node/node1");
    world.write("sys/devices/system/node/has_memory", "0\n");
    let daemon = world.start(&["run", "--wait-for-devices"]);
    world.wait("it is alive", || {
        world.weir(&["health"]).status.code() == Some(0)
    });
    assert_eq!(world.seq(), None);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));
}
