// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Format 2 in zstd frames (RFC 8878): each frame is a file by itself, with a header line, series and at most
//! [`WINDOWS_PER_FRAME`] windows. It is flushed after each window, so that a recording that is killed leaves
//! all windows that were written. A frame that was ended has a checksum; one that fails is left out as a
//! whole.

use super::rows::{RowReader, RowWriter};
use super::together::{COUNTS_KEPT_MAX, Together};
use super::{
    Header, LINE_BYTES_MAX, TEXT_BYTES_MAX, WINDOWS_MAX, WindowFile, WindowFileError, check,
};
use std::io;
use weir_core::Window;
use zstd::stream::raw::{CParameter, DParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};

/// How each frame begins.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A damaged byte costs so many windows, and so often names are written anew.
const WINDOWS_PER_FRAME: u32 = 120;
/// Above it, these lines take more time and are hardly smaller.
const LEVEL: i32 = 6;
/// The window that each decoder should support, 8 MiB (RFC 8878, 3.1.1.1.2).
const WINDOW_LOG_MAX: u32 = 23;
/// How a block begins (RFC 8878, 3.1.1.2): what comes next where a frame was flushed.
const BLOCK_HEADER_BYTES: usize = 3;
/// Bytes handed to and fro at once.
const BUFFER_BYTES: usize = 128 << 10;
/// Counts of a file of which each window is wanted: they are all in memory, 64 bytes each.
const COUNTS_OF_FILE_MAX: usize = 32_000_000;

/// Makes the bytes of a file, window by window.
pub struct WindowEncoder {
    header: Header,
    zstd: Encoder<'static>,
    rows: RowWriter,
    is_frame_open: bool,
    in_frame: u32,
    windows: usize,
    text_bytes: u64,
}

impl WindowEncoder {
    /// For a file that begins with this header, whatever format it names.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(header: &Header) -> io::Result<WindowEncoder> {
        let mut zstd = Encoder::new(LEVEL)?;
        zstd.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(WindowEncoder {
            header: Header {
                weir_windows: 2,
                ..header.clone()
            },
            zstd,
            rows: RowWriter::default(),
            is_frame_open: false,
            in_frame: 0,
            windows: 0,
            text_bytes: 0,
        })
    }

    /// The bytes of the first frame's header: a file of no windows yet.
    ///
    /// # Errors
    /// There is no memory.
    pub fn begin(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.begin_frame(&mut bytes)?;
        flush(&mut self.zstd, &mut bytes)?;
        Ok(bytes)
    }

    /// The bytes that a window adds; nothing where a reader would refuse the file with it.
    ///
    /// # Errors
    /// There is no memory. The file can then not go on.
    pub fn add(&mut self, window: &Window) -> io::Result<Option<Vec<u8>>> {
        if self.windows == WINDOWS_MAX {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        if self.in_frame == WINDOWS_PER_FRAME {
            self.end_frame(&mut bytes)?;
        }
        if !self.is_frame_open {
            self.begin_frame(&mut bytes)?;
        }
        let lines = self.rows.lines(window)?;
        if self.text_bytes + LINE_BYTES_MAX as u64 > TEXT_BYTES_MAX || lines.len() > LINE_BYTES_MAX
        {
            return Ok(None);
        }
        self.compress(&lines, &mut bytes)?;
        flush(&mut self.zstd, &mut bytes)?;
        self.windows += 1;
        self.in_frame += 1;
        Ok(Some(bytes))
    }

    /// The bytes that end the file, with its last checksum.
    ///
    /// # Errors
    /// There is no memory.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if self.is_frame_open {
            self.end_frame(&mut bytes)?;
        }
        Ok(bytes)
    }

    fn end_frame(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        drain(bytes, |out| self.zstd.finish(out, true))?;
        self.is_frame_open = false;
        self.zstd.reinit()
    }

    fn begin_frame(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.rows = RowWriter::default();
        (self.is_frame_open, self.in_frame) = (true, 0);
        let header = serde_json::to_string(&self.header)? + "\n";
        self.compress(&header, bytes)
    }

    fn compress(&mut self, text: &str, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.text_bytes += text.len() as u64;
        let mut input = InBuffer::around(text.as_bytes());
        let mut buffer = vec![0; BUFFER_BYTES];
        while input.pos() < text.len() {
            let mut out = OutBuffer::around(buffer.as_mut_slice());
            self.zstd.run(&mut input, &mut out)?;
            bytes.extend_from_slice(out.as_slice());
        }
        Ok(())
    }
}

/// All that was given so far can be read.
fn flush(zstd: &mut Encoder<'static>, bytes: &mut Vec<u8>) -> io::Result<()> {
    drain(bytes, |out| zstd.flush(out))
}

