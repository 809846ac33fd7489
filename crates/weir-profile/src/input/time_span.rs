// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part of a recording: the windows that lie wholly within a span of its time.

use crate::report::time;
use crate::window_file::WindowFile;
use std::fmt;
use weir_core::{Nanos, Window};

/// A span of a recording's time, as its windows have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpan {
    /// Its beginning; nothing: that of the recording.
    pub from: Option<Nanos>,
    /// Its end; nothing: that of the recording.
    pub to: Option<Nanos>,
}

/// Why a span of a recording has no windows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeSpanError {
    /// It is empty, or runs backwards.
    #[error("the span ends at {} and begins at {}: give an end after its beginning", time(*to), time(*from))]
    Backwards { from: Nanos, to: Nanos },
    /// No window is in it.
    #[error(
        "no window lies wholly within the span: the recording's {windows} windows go from {} to {}, and the first \
         is {} long", time(*from), time(*to), time(*length)
    )]
    Outside {
        windows: usize,
        from: Nanos,
        to: Nanos,
        /// How long the first is.
        length: Nanos,
    },
    /// The recording has no windows, or none with times.
    #[error("the windows of this recording have no times: count with -I, or record again")]
    NoTimes,
}

impl fmt::Display for TimeSpan {
    /// Writes the span as it is typed: `0.400 ms..`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |at: Option<Nanos>| at.map_or_else(String::new, time);
        write!(f, "{}..{}", end(self.from), end(self.to))
    }
}

impl TimeSpan {
    pub fn is_all(self) -> bool {
        self == TimeSpan::default()
    }

    /// The recording's windows that lie wholly within, with a note that says which.
    ///
    /// # Errors
    /// There is none.
    pub fn of(self, file: &WindowFile) -> Result<WindowFile, TimeSpanError> {
        if self.is_all() {
            return Ok(file.clone());
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && to <= from
        {
            return Err(TimeSpanError::Backwards { from, to });
        }
        let all = &file.windows;
        let timed = || all.iter().filter(|window| window.length().is_some());
        let (Some(first), Some(end)) = (timed().next(), timed().map(|window| window.to).max())
        else {
            return Err(TimeSpanError::NoTimes);
        };
        let is_in = |window: &Window| {
            window.length().is_some()
                && self.from.is_none_or(|from| window.from >= from)
                && self.to.is_none_or(|to| window.to <= to)
        };
        let places = all.iter().enumerate().filter(|(_, window)| is_in(window));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        let (Some(low), Some(high)) = (places.first(), places.last()) else {
            return Err(TimeSpanError::Outside {
                windows: all.len(),
                from: first.from,
                to: end,
                length: first.length().unwrap_or(Nanos(0)),
            });
        };
        let mut header = file.header.clone();
        header.notes.push(format!(
            "only windows {} to {} of {}: {} to {}",
            low + 1,
            high + 1,
            all.len(),
            time(all[*low].from),
            time(all[*high].to)
        ));
        Ok(WindowFile {
            header,
            windows: all.iter().filter(|window| is_in(window)).cloned().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window_file::Header;

    fn file(windows: &[(u64, u64)]) -> WindowFile {
        let window = |(from, to): &(u64, u64)| Window {
            from: Nanos(*from * 1_000_000_000),
            to: Nanos(*to * 1_000_000_000),
            ..Window::default()
        };
        WindowFile {
            header: Header::new("test"),
            windows: windows.iter().map(window).collect(),
        }
    }

    fn span(from: Option<u64>, to: Option<u64>) -> TimeSpan {
        let nanos = |secs: u64| Nanos(secs * 1_000_000_000);
        TimeSpan {
            from: from.map(nanos),
            to: to.map(nanos),
        }
    }

    #[test]
    fn windows_wholly_within_are_taken_and_named() {
        let file = file(&[(10, 11), (11, 12), (12, 13), (13, 14)]);
        let part = span(Some(11), Some(13)).of(&file).unwrap();
        assert_eq!(part.windows, file.windows[1..3]);
        assert_eq!(
            part.header.notes,
            ["only windows 2 to 3 of 4: 11.0 s to 13.0 s"]
        );
        assert_eq!(span(Some(12), None).of(&file).unwrap().windows.len(), 2);
        assert_eq!(span(None, Some(12)).of(&file).unwrap().windows.len(), 2);
        assert_eq!(span(None, None).of(&file), Ok(file));
        assert_eq!(span(Some(11), None).to_string(), "11.0 s..");
        assert_eq!(span(Some(11), Some(13)).to_string(), "11.0 s..13.0 s");
    }

    #[test]
    fn wrong_spans_say_what_the_recording_has() {
        let all = file(&[(10, 11), (11, 12)]);
        let said = |from, to| span(from, to).of(&all).unwrap_err().to_string();
        let outside = said(Some(20), None);
        assert!(
            outside.contains("2 windows go from 10.0 s to 12.0 s"),
            "{outside}"
        );
        assert!(said(None, Some(3)).contains("no window lies wholly within"));
        assert!(said(Some(12), Some(11)).contains("ends at 11.0 s and begins at 12.0 s"));
        assert!(said(Some(11), Some(11)).contains("give an end after its beginning"));
        let timeless = span(Some(1), None).of(&file(&[(1, 1)])).unwrap_err();
        assert_eq!(timeless, TimeSpanError::NoTimes);
    }
}
