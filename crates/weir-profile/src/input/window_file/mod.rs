// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of windows: lines of JSON, the first says of what machine they are. docs/reference/windows.md
//! describes it for other programs. Format 1 is plain text with all keys in each line, for programs that make
//! or read one; format 2 ([`frames`], [`rows`]) is what weir records, fifty times smaller. A file is hostile
//! input: lines, windows, counts and names are bounded, and unknown keys are refused.

#[cfg(test)]
mod format2_tests;
mod frames;
mod rows;
mod together;

pub use frames::WindowEncoder;

use crate::stages::Capacities;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_core::Window;
use weir_core::window::{Count, CountScope};

/// The format of plain text.
pub const VERSION: u32 = 1;
/// Bytes of a file.
pub const FILE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of the lines in a file, once they are decompressed.
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// All formats that are read.
const FORMATS: [u32; 2] = [1, 2];
/// Bytes of a line.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Windows of a file: a second each, 11 days.
const WINDOWS_MAX: usize = 1_000_000;
/// Counts of a window.
const COUNTS_MAX: usize = 1_000_000;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 8192;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub weir_windows: u32,
    /// The family of the CPU, as `weir events` names it; nothing where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The program that counted, or the source of the figures.
    pub source: String,
    /// Entries of queues, by the role of their occupancy.
    #[serde(default, skip_serializing_if = "Capacities::is_empty")]
    pub capacities: Capacities,
    /// Sockets that ports and devices are attached to, where there are several sockets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sockets: BTreeMap<CountScope, u32>,
    /// The most bytes that DRAM of a socket gives in a second, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_bytes_per_sec: Option<u64>,
    /// What a reader must know: lines that could not be read, events that count in user mode only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Header {
    /// A header of this version, with its source alone.
    pub fn new(source: impl Into<String>) -> Header {
        Header {
            weir_windows: VERSION,
            family: None,
            source: source.into(),
            capacities: Capacities::new(),
            sockets: BTreeMap::new(),
            dram_bytes_per_sec: None,
            notes: Vec::new(),
        }
    }

    /// The first line of a file of this format.
    fn of_line(line: &str, format: u32) -> Result<Header, WindowFileError> {
        let header: Header = serde_json::from_str(line).map_err(|e| header_error(line, &e))?;
        match header.weir_windows {
            found if found == format => {}
            2 => return Err(WindowFileError::Decompressed),
            found => return Err(WindowFileError::Version(found)),
        }
        if let Some((queue, _)) = header.capacities.iter().find(|(_, entries)| **entries == 0) {
            let why = format!("capacities: {queue} has 0 entries, and a queue has one at least");
            return Err(WindowFileError::Line { line: 1, why });
        }
        if header.dram_bytes_per_sec == Some(0) {
            let why = "dram_bytes_per_sec is 0, and DRAM gives something".to_owned();
            return Err(WindowFileError::Line { line: 1, why });
        }
        Ok(header)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct WindowFile {
    pub header: Header,
    pub windows: Vec<Window>,
}

/// Why a file is none of windows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowFileError {
    /// Nothing is in it.
    #[error("the file is empty: `weir profile import` writes files of windows")]
    Empty,
    /// A format of a later weir, or of none.
    #[error("format {0} of windows is not known to this weir, which reads formats 1 and 2")]
    Version(u32),
    /// Lines of format 2 that are decompressed already.
    #[error("its lines are of format 2, which is read compressed: compress it with zstd")]
    Decompressed,
    /// The first bytes of a recording, and no more.
    #[error(
        "the file is cut off in its first bytes, before its first window: copy it again, or record again"
    )]
    Cut,
    /// Frames of which none is whole.
    #[error("bytes of the file were changed, and no part of it is whole: record again")]
    Damaged,
    /// The first line is none of such a file.
    #[error(
        "no file of windows: its first line is not a header ({0}); make one with `weir profile import`"
    )]
    Header(String),
    #[error("line {line}: {why}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        why: String,
    },
}

