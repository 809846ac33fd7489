// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that writes lines into memory by DMA, one after the other, into the last ways of the last-level
//! cache. A core that holds the line loses it.

use crate::engine::calendar::Signal;
use crate::engine::clockwork::Clockwork;
use crate::engine::request::NO_CPU;
use crate::machine::DmaFigures;
use crate::memory::pages::virtual_line;
use crate::memory::route::Route;
use crate::words::{Path, Stage};

pub(crate) struct DmaAgent {
    number: u32,
    area: usize,
    position: u64,
    used: u32,
    most: u32,
    pace: u64,
    due: u64,
    ends: u64,
    route: Route,
}

impl DmaAgent {
    /// An agent that writes from `active.0` to `active.1`, picoseconds.
    pub fn new(
        number: u32,
        area: usize,
        figures: &DmaFigures,
        active: (u64, u64),
        route: Route,
    ) -> Self {
        DmaAgent {
            number,
            area,
            position: 0,
            used: 0,
            most: figures.outstanding,
            pace: ((64e6 / figures.mb_per_sec) as u64).max(1),
            due: active.0,
            ends: active.1,
            route,
        }
    }

    pub fn run(&mut self, work: &mut Clockwork) {
        if work.now >= self.ends {
            return;
        }
        while self.used < self.most && self.due <= work.now {
            let line = virtual_line(self.area, self.position);
            self.position = (self.position + 1) % work.pages.lines(self.area);
            self.due += self.pace;
            let Some(line) = work.pages.physical(line) else {
                continue;
            };
            self.used += 1;
            let number = work.begin(line, NO_CPU, Path::Io, Stage::Mesh);
            work.requests[number].parts = 2;
            let hop = self.route.hop(line, NO_CPU, work);
            work.post(hop, Signal::AtCha { request: number });
        }
        if self.used < self.most {
            let agent = self.number;
            work.calendar.post(self.due, Signal::Dma { agent });
        }
    }

    pub fn accepted(&mut self, number: u32, work: &mut Clockwork) {
        let was_full = self.used == self.most;
        self.used -= 1;
        work.forget(number);
        if was_full {
            // What could not be sent is not made up for.
            self.due = self.due.max(work.now);
            self.run(work);
        }
    }
}
