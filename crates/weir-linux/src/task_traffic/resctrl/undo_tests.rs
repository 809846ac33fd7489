// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a killed weir process left is restored, and nothing else is touched.

use super::tests::{Cpu, JOURNAL, MASKS, ROOT, World, groups, mounted};
use super::*;
use crate::fake::Fake;
use crate::platform::lease_books::reset;
use std::fs;

/// A journal of one line, as a killed weir process leaves it.
fn killed(fake: &Fake, line: &str) {
    use std::os::unix::fs::PermissionsExt;
    fake.write(JOURNAL, format!("{line}\n"));
    for (path, mode) in [("run/weir", 0o700), (JOURNAL, 0o600)] {
        fs::set_permissions(fake.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
}

const NOTE: &str = "{\"op\":\"resctrl\",\"mark\":\"weir-7-ab\",\"setting\":{\"file\":\"info/L3_MON/mbm_total_bytes_config\",\
    \"theirs\":\"0=0x7f;1=0x15\",\"ours\":\"0=0x30;1=0x30\"}}";

#[test]
fn reset_gives_back_what_a_killed_weir_left() {
    let fake = mounted(Cpu::Masks);
    fake.write(MASKS, "0=0x30;1=0x30\n");
    for name in [
        "weir-7-ab-0",
        "weir-7-ab-12",
        "weir-7-abc-0",
        "weir-8-1-0",
        "theirs",
    ] {
        fs::create_dir_all(fake.path(format!("{ROOT}/mon_groups/{name}"))).unwrap();
    }
    killed(&fake, NOTE);
    let report = reset(&fake.roots()).unwrap();
    assert!(
        report.is_clean() && report.restored.len() == 3,
        "{report:?}"
    );
    assert_eq!(fake.read(MASKS).trim(), "0=0x7f;1=0x15");
    assert_eq!(groups(&fake), ["theirs", "weir-7-abc-0", "weir-8-1-0"]);
    assert!(reset(&fake.roots()).unwrap().is_empty());
}

#[test]
fn the_next_weir_gives_back_too() {
    let fake = mounted(Cpu::Masks);
    fake.write(MASKS, "0=0x30;1=0x30\n");
    fs::create_dir_all(fake.path(format!("{ROOT}/mon_groups/weir-7-ab-0"))).unwrap();
    killed(&fake, NOTE);
    let world = World::new(&fake, 9, Errno::NOSPC);
    assert!(groups(&fake).is_empty());
    // A second one has to wait, and reset leaves the living alone.
    let tree = ResctrlTree::open(&fake.roots()).unwrap();
    let second = Resctrl::with(&fake.roots(), tree, Box::new(Directories));
    assert!(second.err().unwrap().to_string().contains("another weir"));
    assert!(reset(&fake.roots()).unwrap().is_empty());
    assert_eq!(fake.read(MASKS), "0=0x30;1=0x30\n");
    drop(world);
    assert_eq!(fake.read(MASKS).trim(), "0=0x7f;1=0x15");
}

/// `weir reset --force` does this while another weir limits. The counters count all traffic then.
#[test]
fn nothing_is_counted_after_another_program_has_set_the_event() {
    let fake = mounted(Cpu::Masks);
    let mut world = World::new(&fake, 9, Errno::NOSPC);
    world.follow(&[100]);
    assert_eq!(world.count(100), Ok(0));
    for mask in ["0=0x30;1=0x7f\n", "0=0x30;1=0x30\n"] {
        fake.write(MASKS, mask);
        world.follow(&[100]);
        let why = world.count(100).unwrap_err().to_string();
        assert!(why.contains("0=0x30;1=0x7f"), "{why}");
    }
}

#[test]
fn what_somebody_set_since_stays_and_what_is_not_mounted_is_owed() {
    let fake = mounted(Cpu::Masks);
    fake.write(MASKS, "0=0x33;1=0x30\n");
    killed(&fake, NOTE);
    let report = reset(&fake.roots()).unwrap();
    assert_eq!((report.left_alone.len(), report.restored.len()), (1, 0));
    assert_eq!(fake.read(MASKS), "0=0x33;1=0x30\n");
    killed(&fake, NOTE);
    fake.remove(format!("{ROOT}/info"));
    let report = reset(&fake.roots()).unwrap();
    assert!(
        report.failed[0].why.contains("mount -t resctrl"),
        "{report:?}"
    );
    assert!(fake.path(JOURNAL).exists());
    // Without a setting nothing is owed: groups go with the mount.
    killed(&fake, "{\"op\":\"resctrl\",\"mark\":\"weir-7-ab\"}");
    assert!(reset(&fake.roots()).unwrap().is_empty());
    assert!(!fake.path(JOURNAL).exists());
}

#[test]
fn a_note_that_weir_would_not_write_does_nothing() {
    let fake = mounted(Cpu::Masks);
    fake.write("victim", "precious");
    fs::create_dir_all(fake.path(format!("{ROOT}/mon_groups/theirs-0"))).unwrap();
    for note in [
        "{\"op\":\"resctrl\",\"mark\":\"theirs\"}",
        "{\"op\":\"resctrl\",\"mark\":\"weir-\"}",
        "{\"op\":\"resctrl\",\"mark\":\"weir-/../theirs\"}",
        &NOTE.replace("info/L3_MON/mbm_total_bytes_config", "../../../victim"),
        "{\"op\":\"resctrl\",\"mark\":7}",
        "{\"mark\":\"weir-7-ab\"}",
        "\u{0}",
    ] {
        killed(&fake, note);
        let report = reset(&fake.roots()).unwrap();
        assert_eq!(report.problems.len(), 1, "{note}: {report:?}");
        assert!(reset(&fake.roots()).unwrap().is_empty(), "it is put aside");
        assert_eq!(fake.read("run/weir/counting.damaged"), format!("{note}\n"));
    }
    std::os::unix::fs::symlink(fake.path("victim"), fake.path(JOURNAL)).unwrap();
    assert!(!reset(&fake.roots()).unwrap().is_clean());
    assert_eq!(groups(&fake), ["theirs-0"]);
    assert_eq!(fake.read("victim"), "precious");
}