fn drain(
    bytes: &mut Vec<u8>,
    mut step: impl FnMut(&mut OutBuffer<'_, [u8]>) -> io::Result<usize>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let mut out = OutBuffer::around(buffer.as_mut_slice());
        let left = step(&mut out)?;
        bytes.extend_from_slice(out.as_slice());
        if left == 0 {
            return Ok(());
        }
    }
}

/// What is left out of a file.
enum Loss {
    /// It ends in the middle of a line.
    Cut,
    /// It ends in the middle of a frame's header, or before it.
    CutHeader,
    /// A frame's bytes were changed.
    Damaged,
}

pub(super) struct FrameReader<'a> {
    bytes: &'a [u8],
    at: usize,
    header: Option<Header>,
    /// Windows of the frame that is being read.
    windows: Vec<Window>,
    counts: usize,
    kept: Together,
    /// Windows of the file, and whether each of them is wanted.
    window_count: usize,
    /// Whether its last frame ends before its header does.
    is_cut: bool,
    is_exact: bool,
    text_bytes: u64,
    notes: Vec<String>,
}

impl<'a> FrameReader<'a> {
    /// Frames of a file that begins with [`MAGIC`]. Where not each window is wanted, many are taken together.
    pub(super) fn new(bytes: &'a [u8], is_exact: bool) -> FrameReader<'a> {
        FrameReader {
            bytes,
            at: 0,
            header: None,
            windows: Vec::new(),
            counts: 0,
            kept: Together::new(if is_exact {
                usize::MAX / 2
            } else {
                COUNTS_KEPT_MAX
            }),
            window_count: 0,
            is_cut: false,
            is_exact,
            text_bytes: 0,
            notes: Vec::new(),
        }
    }

    /// The whole file.
    ///
    /// # Errors
    /// No frame of it is one of windows, or a frame that is whole has a fault.
    pub(super) fn read(mut self) -> Result<WindowFile, WindowFileError> {
        while self.at < self.bytes.len() {
            let counts = self.counts;
            let begin = self.at;
            match self.frame()? {
                None => {}
                Some(Loss::CutHeader) if self.header.is_none() => self.is_cut = true,
                Some(Loss::Cut | Loss::CutHeader) => self.notes.push(
                    "the recording ended in the middle of a window, which is left out".to_owned(),
                ),
                Some(Loss::Damaged) => {
                    self.windows.clear();
                    self.counts = counts;
                    self.at = self.next_frame(begin + 1);
                    self.note_hole();
                }
            }
            self.window_count += self.windows.len();
            self.windows
                .drain(..)
                .for_each(|window| self.kept.add(window));
            if !self.is_exact {
                self.counts = 0;
            }
        }
        let mut header = self.header.ok_or(if self.is_cut {
            WindowFileError::Cut
        } else {
            WindowFileError::Damaged
        })?;
        let (windows, each) = self.kept.into_windows();
        if each > 1 {
            self.notes.push(format!(
                "it has more than {COUNTS_KEPT_MAX} counts: of its {} windows {each} are taken together as one",
                self.window_count
            ));
        }
        header.notes.append(&mut self.notes);
        Ok(WindowFile { header, windows })
    }

    fn next_frame(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        let found = rest.windows(MAGIC.len()).position(|four| four == MAGIC);
        found.map_or(self.bytes.len(), |place| from + place)
    }

    /// One note for frames that follow each other.
    fn note_hole(&mut self) {
        let note = match self.kept.last() {
            Some(last) => format!(
                "bytes of the file were changed: windows from {:.1} s on are left out, up to the next frame that is whole",
                last.to.0 as f64 / 1e9
            ),
            None => "bytes of the file were changed: its first windows are left out".to_owned(),
        };
        if self.notes.last() != Some(&note) {
            self.notes.push(note);
        }
    }

    /// One frame, and what of it is left out.
    fn frame(&mut self) -> Result<Option<Loss>, WindowFileError> {
        let Ok(mut zstd) = decoder() else {
            return Ok(Some(Loss::Damaged));
        };
        let (mut lines, begin) = (FrameLines::default(), self.at);
        let mut input = InBuffer::around(self.bytes.get(self.at..).unwrap_or_default());
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read_before = input.pos();
            let mut out = OutBuffer::around(buffer.as_mut_slice());
            let Ok(hint) = zstd.run(&mut input, &mut out) else {
                return Ok(Some(Loss::Damaged));
            };
            let got = out.as_slice();
            self.text_bytes += got.len() as u64;
            if self.text_bytes > TEXT_BYTES_MAX || lines.rest.len() > LINE_BYTES_MAX {
                return Err(self.too_long());
            }
            lines.rest.extend_from_slice(got);
            let is_end = hint == 0;
            let is_stuck = got.is_empty() && input.pos() == read_before;
            // A long line is not looked through again at each piece of it.
            let has_end = got.contains(&b'\n') || lines.fault.is_some();
            if has_end && let Some(fault) = self.take_lines(&mut lines)? {
                lines.fault.get_or_insert(fault);
            }
            if is_end || is_stuck {
                self.at += input.pos().max(1);
                return self.ended(lines, hint, begin);
            }
        }
    }

