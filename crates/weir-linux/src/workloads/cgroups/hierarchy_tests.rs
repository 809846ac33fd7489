// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::fake::Fake;
use std::os::unix::fs::symlink;

fn said(fake: &Fake, by: By) -> (Vec<Fact>, bool) {
    let mut found = Vec::new();
    let can_limit = facts(&fake.roots(), by, &mut found);
    (found, can_limit)
}

/// The reason and the next move of the fact of this name.
fn lacking(fake: &Fake, name: &str) -> (String, String) {
    let (found, can_limit) = said(fake, By::Cgroup);
    assert!(!can_limit);
    let fact = found.iter().find(|fact| fact.name == name);
    let fact = fact.unwrap_or_else(|| panic!("{name} is not in {found:?}"));
    let why = fact.value.as_ref().unwrap_err().to_string();
    let next_move = fact.next_move.as_ref().map(ToString::to_string);
    (why, next_move.unwrap_or_default())
}

fn words(fact: &Fact) -> String {
    fact.next_move.as_ref().unwrap().to_string()
}

/// A machine with these instead of a tree of version 2.
fn without_v2(files: &[&str]) -> Fake {
    let fake = Fake::new();
    fake.remove("sys/fs/cgroup/cgroup.controllers");
    for file in files {
        fake.write(format!("sys/fs/cgroup/{file}"), "\n");
    }
    fake
}

#[test]
fn the_hosts_tree_is_sound() {
    let (found, can_limit) = said(&Fake::new(), By::Cgroup);
    assert!(
        can_limit && found.iter().all(|fact| fact.value.is_ok()),
        "{found:?}"
    );
}

#[test]
fn a_containers_tree_is_not_the_hosts() {
    for file in ["cgroup.type", "cgroup.events"] {
        let fake = Fake::new();
        fake.write(format!("sys/fs/cgroup/{file}"), "domain\n");
        // Even what could be handed down is not: the tree belongs to another program.
        fake.write("sys/fs/cgroup/cgroup.subtree_control", "");
        let (why, next_move) = lacking(&fake, NAMESPACE);
        assert!(
            why.contains("cgroup namespace") && why.contains("cannot be seen"),
            "{why}"
        );
        assert!(
            next_move.contains("--cgroupns=host") && next_move.contains("hostPID"),
            "{next_move}"
        );
        let all = format!("{:?}", said(&fake, By::Cgroup).0);
        assert!(!all.contains("subtree_control"), "{all}");
    }
    let fake = Fake::new();
    fake.write("proc/1/cgroup", "0::/../../init.scope\n");
    assert!(lacking(&fake, NAMESPACE).0.contains("cgroup namespace"));
}

#[test]
fn processes_of_others_are_outside_of_a_pid_namespace() {
    let fake = Fake::new();
    std::fs::create_dir_all(fake.path("proc/self/ns")).unwrap();
    let link = fake.path("proc/self/ns/pid");
    symlink(INITIAL_PIDS, &link).unwrap();
    assert!(
        said(&fake, By::Cgroup)
            .0
            .iter()
            .all(|fact| fact.name != PIDS)
    );
    std::fs::remove_file(&link).unwrap();
    symlink("pid:[4026532200]", &link).unwrap();
    let (found, can_limit) = said(&fake, By::Cgroup);
    let fact = found.iter().find(|fact| fact.name == PIDS).unwrap();
    assert!(can_limit && fact.value.is_err());
    assert!(words(fact).contains("--pid=host"));
}

#[test]
fn each_kind_of_hierarchy_is_named_with_what_would_work() {
    for (files, kind, next_move) in [
        (
            &["unified/cgroup.controllers", "cpu/cgroup.procs"][..],
            "hybrid",
            "unified_cgroup_hierarchy=1",
        ),
        (
            &["cpu,cpuacct/cgroup.procs", "memory/cgroup.procs"],
            "version 1",
            "unified_cgroup_hierarchy=1",
        ),
        (&[], "cgroup.controllers", "mount -t cgroup2"),
    ] {
        let fake = without_v2(files);
        let (why, said) = lacking(&fake, V2);
        assert!(why.contains(kind), "{why}");
        assert!(
            said.contains(next_move) && said.contains("--workloads process"),
            "{said}"
        );
        // What cannot work is not proposed.
        assert_eq!(said.contains("mount"), files.is_empty(), "{said}");
    }
}

