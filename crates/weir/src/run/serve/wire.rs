// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What crosses between writer and server. To the server: frames of any length, which it trusts. From the
//! server: reports of one length, of which the writer trusts nothing.

use super::harmless_words;
use crate::run::page::PageEvent;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use weir_store::metrics::Dialect;

pub const REPORT_BYTES: usize = 1024;
/// Bytes of a report before its words.
const WORDS_AT: usize = 12;
/// Cells of the words that come with a result.
pub const WORDS_CELLS: usize = 300;
/// A length that says: there is no such part.
const NONE: u32 = u32::MAX;

const METRICS_TEXT: u8 = 1;
const METRICS_OPEN: u8 = 2;
const PAGE: u8 = 3;
const BATCH: u8 = 4;

/// What weir tells the process of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Metrics(Dialect, Arc<str>),
    /// An event for viewers that follow, and one for those that begin.
    Page(Option<PageEvent>, Option<PageEvent>),
    /// A batch with its number, to be posted.
    Batch(u64, Arc<[u8]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostResult {
    Sent,
    Later(String),
    Never(String),
}

/// What the process of the server tells weir.
///
/// Without the two flags weir would make events all the time, also where nothing shows them. Without the
/// results, a batch that the server had when it died would be lost, and `weir top` could not say why nothing
/// arrives (ADR 26).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub has_viewers: bool,
    pub has_fresh: bool,
    /// Number of a batch, and what became of it.
    pub result: Option<(u64, PostResult)>,
}

impl Frame {
    /// # Errors
    /// The other side has gone, or takes nothing in time.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, number, parts) = match self {
            Frame::Metrics(Dialect::Prometheus, text) => {
                (METRICS_TEXT, 0, [Some(text.as_bytes()), None])
            }
            Frame::Metrics(Dialect::OpenMetrics, text) => {
                (METRICS_OPEN, 0, [Some(text.as_bytes()), None])
            }
            Frame::Page(tick, full) => (PAGE, 0, [tick.as_deref(), full.as_deref()]),
            Frame::Batch(number, body) => (BATCH, *number, [Some(&**body), None]),
        };
        let mut head = vec![kind];
        head.extend(number.to_le_bytes());
        for part in parts {
            let length = part.map_or(Some(NONE), |part| u32::try_from(part.len()).ok());
            head.extend(length.ok_or(ErrorKind::InvalidInput)?.to_le_bytes());
        }
        to.write_all(&head)?;
        parts
            .into_iter()
            .flatten()
            .try_for_each(|part| to.write_all(part))
    }

    /// The next one; nothing at the end.
    ///
    /// # Errors
    /// The stream ends within one, or holds something else.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
        let mut kind = [0];
        if from.read(&mut kind)? == 0 {
            return Ok(None);
        }
        let (mut number, mut lengths) = ([0; 8], [[0; 4]; 2]);
        from.read_exact(&mut number)?;
        for length in &mut lengths {
            from.read_exact(length)?;
        }
        let [first, second] = lengths.map(u32::from_le_bytes);
        let first = read_part(from, first)?;
        let second = read_part(from, second)?;
        let broken = || io::Error::from(ErrorKind::InvalidData);
        let text = |part: Option<Vec<u8>>| {
            let text = String::from_utf8(part.ok_or_else(broken)?).map_err(|_| broken())?;
            io::Result::Ok(Arc::from(text))
        };
        Ok(Some(match kind {
            [METRICS_TEXT] => Frame::Metrics(Dialect::Prometheus, text(first)?),
            [METRICS_OPEN] => Frame::Metrics(Dialect::OpenMetrics, text(first)?),
            [PAGE] => Frame::Page(first.map(Into::into), second.map(Into::into)),
            [BATCH] => {
                let body = first.ok_or_else(broken)?;
                Frame::Batch(u64::from_le_bytes(number), body.into())
            }
            _ => return Err(broken()),
        }))
    }
}

fn read_part(from: &mut impl Read, length: u32) -> io::Result<Option<Vec<u8>>> {
    if length == NONE {
        return Ok(None);
    }
    let mut part = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut part)?;
    if part.len() as u64 == u64::from(length) {
        Ok(Some(part))
    } else {
        Err(ErrorKind::UnexpectedEof.into())
    }
}

