// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use crate::kernel::files::open_beneath;
use crate::workloads::cgroups::walk::DEPTH_MAX;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn open(fake: &Fake, descriptors: usize) -> (CgroupTree, Buffer) {
    (
        CgroupTree::open(
            &fake.roots().cgroup,
            Arc::new(open_root(&fake.roots().proc).unwrap()),
            Budget::new(descriptors),
        )
        .unwrap(),
        Buffer::new(),
    )
}

fn names(tree: &CgroupTree) -> Vec<String> {
    tree.leaves().map(|leaf| leaf.id.to_string()).collect()
}

#[test]
fn leaves_are_directories_without_directories() {
    let fake = Fake::new();
    let (mut tree, mut buffer) = open(&fake, 100);
    tree.refresh(Nanos(1), &mut buffer);
    assert_eq!(
        names(&tree),
        [
            "/init.scope",
            "/system.slice/fio.service",
            "/system.slice/stress.service",
            "/weir.service"
        ]
    );
    let leaf = tree.leaves().nth(1).unwrap();
    let root = tree.root();
    assert_eq!(
        leaf.cpu_stat(root.as_fd(), &mut buffer).unwrap().usage_usec,
        5000
    );
    assert_eq!(
        leaf.cpu_max(root.as_fd(), &mut buffer).unwrap().to_string(),
        "max 100000"
    );
}

#[test]
fn a_walk_follows_changes_and_keeps_what_stays() {
    let fake = Fake::new();
    fake.write("sys/fs/cgroup/cgroup.stat", "nr_descendants 5\n");
    let (mut tree, mut buffer) = open(&fake, 100);
    tree.refresh(Nanos(1), &mut buffer);
    let before = Arc::clone(tree.leaves().nth(1).unwrap());
    fake.cgroup("new.service", &[]);
    tree.refresh(Nanos(2), &mut buffer);
    assert_eq!(names(&tree).len(), 4, "the count did not change: no walk");
    fake.write("sys/fs/cgroup/cgroup.stat", "nr_descendants 6\n");
    tree.refresh(Nanos(3), &mut buffer);
    assert_eq!(names(&tree).len(), 5);
    assert!(Arc::ptr_eq(
        &before,
        tree.leaves().find(|l| l.id == before.id).unwrap()
    ));
    fake.remove("sys/fs/cgroup/new.service");
    tree.leaves().next().unwrap().mark_gone();
    tree.refresh(Nanos(4), &mut buffer);
    assert_eq!(
        names(&tree).len(),
        4,
        "a leaf that answers gone makes a walk"
    );
    fake.cgroup("late.service", &[]);
    tree.refresh(Nanos(3 + WALK_EVERY.0), &mut buffer);
    assert_eq!(names(&tree).len(), 4);
    tree.refresh(Nanos(4 + WALK_EVERY.0), &mut buffer);
    assert_eq!(names(&tree).len(), 5, "half a minute makes a walk");
}

#[test]
fn a_cgroup_made_anew_under_its_name_is_another() {
    let fake = Fake::new();
    let (mut tree, mut buffer) = open(&fake, 100);
    tree.refresh(Nanos(1), &mut buffer);
    let old = Arc::clone(tree.leaves().nth(1).unwrap());
    std::fs::rename(
        fake.path("sys/fs/cgroup/system.slice/fio.service"),
        fake.path("elsewhere"),
    )
    .unwrap();
    fake.cgroup("system.slice/fio.service", &[100]);
    tree.refresh(Nanos(2), &mut buffer);
    let new = tree.leaves().nth(1).unwrap();
    assert_eq!(old.id, new.id);
    assert_ne!(old.inode, new.inode);
}

#[test]
fn short_of_descriptors_leaves_are_cold_and_work() {
    let fake = Fake::new();
    let (mut tree, mut buffer) = open(&fake, 1);
    tree.refresh(Nanos(1), &mut buffer);
    let root = tree.root();
    assert_eq!(tree.leaves().filter(|l| l.stat.is_some()).count(), 1);
    assert_eq!(tree.leaves().filter(|l| l.dir.is_some()).count(), 0);
    for leaf in tree.leaves() {
        assert_eq!(
            leaf.cpu_stat(root.as_fd(), &mut buffer).unwrap().usage_usec,
            5000
        );
    }
    assert!(tree.skipped()[0].why.to_string().contains("3 cgroups"));
    let cold = Arc::clone(tree.leaves().find(|l| l.stat.is_none()).unwrap());
    fake.remove(format!("sys/fs/cgroup{}", cold.id));
    assert_eq!(cold.cpu_stat(root.as_fd(), &mut buffer), Err(Trouble::Gone));
    fake.cgroup(&cold.id.as_str()[1..], &[]);
    let answer = cold.cpu_stat(root.as_fd(), &mut buffer);
    let same_inode = inode(open_beneath(&*root, &cold.path).unwrap())
        .unwrap()
        .st_ino
        == cold.inode;
    assert!(
        same_inode || answer == Err(Trouble::Gone),
        "another cgroup answered"
    );
}

