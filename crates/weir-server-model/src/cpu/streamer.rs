// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The second-level prefetcher: follows ascending streams of lines and goes ahead of them. It goes on from
//! page to page, as the next-page prefetchers of today's cores do.

use crate::machine::PrefetchFigures;

/// A stream is followed if an access is at most so many lines past its last one.
const REACH_LINES: u64 = 8;
/// Accesses in a row before the prefetcher goes ahead of a stream. A single pair of neighbouring lines is no
/// stream yet, and lines fetched for it would be of no use.
const CONFIDENCE: u32 = 2;

#[derive(Clone, Copy)]
struct Stream {
    last: u64,
    next: u64,
    next_far: u64,
    hits: u32,
    used: u64,
}

/// Lines that are to be fetched, by virtual name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    /// First line and number of lines for L2.
    pub near: (u64, u64),
    /// First line and number of lines for the last-level cache.
    pub far: (u64, u64),
}

pub(crate) struct Streamer {
    streams: Vec<Stream>,
    most: usize,
    distance: u64,
    far_distance: u64,
    degree: u64,
    clock: u64,
}

impl Streamer {
    pub fn new(figures: &PrefetchFigures) -> Self {
        Streamer {
            streams: Vec::new(),
            most: figures.streams as usize,
            distance: u64::from(figures.distance_lines),
            far_distance: u64::from(figures.llc_distance_lines),
            degree: u64::from(figures.degree),
            clock: 0,
        }
    }

    /// An access to a virtual line, after L1D missed it.
    pub fn observe(&mut self, line: u64) -> Ahead {
        self.clock += 1;
        let clock = self.clock;
        let near = |s: &&mut Stream| line >= s.last && line <= s.last + REACH_LINES;
        let Some(stream) = self.streams.iter_mut().find(near) else {
            self.begin(line);
            return Ahead::default();
        };
        stream.used = clock;
        if line > stream.last {
            stream.hits += 1;
            stream.last = line;
        }
        if stream.hits < CONFIDENCE {
            return Ahead::default();
        }
        let mut ahead = Ahead::default();
        stream.next = stream.next.max(line + 1);
        let end = line + self.distance + 1;
        ahead.near = (
            stream.next,
            end.saturating_sub(stream.next).min(self.degree),
        );
        if self.far_distance > self.distance {
            stream.next_far = stream.next_far.max(end);
            let far_end = line + self.far_distance + 1;
            let count = far_end.saturating_sub(stream.next_far).min(self.degree);
            ahead.far = (stream.next_far, count);
            stream.next_far += count;
        }
        ahead
    }

    /// So many lines of the last answer for L2 have been asked for.
    pub fn advance(&mut self, first: u64, lines: u64) {
        if let Some(stream) = self.streams.iter_mut().find(|s| s.next == first) {
            stream.next += lines;
        }
    }

    fn begin(&mut self, line: u64) {
        let stream = Stream {
            last: line,
            next: line + 1,
            next_far: line + 1,
            hits: 0,
            used: self.clock,
        };
        if self.streams.len() < self.most {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.used) {
            *oldest = stream;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamer() -> Streamer {
        Streamer::new(&PrefetchFigures {
            l1_next_line: false,
            streams: 2,
            distance_lines: 8,
            degree: 4,
            queue_limit: 0,
            llc_distance_lines: 0,
        })
    }

    #[test]
    fn an_ascending_stream_is_followed_and_random_lines_are_not() {
        let mut ahead = streamer();
        assert_eq!(ahead.observe(100).near.1, 0);
        assert_eq!(ahead.observe(101).near.1, 0);
        assert_eq!(ahead.observe(102).near, (103, 4), "degree bounds the first");
        ahead.advance(103, 4);
        assert_eq!(ahead.observe(103).near, (107, 4));
        ahead.advance(107, 2);
        assert_eq!(
            ahead.observe(104).near,
            (109, 4),
            "what was refused is asked for again"
        );
        for n in 0..50 {
            assert_eq!(ahead.observe(10_000 * n).near.1, 0);
        }
    }
}