impl WindowFile {
    /// Reads one of either format.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn read(bytes: &[u8]) -> Result<WindowFile, WindowFileError> {
        WindowFile::read_as(bytes, true)
    }

    /// The same for a report: of a recording that is too long for memory, windows that follow each other are
    /// taken together, and a note says so.
    ///
    /// # Errors
    /// As [`WindowFile::read`].
    pub fn read_for_report(bytes: &[u8]) -> Result<WindowFile, WindowFileError> {
        WindowFile::read_as(bytes, false)
    }

    fn read_as(bytes: &[u8], is_exact: bool) -> Result<WindowFile, WindowFileError> {
        if bytes.starts_with(&frames::MAGIC) {
            return frames::FrameReader::new(bytes, is_exact).read();
        }
        if !bytes.is_empty() && frames::MAGIC.starts_with(bytes) {
            return Err(WindowFileError::Cut);
        }
        // Names need not be UTF-8.
        WindowFile::parse(&String::from_utf8_lossy(bytes))
    }

    /// Reads one of format 1. A last line without its end, of a recording that was killed, is left out, and a
    /// note says so.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn parse(text: &str) -> Result<WindowFile, WindowFileError> {
        let mut lines = text.lines().enumerate();
        let (_, first) = lines.next().ok_or(WindowFileError::Empty)?;
        let mut header = Header::of_line(first, VERSION)?;
        let cut = cut_line(text);
        let mut windows = Vec::new();
        for (place, line) in lines {
            let wrong = |why: String| WindowFileError::Line {
                line: place + 1,
                why,
            };
            if line.trim().is_empty() {
                continue;
            }
            if line.len() > LINE_BYTES_MAX || windows.len() == WINDOWS_MAX {
                return Err(wrong(
                    "the line is too long, or the file has too many".into(),
                ));
            }
            match serde_json::from_str::<Window>(line) {
                Ok(window) => {
                    check(&window).map_err(wrong)?;
                    windows.push(together::without_room(window));
                }
                Err(why) if why.is_eof() && cut == Some(line) => {
                    header.notes.push(format!(
                        "line {} is cut: the recording ended in the middle of it, and it is left out",
                        place + 1
                    ));
                }
                Err(why) => return Err(wrong(why.to_string())),
            }
        }
        Ok(WindowFile { header, windows })
    }

    /// The file as it is written in format 1.
    ///
    /// # Errors
    /// A value that JSON does not have; there is none.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let header = Header {
            weir_windows: VERSION,
            ..self.header.clone()
        };
        let mut text = serde_json::to_string(&header)? + "\n";
        for window in &self.windows {
            text += &serde_json::to_string(window)?;
            text.push('\n');
        }
        Ok(text)
    }
}

/// A last line without its end.
fn cut_line(text: &str) -> Option<&str> {
    let last = text.rsplit('\n').next();
    last.filter(|line| !line.is_empty())
}

/// A file of a later format has keys of its own; its number is what matters.
fn header_error(line: &str, why: &serde_json::Error) -> WindowFileError {
    #[derive(Deserialize)]
    struct VersionOnly {
        weir_windows: u32,
    }
    match serde_json::from_str::<VersionOnly>(line) {
        Ok(found) if !FORMATS.contains(&found.weir_windows) => {
            WindowFileError::Version(found.weir_windows)
        }
        _ => WindowFileError::Header(why.to_string()),
    }
}

