// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::{Fake, stat_line};
use crate::kernel::fd_budget::Budget;
use crate::kernel::files::{Buffer, open_beneath, open_root};
use crate::options::Options;
use crate::workloads::cgroups::tree::CgroupTree;
use crate::workloads::discovery::tests::{SECOND, bytes, discovery_with, row_of, rows_of, watched};
use crate::workloads::exclude::Rules;
use crate::workloads::task_iter::process_table::{ProcessTable, tests as rows};
use crate::workloads::task_iter::{TaskRows, Tasks};
use weir_core::{Missing, Nanos, WorkloadId};

fn open(fake: &Fake) -> (CgroupTree, Buffer) {
    let proc = Arc::new(open_root(&fake.roots().proc).unwrap());
    let tree = CgroupTree::open(&fake.roots().cgroup, proc, Budget::new(100)).unwrap();
    (tree, Buffer::new())
}

fn names(tree: &CgroupTree) -> Vec<String> {
    tree.leaves().map(|leaf| leaf.id.to_string()).collect()
}

const SLICE: &str = "user.slice/user-1000.slice";

/// A session of user 1000, what is delegated to this user, and two cgroups below. False where this is not
/// root.
fn user_session(fake: &Fake) -> bool {
    let manager = format!("{SLICE}/user@1000.service");
    fake.cgroup(SLICE, &[]);
    fake.cgroup(&format!("{SLICE}/session-1.scope"), &[]);
    fake.cgroup(&manager, &[]);
    let below = [format!("{manager}/a"), format!("{manager}/b/c/d")];
    below.iter().for_each(|path| fake.cgroup(path, &[]));
    let dirs = [&manager, &below[0], &below[1]].map(String::as_str);
    fake.delegate(1000, &dirs)
}

fn user_names(fake: &Fake, rules: &Rules) -> Vec<String> {
    let (tree, mut buffer) = open(fake);
    let mut tree = tree.by_rules(rules);
    tree.refresh(Nanos(1), &mut buffer);
    let names = tree.leaves().map(|leaf| leaf.id.to_string());
    names.filter(|name| name.starts_with("/user")).collect()
}

fn rules(own: &str, split: &[&str]) -> Rules {
    let options = Options {
        split_delegated: split.iter().map(|glob| (*glob).to_owned()).collect(),
        ..Options::default()
    };
    Rules::of(&options).in_cgroup(own)
}

#[test]
fn a_delegated_cgroup_is_one_workload_whatever_is_made_below_it() {
    let fake = Fake::new();
    if !user_session(&fake) {
        return;
    }
    let whole = [
        "/user.slice/user-1000.slice/session-1.scope",
        "/user.slice/user-1000.slice/user@1000.service",
    ];
    assert_eq!(user_names(&fake, &rules("/weir.service", &[])), whole);
    let leaves = [
        "/user.slice/user-1000.slice/session-1.scope",
        "/user.slice/user-1000.slice/user@1000.service/a",
        "/user.slice/user-1000.slice/user@1000.service/b/c/d",
    ];
    let split = rules("/weir.service", &["*/user@*"]);
    assert_eq!(user_names(&fake, &split), leaves);
    // The owner of the cgroup that weir runs in could stop weir too.
    let own = rules("/user.slice/user-1000.slice/user@1000.service/a", &[]);
    assert_eq!(user_names(&fake, &own), leaves);

    let (mut tree, mut buffer) = open(&fake);
    tree.refresh(Nanos(1), &mut buffer);
    let inode = |path: &[u8]| {
        let dir = open_beneath(&*tree.root(), path).unwrap();
        inode(&dir).unwrap().st_ino
    };
    let manager = b"/user.slice/user-1000.slice/user@1000.service";
    let delegated = Delegated {
        ids: BTreeSet::from([inode(manager)]),
        level: 3,
    };
    assert_eq!(tree.delegated(), delegated);
    let at = |path: &str| Some(tree.delegated_at(path.as_bytes())?.inode);
    let deep = "/user.slice/user-1000.slice/user@1000.service/x/y";
    assert_eq!(at(deep), Some(inode(manager)));
    assert_eq!(at("/user.slice/user-1000.slice/user@1000.services/x"), None);
}

/// A limit that its owner can write is none.
#[test]
fn where_the_owner_may_set_its_limit_the_cgroup_above_is_the_workload() {
    let above = ["/user.slice/user-1000.slice"];
    let fake = Fake::new();
    if !user_session(&fake) {
        return;
    }
    let limit = format!("{SLICE}/user@1000.service/cpu.max");
    assert!(fake.delegate(1000, &[&limit]));
    assert_eq!(user_names(&fake, &rules("/weir.service", &[])), above);
    // It has none: the controller is not handed down.
    fake.remove(format!("sys/fs/cgroup/{limit}"));
    assert_eq!(user_names(&fake, &rules("/weir.service", &[])), above);
    // Nor has the one above, and no limit of it can be more than none.
    fake.remove(format!("sys/fs/cgroup/{SLICE}/cpu.max"));
    assert_eq!(user_names(&fake, &rules("/weir.service", &[])).len(), 2);
}