    /// A fault of a frame with a good checksum is the writer's. In one without, it is damage. `hint`: the
    /// bytes that would come next, 0 at the end of a frame. `begin`: where the frame begins.
    fn ended(
        &self,
        lines: FrameLines,
        hint: usize,
        begin: usize,
    ) -> Result<Option<Loss>, WindowFileError> {
        let is_cut = !lines.rest.is_empty() || !matches!(hint, 0 | BLOCK_HEADER_BYTES);
        match (lines.fault, hint == 0) {
            (Some(why), true) => Err(WindowFileError::Line {
                line: lines.count,
                why,
            }),
            (Some(_), false) => Ok(Some(Loss::Damaged)),
            // More bytes are wanted, there are none, and no other frame follows.
            (None, false)
                if !lines.has_header && self.next_frame(begin + 1) == self.bytes.len() =>
            {
                Ok(Some(Loss::CutHeader))
            }
            (None, _) if !lines.has_header => Ok(Some(Loss::Damaged)),
            (None, _) => Ok(is_cut.then_some(Loss::Cut)),
        }
    }

    /// All whole lines; the first fault, in words.
    fn take_lines(&mut self, lines: &mut FrameLines) -> Result<Option<String>, WindowFileError> {
        if lines.fault.is_some() {
            lines.rest.clear();
            return Ok(None);
        }
        let rest = std::mem::take(&mut lines.rest);
        let end = rest
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |place| place + 1);
        lines.rest = rest[end..].to_vec();
        let Ok(text) = std::str::from_utf8(&rest[..end]) else {
            return Ok(Some("it is no UTF-8 text".to_owned()));
        };
        for line in text.lines() {
            lines.count += 1;
            let taken = if lines.has_header {
                self.window_line(line, &mut lines.rows)
            } else {
                self.header_line(line)?
            };
            lines.has_header = true;
            if let Err(why) = taken {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    fn header_line(&mut self, line: &str) -> Result<Result<(), String>, WindowFileError> {
        let header = Header::of_line(line, 2);
        let header = match header {
            Ok(header) => header,
            Err(why @ WindowFileError::Version(_)) => return Err(why),
            Err(why) => return Ok(Err(why.to_string())),
        };
        match &self.header {
            Some(first) if *first != header => Ok(Err(
                "another recording begins in the same file: give each a file of its own".to_owned(),
            )),
            _ => {
                self.header = Some(header);
                Ok(Ok(()))
            }
        }
    }

    fn window_line(&mut self, line: &str, rows: &mut RowReader) -> Result<(), String> {
        let Some(window) = rows.line(line)? else {
            return Ok(());
        };
        self.counts += check(&window)?;
        let windows = self.window_count + self.windows.len();
        if windows == WINDOWS_MAX || self.counts > COUNTS_OF_FILE_MAX {
            return Err(format!(
                "more than {WINDOWS_MAX} windows, or {COUNTS_OF_FILE_MAX} counts: a report can be made of them, and not \
                 a copy"
            ));
        }
        self.windows.push(window);
        Ok(())
    }

    fn too_long(&self) -> WindowFileError {
        WindowFileError::Line {
            line: 1,
            why: format!(
                "its text is longer than {TEXT_BYTES_MAX} bytes, or a line than {LINE_BYTES_MAX}"
            ),
        }
    }
}

#[derive(Default)]
struct FrameLines {
    rest: Vec<u8>,
    rows: RowReader,
    has_header: bool,
    count: usize,
    fault: Option<String>,
}

fn decoder() -> io::Result<Decoder<'static>> {
    let mut zstd = Decoder::new()?;
    zstd.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
    Ok(zstd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;

    /// Nothing is written that no reader takes.
    #[test]
    fn a_file_ends_where_a_reader_stops() {
        let window = Window {
            machine: vec![count("tor.drd.cxl.inserts", 7)],
            ..Window::default()
        };
        let full = |set: fn(&mut WindowEncoder)| {
            let mut encoder = WindowEncoder::new(&Header::new("x")).unwrap();
            encoder.begin().unwrap();
            set(&mut encoder);
            encoder.add(&window).unwrap().is_none()
        };
        assert!(!full(|_| ()));
        assert!(full(|encoder| encoder.windows = WINDOWS_MAX));
        assert!(full(|encoder| encoder.text_bytes = TEXT_BYTES_MAX - 9));
    }
}
