// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::counts::tests::count;
use proptest::prelude::*;
use weir_core::seam::observation::Missing;
use weir_core::window::{UnassignedEvent, WorkloadCounts};
use weir_core::{Nanos, WorkloadId};

const SECOND: u64 = 1_000_000_000;

fn header() -> Header {
    Header {
        family: Some("sapphire-rapids".into()),
        notes: vec!["a note".into()],
        ..Header::new("weir profile record")
    }
}

fn of_workload(name: &str, values: &[(&str, u64)]) -> WorkloadCounts {
    WorkloadCounts {
        id: WorkloadId::new(name),
        counts: values
            .iter()
            .map(|(role, value)| count(role, *value))
            .collect(),
    }
}

/// Two workloads; the second is there in every third window only, and loses a count at times.
fn window(number: u64) -> Window {
    let value = 1_000_000 + (number * 7919) % 1000;
    let mut machine = vec![
        count("tor.drd.cxl.inserts", value),
        count("tor.any.any.clock", u64::MAX - number),
    ];
    machine[0].running_ns = Nanos(SECOND / 4 + number);
    let mut workloads = vec![of_workload(
        "/a",
        &[
            ("core.any.any.clock", value * 3),
            ("l1d.drd.miss.stalls", 0),
        ],
    )];
    if number.is_multiple_of(3) {
        workloads.push(of_workload("/b", &[("core.any.any.clock", number)]));
    }
    if number % 5 == 4 {
        workloads[0].counts[1].value = Err(Missing::Lost("the counter went away".into()));
    }
    Window {
        from: Nanos(number * SECOND),
        to: Nanos((number + 1) * SECOND),
        machine,
        workloads,
        ..Window::default()
    }
}

/// A file of windows, and where each of them ends.
fn written(windows: &[Window]) -> (Vec<u8>, Vec<usize>) {
    let mut encoder = WindowEncoder::new(&header()).unwrap();
    let mut bytes = encoder.begin().unwrap();
    let mut ends = vec![bytes.len()];
    for window in windows {
        bytes.extend(encoder.add(window).unwrap().unwrap());
        ends.push(bytes.len());
    }
    bytes.extend(encoder.finish().unwrap());
    (bytes, ends)
}

fn windows(count: u64) -> Vec<Window> {
    (0..count).map(window).collect()
}

#[test]
fn all_windows_read_back_in_several_frames() {
    let all = windows(300);
    let (bytes, _) = written(&all);
    assert_eq!(
        bytes
            .windows(4)
            .filter(|four| *four == frames::MAGIC)
            .count(),
        3
    );
    let read = WindowFile::read(&bytes).unwrap();
    assert_eq!(read.windows, all);
    assert_eq!(
        read.header,
        Header {
            weir_windows: 2,
            ..header()
        }
    );
    let none = WindowFile::read(&written(&[]).0).unwrap();
    assert!(none.windows.is_empty() && none.header.notes == ["a note"]);
}

#[test]
fn what_is_rare_reads_back() {
    let mut odd = window(0);
    odd.unassigned = vec![UnassignedEvent {
        event: "x.y".into(),
        workload: Some(WorkloadId::new("/a")),
        of: weir_core::window::CountScope::All,
        value: Ok(3),
    }];
    odd.workloads.push(of_workload("/idle", &[]));
    let empty = Window {
        from: Nanos(5),
        to: Nanos(5),
        ..Window::default()
    };
    let all = [empty.clone(), odd.clone(), empty, odd];
    assert_eq!(WindowFile::read(&written(&all).0).unwrap().windows, all);
}

/// Each window is flushed: a kill loses what was not written, and no more.
#[test]
fn a_file_that_is_cut_is_read_up_to_the_cut() {
    let all = windows(130);
    let (bytes, ends) = written(&all);
    let odd = (ends[0]..bytes.len()).step_by(37);
    let at_ends = ends.iter().flat_map(|end| [end - 1, *end, end + 1]);
    for at in odd
        .chain(at_ends)
        .filter(|at| *at >= ends[0] && *at < bytes.len())
    {
        let read = WindowFile::read(&bytes[..at]).unwrap();
        let whole = ends.iter().filter(|end| **end <= at).count() - 1;
        assert_eq!(read.windows, all[..whole], "{at}");
        let is_said = read
            .header
            .notes
            .iter()
            .any(|note| note.contains("in the middle of a window"));
        let is_changed = read
            .header
            .notes
            .iter()
            .any(|note| note.contains("changed"));
        assert!(!is_changed, "{at}: {:?}", read.header.notes);
        // A frame ends and another begins with the first window of that one.
        let is_between = at > ends[120] && at < ends[121];
        assert!(
            is_said != ends.contains(&at) || is_between,
            "{at}: {:?}",
            read.header.notes
        );
    }
}