#[test]
fn a_tree_that_is_mounted_elsewhere_is_found() {
    let fake = without_v2(&[]);
    let mounts = "proc /proc proc rw 0 0\nnone /mnt/cgroup2 cgroup2 rw 0 0\n";
    fake.write("proc/self/mounts", mounts);
    let (why, next_move) = lacking(&fake, V2);
    assert!(why.contains("mounted at /mnt/cgroup2"), "{why}");
    assert!(
        next_move.contains("mount --bind /mnt/cgroup2 "),
        "{next_move}"
    );
    fake.write(
        "proc/self/mounts",
        "none /a;reboot cgroup2 rw 0 0\nnone /\u{1b}[2J cgroup2 rw 0 0\n",
    );
    assert!(!lacking(&fake, V2).1.contains("--bind"));
}

#[test]
fn a_controller_that_is_not_there_has_its_own_reason() {
    let head = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n";
    for (lines, why, next_move) in [
        (
            "cpu\t0\t80\t0\n",
            "command line",
            "without cgroup_disable=cpu",
        ),
        (
            "cpu\t4\t80\t1\n",
            "version 1 has the cpu controller",
            "cgroup_no_v1=cpu",
        ),
        (
            "memory\t0\t80\t1\n",
            "built without",
            "CONFIG_CFS_BANDWIDTH",
        ),
    ] {
        let fake = Fake::new();
        fake.write(
            "sys/fs/cgroup/cgroup.controllers",
            "cpuset io memory pids\n",
        );
        fake.write("proc/cgroups", format!("{head}{lines}"));
        let said = lacking(&fake, "cgroup.controller.cpu");
        assert!(
            said.0.contains(why) && said.1.contains(next_move),
            "{said:?}"
        );
    }
}

#[test]
fn a_tree_that_cannot_be_written_is_named_with_what_would_work() {
    let fake = Fake::new();
    let roots = fake.roots();
    assert_eq!(tried(&roots), Ok(()));
    for known in [Ok(()), Err(Errno::NOENT), Err(Errno::NFILE)] {
        assert_eq!(closed(&roots, known), None);
    }
    let said = || closed(&roots, Err(Errno::ROFS)).unwrap();
    assert!(said().value.unwrap_err().to_string().contains("read-only"));
    let next_move = words(&said());
    assert!(
        next_move.starts_with("where weir.service has ProtectControlGroups="),
        "{next_move}"
    );
    fake.write("proc/self/cgroup", "0::/user.slice/session-1.scope\n");
    assert_eq!(said().next_move, None, "nothing shows what would help");
    if rustix::process::geteuid().is_root() {
        fake.write("proc/self/status", "CapEff:\t000001ffffffffff\n");
        let top = roots.cgroup.display();
        for (lines, helps) in [
            (
                format!("30 23 0:26 / {top} ro,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"),
                true,
            ),
            (
                format!("30 23 0:26 / {top} ro,nosuid - cgroup2 cgroup2 ro\n"),
                false,
            ),
            (
                format!(
                    "30 23 0:26 / {top} ro - cgroup2 cgroup2 rw\n31 30 0:27 / {top} ro - tmpfs x rw\n"
                ),
                false,
            ),
            (
                format!("30 23 0:26 / {top}\n30 23 0:26 / {top} ro - cgroup2\n - - -\n"),
                false,
            ),
        ] {
            fake.write("proc/self/mountinfo", &lines);
            let wanted = helps.then(|| format!("mount -o remount,bind,rw {top}"));
            let next_move = said().next_move.map(|next| next.to_string());
            assert_eq!(next_move, wanted, "{lines}");
        }
        fake.write("proc/self/status", "CapEff:\t00000000a80425fb\n");
        assert!(words(&said()).contains("--privileged"));
        let refused = closed(&roots, Err(Errno::ACCESS)).unwrap();
        assert!(!words(&refused).contains("as root"));
    }
    // What would be written there is not proposed.
    fake.write("sys/fs/cgroup/cgroup.subtree_control", "memory\n");
    for (is_open, is_proposed) in [(true, true), (false, false)] {
        let cpu = controller(&roots, b"cpu memory", CPU, is_open);
        assert_eq!(cpu.next_move.is_some(), is_proposed);
    }
}
