// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of profiles: they say what the report says, load nothing, stay small, and names cannot do harm.

use crate::profile::{Reported, write, write_diff};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use weir_core::window::{Count, CountProvenance, CountScope, WorkloadCounts};
use weir_core::{Nanos, Window, WorkloadId};
use weir_profile::diff::diff;
use weir_profile::findings::RuleOutcome;
use weir_profile::report::{Options, Report, report};
use weir_profile::window_file::{Header, WindowFile};

const SECOND: u64 = 1_000_000_000;
const MIB: usize = 1 << 20;

fn count(role: &str, value: u64) -> Count {
    Count {
        role: role.parse().unwrap(),
        of: CountScope::All,
        value: Ok(value),
        enabled_ns: Nanos(SECOND),
        running_ns: Nanos(SECOND),
        provenance: CountProvenance::Documented,
    }
}

/// A workload that stalls half of its time. Its reads that miss L2 take `longer` times as long as they might.
fn workload(longer: u64) -> Vec<Count> {
    let counts = [
        ("core.any.any.clock", 2_000_000_000),
        ("core.any.any.time-ns", SECOND),
        ("core.any.any.instructions", 900_000_000),
        ("l1d.drd.miss.stalls", 1_000_000_000),
        ("sb.any.any.stalls", 1_000_000),
        ("l1d.drd.own.loads", 200_000_000),
        ("llc.drd.own.loads", 1_000_000),
        ("imc.drd.dram-own.loads", 1_500_000),
        ("device.drd.cxl-own.loads", 2_500_000),
        ("sq.drd.own.lines", 1_000_000),
        ("sq.drd.dram-own.lines", 1_500_000),
        ("sq.drd.cxl-own.lines", 2_500_000),
        ("sq.reads.cxl-own.lines", 2_500_000),
        ("sq.drd.any.inserts", 5_000_000),
        ("sq.drd.any.occupancy", 5_000_000 * 300 * longer),
        ("sq.drd.miss.inserts", 4_000_000),
        ("sq.drd.miss.occupancy", 4_000_000 * 600),
    ];
    counts.map(|(role, value)| count(role, value)).into()
}

/// A machine whose CXL requests stay `cxl_ns` in the table of requests.
fn machine(cxl_ns: u64) -> Vec<Count> {
    let counts = [
        ("tor.any.any.clock", 2_000_000_000),
        ("tor.drd.cxl-own.inserts", 3_000_000),
        ("tor.drd.cxl-own.occupancy", 3_000_000 * 2 * cxl_ns),
        ("tor.drd.dram-own.inserts", 2_000_000),
        ("tor.drd.dram-own.occupancy", 2_000_000 * 200),
    ];
    counts.map(|(role, value)| count(role, value)).into()
}

fn file(windows: Vec<Window>) -> WindowFile {
    WindowFile {
        header: Header {
            capacities: [("tor.drd.cxl-own.occupancy".parse().unwrap(), 16)].into(),
            notes: vec!["</style><script>".into()],
            ..Header::new("a <test>")
        },
        windows,
    }
}

/// A recording of so many windows of a second; load and waiting rise.
fn recording(windows: usize, names: &[String], longer: u64) -> WindowFile {
    let window = |place: usize| Window {
        from: Nanos(place as u64 * SECOND),
        to: Nanos((place as u64 + 1) * SECOND),
        machine: machine(500 + 10 * (place as u64 % 20)),
        workloads: names
            .iter()
            .map(|name| WorkloadCounts {
                id: WorkloadId::new(name.as_str()),
                counts: workload(longer),
            })
            .collect(),
        unassigned: Vec::new(),
    };
    file((0..windows).map(window).collect())
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn reported(now: &WindowFile, idle: Option<&WindowFile>) -> Report {
    let options = Options {
        idle,
        over_time: true,
        ..Options::default()
    };
    report(now, &options)
}

/// The page, with all files beside it.
fn page(name: &str, made: &Report) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let written = write(dir.path(), &Reported { name, report: made }, &[]).unwrap();
    for file in &written {
        let content = fs::read(file).unwrap();
        match file.extension().and_then(|end| end.to_str()) {
            Some("png") => assert!(content.starts_with(b"\x89PNG"), "{}", file.display()),
            Some("json") => drop(serde_json::from_slice::<serde_json::Value>(&content).unwrap()),
            _ => {}
        }
    }
    let files = written.iter().map(|file| file.file_name().unwrap());
    let files = files
        .map(|name| name.to_str().unwrap().to_owned())
        .collect();
    (
        fs::read_to_string(dir.path().join("index.html")).unwrap(),
        files,
    )
}

