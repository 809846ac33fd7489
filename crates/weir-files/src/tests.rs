// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What another user can prepare in a directory of its own, against each way to make a file there.

use super::{Access, Folder, begin, create_new, open_regular, read_at_most, replace};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chownat, mkfifoat};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// An account without rights, nearly everywhere.
const OTHER: u32 = 65534;
const PRECIOUS: &str = "precious";

/// A file that must stay as it is, in a directory that is not the other user's; and a directory that is.
struct Scene {
    root: tempfile::TempDir,
    theirs: PathBuf,
}

impl Scene {
    /// Nothing where this process cannot give files away: only root can.
    fn new() -> Option<Scene> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can play two users");
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let scene = Scene {
            theirs: root.path().join("theirs"),
            root,
        };
        fs::create_dir(scene.mine()).unwrap();
        fs::write(scene.precious(), PRECIOUS).unwrap();
        fs::set_permissions(scene.precious(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(&scene.theirs).unwrap();
        give(&scene.theirs);
        Some(scene)
    }

    fn mine(&self) -> PathBuf {
        self.root.path().join("mine")
    }

    fn precious(&self) -> PathBuf {
        self.mine().join("precious")
    }

    fn link(&self, to: &Path, name: &str) -> PathBuf {
        let at = self.theirs.join(name);
        symlink(to, &at).unwrap();
        give(&at);
        at
    }

    fn is_unharmed(&self) {
        let names: Vec<_> = fs::read_dir(self.mine()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(fs::read_to_string(self.precious()).unwrap(), PRECIOUS);
        let mode = fs::metadata(self.precious()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

fn give(path: &Path) {
    let (owner, group) = (Uid::from_raw(OTHER), Gid::from_raw(OTHER));
    chownat(
        CWD,
        path,
        Some(owner),
        Some(group),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .unwrap();
}

fn said(result: std::io::Result<impl Sized>) -> String {
    result.map(drop).unwrap_err().to_string()
}

#[test]
fn a_link_in_the_place_of_a_file_is_never_written_through() {
    let Some(scene) = Scene::new() else { return };
    let link = scene.link(&scene.precious(), "index.html");
    let refused = create_new(&link, Access::Shared).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert!(said(replace(&link, b"new", Access::Shared)).contains("symbolic link"));
    scene.is_unharmed();
    let folder = Folder::open(&scene.theirs).unwrap();
    assert!(
        folder
            .open_own("index.html", true, Access::Private)
            .is_err()
    );
    folder
        .replace("index.html", b"new", Access::Shared)
        .unwrap();
    assert_eq!(fs::read_to_string(&link).unwrap(), "new");
    assert!(!link.is_symlink());
    scene.is_unharmed();
}

#[test]
fn a_hard_link_is_left_what_it_is() {
    let Some(scene) = Scene::new() else { return };
    let name = scene.theirs.join("lock");
    fs::hard_link(scene.precious(), &name).unwrap();
    let folder = Folder::open(&scene.theirs).unwrap();
    for append in [true, false] {
        assert!(said(folder.open_own("lock", append, Access::Private)).contains("second name"));
    }
    assert!(said(folder.reopen_own("lock")).contains("second name"));
    replace(&name, b"new", Access::Shared).unwrap();
    assert_eq!(fs::read_to_string(&name).unwrap(), "new");
    scene.is_unharmed();
}

#[test]
fn no_directory_is_reached_by_a_link_of_another_user() {
    let Some(scene) = Scene::new() else { return };
    let link = scene.link(&scene.mine(), "D");
    for path in [
        link.clone(),
        link.join("below"),
        link.join("../D"),
        scene.theirs.join("./D"),
    ] {
        let refused = said(Folder::open_or_make(&path));
        assert!(
            refused.contains("user 65534") && refused.contains("realpath"),
            "{refused}"
        );
        assert!(said(create_new(&path.join("x"), Access::Shared)).contains("user 65534"));
    }
    // The same link, made by root in the other user's directory: that user can give it another place.
    symlink(scene.mine(), scene.theirs.join("roots")).unwrap();
    assert!(said(Folder::open(&scene.theirs.join("roots"))).contains("user 65534"));
    scene.is_unharmed();
}

#[test]
fn a_directory_that_is_swapped_under_way_stays_the_one_that_was_opened() {
    let Some(scene) = Scene::new() else { return };
    let (dir, moved) = (scene.theirs.join("D"), scene.theirs.join("moved"));
    fs::create_dir(&dir).unwrap();
    give(&dir);
    let mut new = begin(&dir.join("precious"), Access::Shared).unwrap();
    let made = create_new(&dir.join("streamed"), Access::Shared).unwrap();
    new.write_all(b"new").unwrap();
    fs::rename(&dir, &moved).unwrap();
    scene.link(&scene.mine(), "D");
    new.replace().unwrap();
    made.remove().unwrap();
    scene.is_unharmed();
    assert_eq!(fs::read_to_string(moved.join("precious")).unwrap(), "new");
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 1);
}

#[test]
fn what_took_the_name_of_a_file_is_not_removed_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let made = create_new(&path, Access::Shared).unwrap();
    fs::rename(&path, dir.path().join("y")).unwrap();
    fs::write(&path, "another").unwrap();
    made.remove().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "another");
}

#[test]
fn only_files_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    mkfifoat(CWD, &fifo, Mode::RWXU).unwrap();
    assert!(said(replace(&fifo, b"", Access::Shared)).contains("a FIFO has that name"));
    assert!(said(replace(dir.path(), b"", Access::Shared)).contains("a directory has that name"));
    let folder = Folder::open(dir.path()).unwrap();
    assert!(said(folder.open_own("fifo", true, Access::Shared)).contains("no regular file"));
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing is left beside"
    );
}

#[test]
fn a_name_that_is_taken_meanwhile_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let new = begin(&path, Access::Shared).unwrap();
    symlink("/nowhere", &path).unwrap();
    assert_eq!(new.place().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_link(&path).unwrap(), Path::new("/nowhere"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_a_kill_left_beside_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    fs::write(&target, PRECIOUS).unwrap();
    symlink(&target, dir.path().join(".x.next")).unwrap();
    let mut new = Folder::open(dir.path())
        .and_then(|folder| folder.begin_as("x", ".x.next", Access::OwnerWrites))
        .unwrap();
    new.write_all(b"new").unwrap();
    new.replace().unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("x")).unwrap(), "new");
    assert_eq!(fs::read_to_string(&target).unwrap(), PRECIOUS);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn names_are_no_paths() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    for name in ["", ".", "..", "a/b", "/a", "a/"] {
        assert!(
            folder.replace(name, b"", Access::Shared).is_err(),
            "{name:?}"
        );
    }
    assert!(create_new(&dir.path().join(".."), Access::Shared).is_err());
}

