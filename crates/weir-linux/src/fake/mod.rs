// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small machine in a temporary directory, for tests: two CPUs, node 0 with CPUs, node 1 without,
//! one counter device with one group on node 1, and a cgroup tree with two services.

pub(crate) mod kernel;

use crate::options::{By, Options, Roots};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) struct Fake {
    dir: tempfile::TempDir,
}

/// `/proc/PID/stat` of a process with this name, policy and start time.
pub(crate) fn stat_line(pid: u32, comm: &str, policy: u32, start: u64, threads: u32) -> String {
    format!(
        "{pid} ({comm}) S 1 1 1 0 -1 4194304 0 0 0 0 100 20 0 0 20 0 {threads} 0 {start} \
         0 0 0 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 {policy} 0 0 0 0 0 0 0 0 0 0 0\n"
    )
}

impl Fake {
    /// In memory where that can be: tests make thousands of files, and flush them to the disk.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let fake = Fake { dir: dir.unwrap() };
        fake.write("sys/devices/system/cpu/online", "0-1\n");
        fake.write("sys/devices/system/node/has_cpu", "0\n");
        fake.write("sys/devices/system/node/has_memory", "0-1\n");
        fake.write(
            "sys/devices/system/node/node1/meminfo",
            "Node 1 MemTotal: 524288 kB\n",
        );
        fake.device(0, &[(1, 1000, 2000)]);
        fake.write(
            "sys/fs/cgroup/cgroup.controllers",
            "cpuset cpu io memory pids\n",
        );
        fake.write("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n");
        fake.write("sys/fs/cgroup/cgroup.procs", "2\n");
        fake.process(1, "init", "/init.scope", 1);
        fake.process(2, "kthreadd", "/", 1);
        let kernel = stat_line(2, "kthreadd", 0, 1, 1).replace("4194304", "2129984");
        fake.write("proc/2/stat", &kernel);
        fake.process(std::process::id(), "weir", "/weir.service", 50);
        fake.cgroup("init.scope", &[1]);
        fake.cgroup("weir.service", &[std::process::id()]);
        fake.process(100, "fio", "/system.slice/fio.service", 4000);
        fake.process(101, "stress", "/system.slice/stress.service", 4001);
        fake.cgroup("system.slice/fio.service", &[100]);
        fake.cgroup("system.slice/stress.service", &[101]);
        fake.numa_maps(100, &[("file=/dev/shm/data", 1, 16_384)]);
        fake.write("proc/self/cgroup", "0::/weir.service\n");
        fake
    }

    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(relative)
    }

    pub(crate) fn write(&self, relative: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, relative: impl AsRef<Path>) -> String {
        fs::read_to_string(self.path(relative)).unwrap()
    }

    pub(crate) fn remove(&self, relative: impl AsRef<Path>) {
        let path = self.path(relative);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    /// A counter device with a group (node, read bytes, write bytes) each.
    pub(crate) fn device(&self, number: u32, groups: &[(i32, u64, u64)]) {
        let dir = PathBuf::from(format!("sys/class/weir_cxl/weir_cxl{number}"));
        self.write(dir.join("group_count"), format!("{}\n", groups.len()));
        for (index, (node, read, write)) in groups.iter().enumerate() {
            let group = dir.join(format!("group{index}"));
            self.write(group.join("node"), format!("{node}\n"));
            self.write(group.join("size_bytes"), "536870912\n");
            self.write(group.join("read_bytes"), format!("{read}\n"));
            self.write(group.join("write_bytes"), format!("{write}\n"));
        }
        self.counters(number, groups);
    }

    pub(crate) fn counters(&self, number: u32, groups: &[(i32, u64, u64)]) {
        let mut bytes = Vec::new();
        for (_, read, write) in groups {
            bytes.extend_from_slice(&read.to_ne_bytes());
            bytes.extend_from_slice(&write.to_ne_bytes());
        }
        self.write(
            format!("sys/class/weir_cxl/weir_cxl{number}/counters"),
            bytes,
        );
    }

    pub(crate) fn cgroup(&self, path: &str, pids: &[u32]) {
        let dir = PathBuf::from("sys/fs/cgroup").join(path);
        self.write(
            dir.join("cpu.stat"),
            "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nnr_throttled 1\nthrottled_usec 70\n",
        );
        self.write(dir.join("cpu.max"), "max 100000\n");
        self.write(dir.join("cpu.max.burst"), "0\n");
        self.write(dir.join("cpu.weight"), "100\n");
        let list: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        self.write(dir.join("cgroup.procs"), list);
    }

    /// The directories of cgroups, and settings of theirs, get another owner. False where this is not root.
    pub(crate) fn delegate(&self, user: u32, paths: &[&str]) -> bool {
        let change = |path: &&str| {
            let path = self.path("sys/fs/cgroup").join(path);
            std::os::unix::fs::chown(path, Some(user), Some(user)).is_ok()
        };
        let done = paths.iter().all(change);
        if !done {
            let _ = writeln!(std::io::stderr(), "SKIP delegated cgroups: not root");
        }
        done
    }

    pub(crate) fn process(&self, pid: u32, comm: &str, cgroup: &str, start: u64) {
        let dir = PathBuf::from(format!("proc/{pid}"));
        self.write(dir.join("stat"), stat_line(pid, comm, 0, start, 1));
        self.write(dir.join("cgroup"), format!("0::{cgroup}\n"));
        self.write(dir.join("numa_maps"), "");
    }

    /// Mappings: (`file=…` or `anon=…`, node, pages of 4 KiB).
    pub(crate) fn numa_maps(&self, pid: u32, maps: &[(&str, u32, u64)]) {
        let line = |(n, (what, node, pages)): (usize, &(&str, u32, u64))| {
            format!("7f{n:010x} default {what} N{node}={pages} kernelpagesize_kB=4\n")
        };
        let text: String = maps.iter().enumerate().map(line).collect();
        self.write(format!("proc/{pid}/numa_maps"), text);
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::beneath(self.dir.path())
    }

    pub(crate) fn options(&self, by: By) -> Options {
        Options {
            roots: self.roots(),
            by,
            interval: Duration::ZERO,
            ..Options::default()
        }
    }
}