const VOID: &[&str] = &["meta", "rect", "path", "polyline", "wbr"];

/// Every `<` begins a tag of the house, each tag is closed where it must be, names are unique, and whatever
/// is referred to is there.
fn is_sound(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    for rest in page.split('<').skip(1) {
        let end = rest.find('>').expect("each tag ends");
        let (tag, is_closed) = (&rest[..end], rest[..end].ends_with('/'));
        let name = tag
            .split([' ', '\n', '/'])
            .find(|word| !word.is_empty())
            .unwrap();
        assert!(
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '!'),
            "<{tag}>"
        );
        if let Some((_, id)) = tag.split_once(" id=\"") {
            *ids.entry(id.split('"').next().unwrap()).or_default() += 1;
        }
        match (
            tag.starts_with('/'),
            VOID.contains(&name) || is_closed || name.starts_with('!'),
        ) {
            (true, _) => assert_eq!(open.pop(), Some(name), "</{name}> closes another"),
            (false, true) => {}
            (false, false) => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    assert!(ids.values().all(|count| *count == 1), "{ids:?}");
    let referred = |before: &str, after: char| -> BTreeSet<String> {
        let all = page.split(before).skip(1);
        all.map(|rest| rest.split(after).next().unwrap().to_owned())
            .collect()
    };
    for id in referred("url(#", ')')
        .into_iter()
        .chain(referred("href=\"#", '"'))
    {
        assert!(ids.contains_key(id.as_str()), "#{id}");
    }
}

/// Nothing is loaded from anywhere.
fn stands_alone(page: &str) {
    for word in [
        "http:", "https:", "src=", "@import", "<link", "<script", "<img", "<iframe",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    let urls = page.matches("url(").count();
    assert_eq!(urls, page.matches("url(#").count());
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("@media(prefers-color-scheme:dark)"));
    assert!(page.contains("split by a model"));
}

fn escaped(text: &str) -> String {
    weir_figures::text::escape(text)
}

#[test]
fn the_page_says_what_the_report_says() {
    let workloads = names(&["db", "batch"]);
    let (now, idle) = (recording(30, &workloads, 9), recording(3, &workloads, 1));
    let made = reported(&now, Some(&idle));
    let (page, files) = page("slow.windows", &made);
    is_sound(&page);
    stands_alone(&page);
    assert!(page.contains("<h1>Profile of slow.windows</h1>"));
    for line in &made.headline {
        assert!(page.contains(&escaped(line)), "{line}");
    }
    let mut found = 0;
    for rule in &made.rules {
        if let RuleOutcome::Found(finding) = &rule.outcome {
            let title = format!("{}: {}", rule.subject, finding.what);
            assert!(page.contains(&escaped(&title)), "{title}");
            assert!(page.contains(&escaped(rule.next_move)));
            found += 1;
        }
    }
    assert!(found >= 2, "{:?}", made.headline);
    let ids = [
        "findings", "subjects", "server", "paths", "stalls", "waits", "load", "quality",
    ];
    let places = ids.map(|id| page.find(&format!("<h2 id=\"{id}\"")).expect(id));
    assert!(places.is_sorted(), "findings first: {places:?}");
    for wanted in [
        "index.html",
        "report.json",
        "server-1.png",
        "stalls-1.png",
        "waits-1.png",
        "load-1.png",
    ] {
        assert!(
            files.iter().any(|name| name == wanted),
            "{wanted}: {files:?}"
        );
    }
}

/// Each picture has a label and a table beside it, and shares say what they are parts of.
#[test]
fn pictures_are_not_needed_to_read_it() {
    let workloads = names(&["db"]);
    let made = reported(
        &recording(5, &workloads, 9),
        Some(&recording(2, &workloads, 1)),
    );
    let (page, _) = page("one.windows", &made);
    let pictures = page.matches("role=\"img\" aria-label=\"").count();
    assert!(pictures >= 7, "{pictures}");
    assert!(!page.contains("aria-label=\"\""));
    for table in [
        "Table of the stages",
        "Tables of both maps, db",
        "Tables of the stalls of db",
        "Table of load",
    ] {
        assert!(page.contains(&format!("<summary>{table}")), "{table}");
    }
    assert!(page.contains("drd: shares are of"));
    assert!(page.contains("<th scope=\"col\"") && page.contains("<th scope=\"row\""));
    // Figures without colour: hatches, and the number in each cell of the matrix.
    assert!(page.contains("<pattern id=\"i-cxl-falling\""));
}

#[test]
fn hostile_names_are_text() {
    let hostile = [
        "<script>alert(1)</script>".to_owned(),
        "\"' onload=x data-x='\u{202e}\u{2066}evil\u{200f}".to_owned(),
        format!("{}\n</table><img src=x onerror=alert(1)>", "n".repeat(4096)),
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd} &amp; \u{7}".to_owned(),
    ];
    let made = reported(&recording(4, &hostile, 9), Some(&recording(2, &hostile, 1)));
    for name in ["<script>\"a.windows", "a.windows"] {
        let (page, _) = page(name, &made);
        is_sound(&page);
        stands_alone(&page);
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        let is_override =
            |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200f}');
        assert!(!page.contains(is_override));
        assert!(
            !page.contains(&"n".repeat(200)),
            "a long name loses its end"
        );
    }
}