/// Whether a window can be, and how many counts it has.
fn check(window: &Window) -> Result<usize, String> {
    if window.to < window.from {
        return Err("the window ends before it begins".into());
    }
    let of_workloads = window
        .workloads
        .iter()
        .flat_map(|workload| &workload.counts);
    let counts: Vec<&Count> = window.machine.iter().chain(of_workloads).collect();
    if counts.len() + window.unassigned.len() > COUNTS_MAX {
        return Err(format!("more than {COUNTS_MAX} counts"));
    }
    if let Some(count) = counts
        .iter()
        .find(|count| count.running_ns > count.enabled_ns)
    {
        return Err(format!("{} ran longer than it was enabled", count.role));
    }
    let names = window.workloads.iter().map(|workload| workload.id.as_str());
    let events = window.unassigned.iter().map(|count| count.event.as_str());
    if names.chain(events).any(|name| name.len() > NAME_BYTES_MAX) {
        return Err(format!("a name is longer than {NAME_BYTES_MAX} bytes"));
    }
    Ok(counts.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;
    use proptest::prelude::*;
    use weir_core::Nanos;

    fn file() -> WindowFile {
        WindowFile {
            header: Header {
                family: Some("sapphire-rapids".into()),
                capacities: [("lfb.drd.any.occupancy".parse().unwrap(), 16)].into(),
                notes: vec!["a note".into()],
                ..Header::new("perf stat")
            },
            windows: vec![Window {
                from: Nanos(0),
                to: Nanos(1_000_000_000),
                machine: vec![count("tor.drd.cxl.inserts", 7)],
                ..Window::default()
            }],
        }
    }

    #[test]
    fn a_file_reads_back() {
        let text = file().to_text().unwrap();
        assert_eq!(text.lines().count(), 2);
        assert_eq!(WindowFile::parse(&text), Ok(file()));
        assert_eq!(WindowFile::parse(&(text + "\n\n")), Ok(file()));
    }

    /// Wherever a recording was killed: all whole lines are read.
    #[test]
    fn a_file_that_is_cut_is_read_up_to_the_cut() {
        let mut two = file();
        two.windows.extend(two.windows.clone());
        let text = two.to_text().unwrap();
        let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let (header, last) = (ends[0], ends[1]);
        for at in header..text.len() - 1 {
            let read = WindowFile::parse(&text[..at]).unwrap();
            // The end of a line may be missing.
            let whole = usize::from(at >= last - 1);
            assert_eq!(read.windows, two.windows[..whole], "{at}");
            let is_cut = at != header && at != last && at != last - 1;
            assert_eq!(read.header.notes.len(), 1 + usize::from(is_cut), "{at}");
        }
        let cut = WindowFile::parse(&text[..last + 9]).unwrap();
        assert!(cut.header.notes[1].contains("line 3 is cut"));
        // One that goes on behind its fault was not cut.
        let torn = text.replacen("\"machine\"", "\"mach", 2);
        assert!(WindowFile::parse(torn.trim_end()).is_err());
        assert!(WindowFile::parse(&(text[..last + 9].to_owned() + "\n")).is_err());
    }

    #[test]
    fn each_fault_is_named() {
        let text = file().to_text().unwrap();
        let said = |old: &str, new: &str| {
            let changed = text.replacen(old, new, 1);
            assert_ne!(changed, text, "{old}");
            WindowFile::parse(&changed).unwrap_err().to_string()
        };
        assert!(said("\"weir_windows\":1", "\"weir_windows\":3,\"x\":1").contains("format 3"));
        assert!(said("\"weir_windows\":1", "\"weir_windows\":2").contains("compress it with zstd"));
        assert!(said("\"weir_windows\":1,", "").contains("weir profile import"));
        assert!(
            said("\"from\":0", "\"from\":2000000000").contains("line 2: the window ends before")
        );
        let none = said("occupancy\":16", "occupancy\":0");
        assert!(none.contains("line 1: capacities: lfb.drd.any"), "{none}");
        let none = said("\"source\"", "\"dram_bytes_per_sec\":0,\"source\"");
        assert!(none.contains("dram_bytes_per_sec is 0"), "{none}");
        let none = said("\"source\"", "\"sockets\":{\"port\":1},\"source\"");
        assert!(none.contains("port:N or device:N is wanted"), "{none}");
        assert!(said("tor.drd.cxl", "tor.drd.cow").contains("no target of a role is called"));
        let longer = said("\"running_ns\":1000000000", "\"running_ns\":1000000001");
        assert!(
            longer.contains("ran longer than it was enabled"),
            "{longer}"
        );
        assert!(said("\"value\":{\"Ok\":7}", "\"value\":{\"Ok\":-7}").contains("line 2"));
        assert!(
            said(
                "\"value\":{\"Ok\":7}",
                "\"value\":{\"Ok\":18446744073709551616}"
            )
            .contains("line 2")
        );
        assert_eq!(WindowFile::parse(""), Err(WindowFileError::Empty));
        assert!(WindowFile::parse("SQLite format 3\0").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(?s).{0,200}") {
            let _ = WindowFile::parse(&text);
        }

        #[test]
        fn a_damaged_file_is_survived(at: prop::sample::Index, removed in 0usize..30, put in "[ -~\n]{0,6}") {
            let text = file().to_text().unwrap();
            let at = at.index(text.len());
            let tail = &text[(at + removed).min(text.len())..];
            if let Ok(read) = WindowFile::parse(&format!("{}{put}{tail}", &text[..at])) {
                prop_assert_eq!(WindowFile::parse(&read.to_text().unwrap()), Ok(read));
            }
        }
    }
}