#[test]
fn hostile_names_and_depths() {
    let fake = Fake::new();
    let root = fake.path("sys/fs/cgroup");
    for name in [&b"a\nb"[..], b"\xff\xfe", b"back\\slash", &[b'x'; 255]] {
        std::fs::create_dir(root.join(OsStr::from_bytes(name))).unwrap();
    }
    let mut deep = root.clone();
    for _ in 0..DEPTH_MAX + 2 {
        deep.push("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    std::os::unix::fs::symlink("/", root.join("link")).unwrap();
    let (mut tree, mut buffer) = open(&fake, 100);
    tree.refresh(Nanos(1), &mut buffer);
    let seen = names(&tree);
    for want in ["/a\\012b", "/\\377\\376", "/back\\slash"] {
        assert!(seen.iter().any(|s| s == want), "{want:?} in {seen:?}");
    }
    assert!(seen.iter().all(|s| !s.starts_with("/d/") && s != "/link"));
    assert_eq!(tree.skipped().len(), 1);
    let leaf = tree.leaves().find(|l| l.path == b"/a\nb").unwrap();
    let gone = leaf.cpu_stat(tree.root().as_fd(), &mut buffer);
    assert_eq!(gone, Err(Trouble::Gone), "every cgroup has that file");
}

#[test]
fn malformed_files_name_themselves() {
    let fake = Fake::new();
    fake.write(
        "sys/fs/cgroup/system.slice/fio.service/cpu.stat",
        "usage_usec many\n",
    );
    fake.write(
        "sys/fs/cgroup/system.slice/fio.service/cpu.weight",
        "heavy\n",
    );
    let (mut tree, mut buffer) = open(&fake, 100);
    tree.refresh(Nanos(1), &mut buffer);
    let root = tree.root();
    let leaf = tree.leaves().nth(1).unwrap();
    let Err(Trouble::Other(Missing::Lost(why))) = leaf.cpu_stat(root.as_fd(), &mut buffer) else {
        panic!("a number was made up");
    };
    assert!(
        why.starts_with("/system.slice/fio.service/cpu.stat"),
        "{why}"
    );
    assert_eq!(leaf.weight(root.as_fd(), &mut buffer), 100.0);
    fake.write("sys/fs/cgroup/system.slice/fio.service/cpu.weight", "0\n");
    assert_eq!(leaf.weight(root.as_fd(), &mut buffer), 1.0);
}

#[test]
fn a_v1_tree_has_no_leaves() {
    let fake = Fake::new();
    fake.remove("sys/fs/cgroup/cgroup.controllers");
    let (mut tree, mut buffer) = open(&fake, 100);
    tree.refresh(Nanos(1), &mut buffer);
    assert_eq!(tree.leaves().count(), 0);
    assert!(
        tree.skipped()[0]
            .why
            .to_string()
            .contains("not a cgroup v2 tree")
    );
    fake.write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
    tree.refresh(Nanos(2), &mut buffer);
    assert_eq!(tree.leaves().count(), 4, "mounted later");
}

#[test]
fn what_is_kept_below_a_path_is_below_it() {
    let fake = Fake::new();
    for name in ["a/x", "a/y/z", "a-b", "a.slice/x", "b"] {
        fake.cgroup(name, &[]);
    }
    let (mut tree, mut buffer) = open(&fake, 100);
    tree.refresh(Nanos(1), &mut buffer);
    let kept = |path: &[u8]| {
        let mut leaves = BTreeMap::new();
        keep_below(path, &tree.leaves, &mut leaves);
        let names = leaves.values().map(|leaf: &Arc<Leaf>| leaf.id.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(kept(b"/a"), ["/a/x", "/a/y/z"]);
    assert_eq!(kept(b"/a-b"), ["/a-b"]);
    assert_eq!(kept(b"").len(), 9, "the root: everything");
    tree.leaves[&b"/a/x"[..]].mark_gone();
    assert_eq!(kept(b"/a"), ["/a/y/z"], "what is gone is gone");
}

#[test]
fn cold_leaves_are_kept_once_there_is_room() {
    let fake = Fake::new();
    let (mut tree, mut buffer) = open(&fake, 1);
    tree.refresh(Nanos(1), &mut buffer);
    tree.budget = Budget::new(100);
    tree.refresh(Nanos(2 + WALK_EVERY.0), &mut buffer);
    assert!(tree.leaves().all(|leaf| leaf.stat.is_some()));
    assert!(tree.skipped().is_empty());
}