#[test]
fn the_page_is_small_whatever_the_recording() {
    let many: Vec<String> = (0..100)
        .map(|n| format!("{}/{n}", "\u{1}".repeat(4000)))
        .collect();
    let idle = recording(1, &many, 1);
    let (wide, _) = page(
        "many.windows",
        &reported(&recording(2, &many, 9), Some(&idle)),
    );
    is_sound(&wide);
    assert!(wide.len() < 3 * MIB, "{}", wide.len());
    let pair = names(&["db", "batch"]);
    let long = recording(5000, &pair, 9);
    let (long, _) = page(
        "long.windows",
        &reported(&long, Some(&recording(2, &pair, 1))),
    );
    is_sound(&long);
    assert!(long.len() < MIB, "{}", long.len());
    assert!(long.contains("each step: 42 windows together"));
}

#[test]
fn little_is_said_to_be_little() {
    let empty = file(vec![Window::default()]);
    let (nothing, _) = page("empty.windows", &reported(&empty, None));
    is_sound(&nothing);
    for said in [
        "Nothing was found",
        "not in the recording",
        "No stalls were split",
        "not counted: no widths",
    ] {
        assert!(nothing.contains(said), "{said}");
    }
    let (none, _) = page("none.windows", &reported(&file(Vec::new()), None));
    is_sound(&none);
    let one = recording(1, &names(&["db"]), 1);
    let (one, _) = page("one.windows", &reported(&one, None));
    is_sound(&one);
    assert!(one.contains("One span has no curve") && one.contains("give it with --idle"));
}

#[test]
fn several_devices_are_a_sum_and_stand_apart() {
    let mut made = recording(2, &names(&["db"]), 1);
    for window in &mut made.windows {
        for place in [0, 1] {
            window.machine.push(Count {
                of: CountScope::Device(place),
                ..count("device.reads.cxl.inserts", 1_000_000)
            });
            window.machine.push(Count {
                of: CountScope::Device(place),
                ..count(
                    "device.reads.cxl.lines",
                    1_000_000 * (1 + 3 * u64::from(place)),
                )
            });
            window.machine.push(Count {
                of: CountScope::Socket(place),
                ..count("core.any.any.instructions", 1_000_000)
            });
        }
    }
    let (page, _) = page("two.windows", &reported(&made, None));
    assert!(page.contains("sums over 2 sockets, 2 devices. What is counted"));
    is_sound(&page);
    let rows = page.split("<tr>").filter(|row| row.contains("device 1"));
    let lines: Vec<&str> = rows
        .filter(|row| row.contains("CXL device: all reads"))
        .collect();
    assert!(lines.len() == 1 && lines[0].contains("80"), "{lines:?}");
}

#[test]
fn two_recordings_stand_side_by_side() {
    let (before, after) = (
        recording(12, &names(&["db", "old"]), 1),
        recording(12, &names(&["db", "<new>"]), 9),
    );
    let rows = diff(&before, &after, None, None);
    let [first, second] = [&before, &after].map(|file| reported(file, None));
    let sides = [
        Reported {
            name: "before",
            report: &first,
        },
        Reported {
            name: "after",
            report: &second,
        },
    ];
    let dir = tempfile::tempdir().unwrap();
    write_diff(dir.path(), [&sides[0], &sides[1]], &rows, &[]).unwrap();
    let page = fs::read_to_string(dir.path().join("index.html")).unwrap();
    is_sound(&page);
    stands_alone(&page);
    for said in [
        "before and after compared",
        "Only in A: old.",
        "Only in B: &lt;new&gt;.",
        "A: lines of the machine, before",
        "B: lines of the machine, after",
        "db, A",
        "db, B",
        "class=\"beside\"",
    ] {
        assert!(page.contains(said), "{said}");
    }
    // The reads that take nine times as long, in the column of the workload.
    assert!(
        page.contains("sq.drd.any.occupancy a second</th><td class=\"v\">"),
        "no row of it"
    );
    assert!(page.contains("× 9.00 (9.00 to 9.00)"));
}
