// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of cgroups, and the names of cgroups. Each parser gets the same bytes; what it read is printed and
//! read again, and says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_linux::parse::cgroup::{
    CpuMax, Pages, cpu_max, cpu_stat, descendants, lists, numa_stat, pids, refills,
};
use weir_linux::parse::process::cgroup_path;
use weir_linux::{escape, parse, unescape};

fn check_cpu_stat(text: &[u8]) {
    // Behind a line of another key it is read by another way, which must agree.
    let shifted = [b"x 1\n", text].concat();
    assert_eq!(cpu_stat(text), cpu_stat(&shifted));
    assert_eq!(refills(text), refills(&shifted));
    let Ok(stat) = cpu_stat(text) else {
        return;
    };
    let mut printed = format!("usage_usec {}\n", stat.usage_usec);
    if let Some(throttled) = stat.throttled_usec {
        printed += &format!("nr_periods 1\nthrottled_usec {throttled}\n");
    }
    assert_eq!(cpu_stat(printed.as_bytes()), Ok(stat));
}

fn check_cpu_max(text: &[u8]) {
    let Ok(max) = cpu_max(text) else {
        return;
    };
    assert!(max.period_us > 0);
    assert!(
        max.cpus()
            .is_none_or(|cpus| cpus.is_finite() && cpus >= 0.0)
    );
    // What was there is written back when a limit ends.
    assert_eq!(cpu_max(max.to_string().as_bytes()), Ok(max));
    let none = CpuMax {
        quota_us: None,
        ..max
    };
    assert!(!max.is_tighter_than(&max) && !none.is_tighter_than(&max));
}

fn check_numa_stat(text: &[u8]) {
    let mut found = Vec::new();
    if numa_stat(text, |pages, node, bytes| found.push((pages, node, bytes))).is_err() {
        return;
    }
    let line = |(pages, node, bytes): &(Pages, u32, u64)| {
        let name = match pages {
            Pages::Anon => "anon",
            Pages::File => "file",
            Pages::Mapped => "file_mapped",
        };
        format!("{name} N{node}={bytes}\n")
    };
    let printed: String = found.iter().map(line).collect();
    let mut again = Vec::new();
    let read = numa_stat(printed.as_bytes(), |pages, node, bytes| {
        again.push((pages, node, bytes))
    });
    assert_eq!((read, again), (Ok(()), found));
}

fn check_lists(text: &[u8]) {
    if let Ok(found) = pids(text) {
        let printed: String = found.iter().map(|pid| format!("{pid}\n")).collect();
        assert_eq!(pids(printed.as_bytes()), Ok(found));
    }
    if let Some(count) = descendants(text) {
        let printed = format!("nr_descendants {count}\n");
        assert_eq!(descendants(printed.as_bytes()), Some(count));
    }
    if lists(text, b"cpu") {
        assert!(text.windows(3).any(|word| word == b"cpu"));
    }
}

/// A name as weir shows it, and gives it to other programs.
fn check_name(path: &[u8]) {
    let name = escape(path);
    assert_eq!(unescape(&name).as_deref(), Some(path), "{name:?}");
    assert!(!name.contains(char::is_control), "{name:?}");
    assert_eq!(
        name.contains("/../"),
        path.windows(4).any(|part| part == b"/../")
    );
}

fuzz_target!(|bytes: &[u8]| {
    check_cpu_stat(bytes);
    check_cpu_max(bytes);
    check_numa_stat(bytes);
    check_lists(bytes);
    check_name(bytes);
    if let Ok(path) = cgroup_path(bytes) {
        assert!(path.first() == Some(&b'/') && !path.contains(&b'\n'));
        check_name(path);
        let line = [b"0::", path, b"\n"].concat();
        assert_eq!(cgroup_path(&line), Ok(path));
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some(path) = unescape(text)
    {
        assert_eq!(escape(&path), text);
    }
    assert!(parse::lines(bytes).all(|line| !line.is_empty() && !line.contains(&b'\n')));
});