#[test]
fn a_changed_byte_costs_its_frame_and_is_said() {
    let all = windows(300);
    let (bytes, ends) = written(&all);
    let mut changed = bytes.clone();
    changed[ends[150]] ^= 0x10;
    let read = WindowFile::read(&changed).unwrap();
    let whole: Vec<Window> = [&all[..120], &all[240..]].concat();
    assert_eq!(read.windows, whole);
    assert!(
        read.header.notes[1].contains("windows from 120.0 s on are left out"),
        "{:?}",
        read.header.notes
    );
    // Of the first frame: the header is in each.
    let mut changed = bytes.clone();
    changed[ends[3]] ^= 1;
    let read = WindowFile::read(&changed).unwrap();
    assert_eq!(read.windows, all[120..]);
    assert!(read.header.notes[1].contains("first windows are left out"));
    let one = &bytes[..ends[0]];
    let mut changed = one.to_vec();
    changed[one.len() / 2] ^= 1;
    changed.extend(b"more");
    let why = WindowFile::read(&changed).unwrap_err().to_string();
    assert!(why.contains("no part of it is whole"), "{why}");
}

/// Nothing of it was changed: it ends too soon.
#[test]
fn a_file_that_is_cut_before_its_first_window_says_so() {
    let (bytes, ends) = written(&windows(3));
    for at in 1..ends[0] {
        match WindowFile::read(&bytes[..at]) {
            Err(why) => assert_eq!(why, WindowFileError::Cut, "{at}"),
            // The header's text is whole some bytes before its block is.
            Ok(read) => assert!(read.windows.is_empty() && at + 4 > ends[0], "{at}"),
        }
    }
    assert!(
        WindowFileError::Cut
            .to_string()
            .contains("cut off in its first bytes")
    );
}

#[test]
fn a_file_is_much_smaller_than_text() {
    let all = windows(600);
    let (bytes, _) = written(&all);
    let text = WindowFile {
        header: header(),
        windows: all,
    }
    .to_text()
    .unwrap();
    assert!(
        bytes.len() * 20 < text.len(),
        "{} of {}",
        bytes.len(),
        text.len()
    );
}

/// A frame of these lines, with a checksum.
fn frame(lines: &[&str]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    for line in lines {
        std::io::Write::write_all(&mut encoder, format!("{line}\n").as_bytes()).unwrap();
    }
    encoder.finish().unwrap()
}

const FIRST: &str = "{\"weir_windows\":2,\"source\":\"made up\"}";
const SERIES: &str =
    "{\"series\":[{\"role\":\"tor.drd.cxl.inserts\",\"provenance\":\"documented\"}]}";

#[test]
fn faults_of_whole_frames_are_named() {
    let said = |lines: &[&str]| WindowFile::read(&frame(lines)).unwrap_err().to_string();
    let window = |rest: &str| format!("{{\"from\":0,\"to\":9,{rest}}}");
    let good = window("\"rows\":[0],\"deltas\":[7],\"sets\":[[9,9]],\"set_of\":[0]");
    assert!(WindowFile::read(&frame(&[FIRST, SERIES, &good])).is_ok());
    assert!(
        said(&["{\"weir_windows\":3,\"source\":\"\"}"])
            .contains("format 3 of windows is not known")
    );
    let no_series = said(&[FIRST, &good]);
    assert!(
        no_series.contains("line 2") && no_series.contains("no series 0"),
        "{no_series}"
    );
    let no_set = window("\"rows\":[0],\"deltas\":[7],\"sets\":[],\"set_of\":[0]");
    assert!(said(&[FIRST, SERIES, &no_set]).contains("line 3: row 0: there is no set 0"));
    let uneven = window("\"rows\":[0],\"deltas\":[7,8],\"sets\":[[9,9]],\"set_of\":[0]");
    assert!(said(&[FIRST, SERIES, &uneven]).contains("1 rows have 2 deltas"));
    let ran = window("\"rows\":[0],\"deltas\":[7],\"sets\":[[9,10]],\"set_of\":[0]");
    assert!(said(&[FIRST, SERIES, &ran]).contains("ran longer than it was enabled"));
    let two = [
        frame(&[FIRST]),
        frame(&["{\"weir_windows\":2,\"source\":\"another\"}"]),
    ]
    .concat();
    let why = WindowFile::read(&two).unwrap_err().to_string();
    assert!(why.contains("another recording begins"), "{why}");
}

#[test]
fn a_frame_that_unpacks_without_end_is_refused() {
    let zeros = vec![b' '; 1 << 20];
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    for _ in 0..70 {
        std::io::Write::write_all(&mut encoder, &zeros).unwrap();
    }
    let why = WindowFile::read(&encoder.finish().unwrap())
        .unwrap_err()
        .to_string();
    assert!(why.contains("longer than"), "{why}");
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = WindowFile::read(&bytes);
        let _ = WindowFile::read(&[&frames::MAGIC[..], &bytes].concat());
    }

    #[test]
    fn damage_never_makes_windows_that_were_not_there(
        at in any::<prop::sample::Index>(), put in any::<u8>(), removed in 0usize..9,
    ) {
        let all = windows(130);
        let (mut bytes, _) = written(&all);
        let at = at.index(bytes.len());
        let end = (at + removed).min(bytes.len());
        bytes.splice(at..end, [put]);
        if let Ok(read) = WindowFile::read(&bytes) {
            prop_assert!(read.windows.iter().all(|window| all.contains(window)));
        }
    }
}