#[test]
fn a_user_s_own_links_and_missing_directories_are_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("real")).unwrap();
    symlink("real", dir.path().join("link")).unwrap();
    symlink(dir.path(), dir.path().join("real/up")).unwrap();
    let path = dir.path().join("link/up/link/a/../b");
    Folder::open_or_make(&path).unwrap();
    assert!(
        dir.path().join("real/a").is_dir(),
        "made on the way, as mkdir -p does"
    );
    replace(&path.join("x"), b"1", Access::Private).unwrap();
    let found = dir.path().join("real/b/x");
    assert_eq!(fs::metadata(&found).unwrap().mode() & 0o777, 0o600);
    let through_proc = PathBuf::from(format!("/proc/self/root{}", found.display()));
    replace(&through_proc, b"2", Access::Shared).unwrap();
    assert_eq!(fs::read_to_string(&found).unwrap(), "2");
    symlink("loop", dir.path().join("loop")).unwrap();
    assert!(Folder::open(&dir.path().join("loop")).is_err());
}

#[test]
fn only_regular_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    mkfifoat(CWD, &fifo, Mode::RWXU).unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    assert!(said(open_regular(&fifo)).contains("FIFO"));
    assert!(said(folder.open_to_read("fifo")).contains("FIFO"));
    assert!(said(open_regular(dir.path())).contains("directory"));
    assert!(said(open_regular(Path::new("/dev/zero"))).contains("device"));
    let file = dir.path().join("file");
    fs::write(&file, "four").unwrap();
    assert_eq!(read_at_most(&file, 4).unwrap(), b"four");
    assert_eq!(
        read_at_most(&file, 3).unwrap_err().kind(),
        ErrorKind::FileTooLarge
    );
    let mut nameless = folder.nameless().unwrap();
    nameless.write_all(b"x").unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