/// What belongs to two users is never limited for one of them.
#[test]
fn a_cgroup_with_those_of_two_users_is_no_workload() {
    let fake = Fake::new();
    for name in ["pods/a", "pods/b"] {
        fake.cgroup(name, &[]);
        fake.remove(format!("sys/fs/cgroup/{name}/cpu.max"));
    }
    fake.cgroup("pods", &[]);
    if !fake.delegate(1000, &["pods/a"]) || !fake.delegate(1001, &["pods/b"]) {
        return;
    }
    let (mut tree, mut buffer) = open(&fake);
    tree.refresh(Nanos(1), &mut buffer);
    let pods = |names: Vec<String>| names.iter().filter(|n| n.starts_with("/pods/")).count();
    assert_eq!(pods(names(&tree)), 2);
    assert!(fake.delegate(1000, &["pods/b"]));
    tree.refresh(Nanos(2), &mut buffer);
    assert!(names(&tree).contains(&"/pods".to_owned()));
}

/// What a user runs in cgroups of his own is his, however deep and however new they are.
#[test]
fn processes_below_a_delegated_cgroup_are_those_of_its_workload() {
    let fake = Fake::new();
    let manager = "user.slice/user@1000.service";
    let deep = format!("{manager}/{}", ["x"; 70].join("/"));
    fake.cgroup(manager, &[200]);
    fake.cgroup(&deep, &[201]);
    fake.process(200, "manager", &format!("/{manager}"), 5000);
    fake.process(201, "reader", &format!("/{deep}"), 5001);
    fake.numa_maps(201, &[("anon=1", 1, 256)]);
    // One thread of his is real-time: only his own tasks wait for it.
    fake.write("proc/201/stat", stat_line(201, "reader", 1, 5001, 1));
    if !fake.delegate(1000, &[manager]) {
        return;
    }
    let mut discovery = discovery_with(&fake, false, &[]);
    let at = |seconds: u64| Nanos((100 + seconds) * SECOND);
    let id = format!("/{manager}");
    for second in [0, 1, 2, 7] {
        let view = discovery.round(at(second));
        let user = watched(&view, &id);
        assert_eq!(bytes(user), [Some(1 << 20)], "after {second} s");
        assert_eq!(user.excluded, None);
        assert!(view.get(&WorkloadId::new("(unlisted)")).is_none());
    }
    // It moves between the delegated cgroup and one below, each time since the last list was read.
    for (second, at_home) in [(9, true), (11, false), (13, true), (14, false), (16, false)] {
        let (path, listed) = if at_home {
            (manager, &[200, 201][..])
        } else {
            (deep.as_str(), &[200][..])
        };
        fake.write("proc/201/cgroup", format!("0::/{path}\n"));
        fake.cgroup(manager, listed);
        let view = discovery.round(at(second));
        assert_eq!(
            bytes(watched(&view, &id)),
            [Some(1 << 20)],
            "after {second} s"
        );
    }
    fake.remove("proc/201");
    let view = discovery.round(at(20));
    assert!(bytes(watched(&view, &id)).is_empty());
}

/// Rows of one sweep after the other.
struct Sweeps(std::vec::IntoIter<Vec<rows::Row>>);

impl TaskRows for Sweeps {
    fn sweep(&mut self, _: &mut dyn FnMut()) -> Result<ProcessTable, Missing> {
        let rows = self.0.next().ok_or(Missing::Lost("it broke".into()))?;
        Ok(rows::table(&[&rows::bytes(&rows)]).unwrap())
    }
}

/// Once the kernel does not know that a process below a delegated cgroup counts for it, and its file says so.
#[test]
fn a_process_of_a_delegated_cgroup_is_there_whichever_way_it_is_found() {
    let fake = Fake::new();
    let (manager, below) = (
        "user.slice/user@1000.service",
        "user.slice/user@1000.service/new",
    );
    fake.cgroup(manager, &[]);
    fake.cgroup(below, &[201]);
    fake.process(201, "reader", &format!("/{below}"), 5001);
    fake.numa_maps(201, &[("anon=1", 1, 256)]);
    if !fake.delegate(1000, &[manager, below]) {
        return;
    }
    let sweep = |cgroup: &str| {
        let mut rows = rows_of(&fake, 1).rows;
        rows.push(row_of(&fake, 201, "reader", cgroup, 5001));
        rows
    };
    let sweeps = [manager, below, manager, manager, below].map(sweep);
    let sweeps = Sweeps(Vec::from(sweeps).into_iter());
    let mut discovery = discovery_with(&fake, false, &[]).with_tasks(Tasks::of(sweeps));
    for second in [0, 2, 4, 6, 8] {
        let view = discovery.round(Nanos((100 + second) * SECOND));
        let user = watched(&view, &format!("/{manager}"));
        assert_eq!(bytes(user), [Some(1 << 20)], "after {second} s");
    }
}

#[test]
fn only_a_cgroup_has_others_below_it() {
    assert!(is_at_or_below(b"/a", b"/a") && is_at_or_below(b"/a/b", b"/a"));
    assert!(!is_at_or_below(b"/ab", b"/a") && !is_at_or_below(b"/a", b"/a/b"));
    assert!(!is_at_or_below(b"/init.scope", b""), "a process");
}