impl Report {
    /// The report as it is sent.
    pub fn bytes(&self) -> [u8; REPORT_BYTES] {
        let mut bytes = [0; REPORT_BYTES];
        let (code, number, words) = match &self.result {
            None => (0, 0, ""),
            Some((number, PostResult::Sent)) => (1, *number, ""),
            Some((number, PostResult::Later(why))) => (2, *number, why.as_str()),
            Some((number, PostResult::Never(why))) => (3, *number, why.as_str()),
        };
        bytes[0] = u8::from(self.has_viewers) | u8::from(self.has_fresh) << 1;
        bytes[1] = code;
        bytes[2..10].copy_from_slice(&number.to_le_bytes());
        let words = &words.as_bytes()[..words.len().min(REPORT_BYTES - WORDS_AT)];
        bytes[WORDS_AT..WORDS_AT + words.len()].copy_from_slice(words);
        bytes
    }

    /// Whatever the bytes are.
    pub fn of(bytes: &[u8; REPORT_BYTES]) -> Report {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[2..10]);
        let words = bytes[WORDS_AT..].split(|byte| *byte == 0).next();
        let words = || harmless_words(words.unwrap_or_default());
        let result = match bytes[1] {
            1 => Some(PostResult::Sent),
            2 => Some(PostResult::Later(words())),
            3 => Some(PostResult::Never(words())),
            _ => None,
        };
        Report {
            has_viewers: bytes[0] & 1 != 0,
            has_fresh: bytes[0] & 2 != 0,
            result: result.map(|result| (u64::from_le_bytes(number), result)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = Option<PageEvent>> {
        let bytes = prop::collection::vec(any::<u8>(), 0..100);
        prop::option::of(bytes.prop_map(PageEvent::from))
    }

    fn frame() -> impl Strategy<Value = Frame> {
        prop_oneof![
            any::<String>().prop_map(|text| Frame::Metrics(Dialect::Prometheus, text.into())),
            any::<String>().prop_map(|text| Frame::Metrics(Dialect::OpenMetrics, text.into())),
            (event(), event()).prop_map(|(tick, full)| Frame::Page(tick, full)),
            (any::<u64>(), prop::collection::vec(any::<u8>(), 0..100))
                .prop_map(|(number, body)| Frame::Batch(number, body.into())),
        ]
    }

    proptest! {
        #[test]
        fn frames_arrive_as_they_were_sent(frames in prop::collection::vec(frame(), 0..5)) {
            let mut bytes = Vec::new();
            for frame in &frames {
                frame.write(&mut bytes).unwrap();
            }
            let mut rest = &bytes[..];
            let next = || Frame::read(&mut rest).unwrap();
            let read: Vec<Frame> = std::iter::from_fn(next).collect();
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn half_a_frame_is_an_error_and_no_bytes_panic(frame in frame(), cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            frame.write(&mut bytes).unwrap();
            let cut = 1 + cut.index(bytes.len() - 1);
            prop_assert!(Frame::read(&mut &bytes[..cut]).is_err());
        }

        /// The server may be in other hands.
        #[test]
        fn any_report_is_two_flags_and_harmless_words(
            begin in prop::collection::vec(any::<u8>(), 12..200)
        ) {
            let mut bytes = [0; REPORT_BYTES];
            bytes[..begin.len()].copy_from_slice(&begin);
            if let Some((_, PostResult::Later(why) | PostResult::Never(why))) = Report::of(&bytes).result {
                prop_assert!(!why.chars().any(char::is_control), "{:?}", why);
            }
        }

        #[test]
        fn reports_arrive_as_they_were_sent(viewers: bool, fresh: bool, number: u64, code in 0..4) {
            let why = "the server answers 503".to_owned();
            let result = match code {
                0 => None,
                1 => Some(PostResult::Sent),
                2 => Some(PostResult::Later(why)),
                _ => Some(PostResult::Never(why)),
            };
            let report = Report {
                has_viewers: viewers,
                has_fresh: fresh,
                result: result.map(|result| (number, result)),
            };
            prop_assert_eq!(Report::of(&report.bytes()), report);
        }
    }

    #[test]
    fn words_are_cut() {
        let long = PostResult::Never("é\u{1b}".repeat(10_000));
        let report = Report {
            result: Some((7, long)),
            ..Report::default()
        };
        let Some((7, PostResult::Never(why))) = Report::of(&report.bytes()).result else {
            panic!("no result");
        };
        assert!(
            why.chars().count() <= WORDS_CELLS && !why.contains('\u{1b}'),
            "{why}"
        );
    }
}
