// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are the metrics of `weir run --metrics` true, and do the tools of the formats' authors accept them?

use crate::world::server::{free_address, program_of};
use crate::world::{HEAVY, LIGHT, World, long_name, stderr};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";
/// The reference parser of OpenMetrics refuses what is not strictly in the format.
const REFERENCE: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        print(family.name, family.type, family.unit, sample.name, sample.labels, sample.value)
";

pub fn scrape(address: SocketAddr, accept: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: weir\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))?;
    assert_eq!(length.parse(), Ok(body.len()));
    head.starts_with("HTTP/1.1 200 ")
        .then(|| (head.to_owned(), body.to_owned()))
}

pub fn value(page: &str, sample: &str) -> Option<f64> {
    let mut lines = page.lines();
    lines.find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

/// What a program prints about the page, or nothing where it is not installed (stderr has the reason).
fn checked_by(program: &str, args: &[&str], page: &str, package: &str) -> Option<String> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("SKIP {program}: not installed (package {package})");
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    // If it ends early, its exit status decides.
    let _ = stdin.write_all(page.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("No module named") {
        eprintln!("SKIP {program}: {said} (package {package})");
        return None;
    }
    assert!(
        output.status.success() && said.is_empty(),
        "{program}: {said}\n{page}"
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_page_is_true_and_well_formed() {
    let hostile = "/a\"b\\c\n# EOF\u{1b}[2J";
    let world = World::with(&[hostile, &long_name()]);
    let address = free_address();
    let offer = format!("--metrics={address}");
    let daemon = world.start(&["run", "--limit", "--set-point", "300MiB/s", &offer]);
    let heavy = format!(
        "weir_cgroup_cxl_bytes_total{{cgroup=\"{}\",source=\"apportioned\"}}",
        HEAVY[0]
    );
    let limit = format!("weir_cgroup_limit_cpus{{cgroup=\"{}\"}}", HEAVY[0]);
    let mut page = String::new();
    world.wait("limits are shown", || {
        page = scrape(address, OPEN_METRICS)
            .map(|(_, page)| page)
            .unwrap_or_default();
        value(&page, &limit).is_some() && value(&page, &heavy).is_some_and(|bytes| bytes > 1e8)
    });
    let (head, older) = scrape(address, "text/plain").unwrap();
    assert!(
        head.contains("Content-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        scrape(address, OPEN_METRICS)
            .unwrap()
            .0
            .contains("Content-Type: application/openmetrics-text")
    );
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));

    is_true(&page);
    is_accepted(&page, &older);
}

fn is_true(page: &str) {
    let device = "{device=\"cxl0\",group=\"0\",node=\"1\"}";
    let read = value(page, &format!("weir_cxl_read_bytes_total{device}")).unwrap();
    let write = value(page, &format!("weir_cxl_write_bytes_total{device}")).unwrap();
    assert!(
        (read / write - 3.0).abs() < 0.01,
        "three quarters are reads: {read} and {write}"
    );
    assert_eq!(
        value(page, "weir_cxl_set_point_bytes_per_second{device=\"cxl0\"}"),
        Some(314_572_800.0)
    );
    assert!(
        value(
            page,
            &format!("{}{{cgroup=\"{LIGHT}\"}}", "weir_cgroup_cpu_seconds_total")
        )
        .unwrap()
            > 0.0
    );
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'), "{page}");
    assert_eq!(
        page.matches("# EOF").count(),
        1 + page.matches("\\\\012# EOF").count()
    );
    assert!(page.ends_with("\n# EOF\n"), "{page}");
    let long = long_name().replace('\n', "\\\\012");
    assert!(page.contains(&long), "{page}");
}

fn is_accepted(page: &str, older: &str) {
    if let Some(read) = checked_by(
        "/usr/bin/python3",
        &["-c", REFERENCE],
        page,
        "python3-prometheus-client",
    ) {
        assert!(
            read.contains("weir_cxl_read_bytes counter bytes weir_cxl_read_bytes_total"),
            "{read}"
        );
        // Shown by Python, which doubles backslashes once more.
        assert!(read.contains("/a\"b\\\\c\\\\012# EOF\\\\033[2J"), "{read}");
    }
    if let Some(promtool) = program_of("prometheus", "promtool") {
        let promtool = promtool.to_str().unwrap();
        checked_by(promtool, &["check", "metrics"], older, "prometheus");
    }
}

#[test]
fn processes_leave_no_series_behind() {
    let world = World::new();
    let address = free_address();
    let offer = format!("--metrics={address}");
    let daemon = world.start(&["run", "--workloads", "process", &offer]);
    let mut page = String::new();
    world.wait("ticks are shown", || {
        page = scrape(address, OPEN_METRICS)
            .map(|(_, page)| page)
            .unwrap_or_default();
        value(&page, "weir_ticks_total").is_some_and(|ticks| ticks > 20.0)
    });
    assert!(
        page.contains("weir_cxl_read_bytes_total{") && !page.contains("pid"),
        "{page}"
    );
    let second = world.weir(&["run", "--duration", "1s", &offer]);
    assert_eq!(second.status.code(), Some(2));
    assert!(
        stderr(&second).contains("cannot offer metrics"),
        "{}",
        stderr(&second)
    );
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));
}
