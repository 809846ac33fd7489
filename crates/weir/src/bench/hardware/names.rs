// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes names out of what is sent: of cgroups, of files that are no part of a Linux system, of this host,
//! and serial numbers.

use serde_json::Value;

/// Directories of the system, whose names tell nothing about this machine's work.
const PLAIN: [&str; 9] = [
    "/sys/",
    "/proc/",
    "/dev/",
    "/run/weir",
    "/var/lib/weir",
    "/usr/",
    "/lib/",
    "/bin/",
    "/etc/weir",
];
const CGROUPS: &str = "/sys/fs/cgroup/";
/// Files of cgroups whose names are the kernel's.
const CGROUP_FILES: [&str; 4] = ["cgroup.", "cpu.", "memory.", "cpuset."];
/// Keys that identify one piece of hardware.
const SERIAL: [&str; 2] = ["serial", "uuid"];
const HIDDEN: &str = "(name)";

/// Takes them out of all strings below.
pub fn take_out(value: &mut Value, host: &str) {
    match value {
        Value::String(text) => *text = without_names(text, host),
        Value::Array(list) => list.iter_mut().for_each(|item| take_out(item, host)),
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                if SERIAL.contains(&key.as_str()) {
                    *item = Value::String(HIDDEN.into())
                } else {
                    take_out(item, host)
                }
            }
        }
        _ => {}
    }
}

fn without_names(text: &str, host: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // A path begins with a slash that no other part of a path is before.
    while let Some(at) = rest.find('/') {
        let (before, path) = rest.split_at(at);
        let is_inside = before.ends_with(is_of_path);
        out += before;
        let len = path.find(|c| !is_of_path(c)).unwrap_or(path.len());
        // A full stop or a colon ends the sentence, and not the name.
        let len = path[..len].trim_end_matches([':', '.']).len().max(1);
        let (word, after) = path.split_at(len);
        if is_inside {
            out += word
        } else {
            out += &plain(word)
        }
        rest = after;
    }
    out += rest;
    match host.len() {
        // A shorter one is also part of other words.
        0..=2 => out,
        _ => out.replace(host, HIDDEN),
    }
}

/// A name may have any character; what a message quotes ends at one of these.
fn is_of_path(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '"' | '\'' | '`' | ',' | ';' | '(' | ')' | '…')
}

fn plain(path: &str) -> String {
    if let Some(below) = path.strip_prefix(CGROUPS) {
        let is_kernels = CGROUP_FILES.iter().any(|file| below.starts_with(file));
        return if is_kernels {
            path.to_owned()
        } else {
            format!("{CGROUPS}{HIDDEN}")
        };
    }
    let is_pid = path
        .strip_prefix("/proc/")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_system = PLAIN
        .iter()
        .any(|dir| path.starts_with(dir) || path == dir.trim_end_matches('/'));
    match is_system && !is_pid {
        true => path.to_owned(),
        // A slash alone, or an "and/or" at the begin of a text.
        false if path.len() < 2 => path.to_owned(),
        false => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_go_and_the_systems_files_stay() {
        for (text, wanted) in [
            ("/system.slice/db.service fits", "(name) fits"),
            (
                "cannot read /sys/fs/cgroup/a.slice/b/cpu.max: no",
                "cannot read /sys/fs/cgroup/(name): no",
            ),
            (
                "/sys/fs/cgroup/cgroup.subtree_control",
                "/sys/fs/cgroup/cgroup.subtree_control",
            ),
            (
                "/sys/kernel/btf/vmlinux is there",
                "/sys/kernel/btf/vmlinux is there",
            ),
            ("\"/srv/ann/data\", \"/x\"", "\"(name)\", \"(name)\""),
            ("/proc/4711/numa_maps", "(name)"),
            (
                "files of /proc and of cgroups.",
                "files of /proc and of cgroups.",
            ),
            (
                "on db-host-7: 4 GiB/s read/write",
                "on (name): 4 GiB/s read/write",
            ),
        ] {
            assert_eq!(without_names(text, "db-host-7"), wanted, "{text}");
        }
        assert_eq!(
            without_names("a PC", "a"),
            "a PC",
            "a host's short name is in other words"
        );
    }

    #[test]
    fn serial_numbers_go_wherever_they_are() {
        let mut value = json!({"devices": [{"serial": {"Ok": 4660}, "ram": 1, "path": "/opt/x"}]});
        take_out(&mut value, "");
        assert_eq!(
            value,
            json!({"devices": [{"serial": "(name)", "ram": 1, "path": "(name)"}]})
        );
    }
}
