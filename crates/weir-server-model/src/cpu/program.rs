// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stream of memory accesses of one CPU: what a phase says, with random numbers of its own, so that
//! neighbours do not change it.

use crate::machine::timings::picos;
use crate::machine::workload::{AccessKind, AccessMix, Pattern, Phase, Workload};
use crate::memory::pages::{PageTable, virtual_line};
use weir_core::random::SplitMix;

/// What one step does with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    NtStore,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub access: Access,
    /// Number of the virtual line.
    pub line: u64,
    /// Instructions before it.
    pub gap: u32,
    /// Accesses to the line, this one included.
    pub per_line: u32,
    /// Number of the mix, for the loads that later ones depend on.
    pub mix: usize,
    /// It needs the load so many before it in its mix; 0: none.
    pub needs: u32,
    /// Not before this, picoseconds.
    pub not_before: u64,
}

/// An area as a mix walks over it.
struct Walk {
    area: usize,
    lines: u64,
    hot_lines: u64,
    position: u64,
    stride: u64,
    /// Lines of the present run that are still to come.
    left: u32,
}

struct MixState {
    figures: AccessMix,
    walk: Walk,
}

struct PhaseState {
    length: Option<u64>,
    pace: Option<f64>,
    ipc: f64,
    mixes: Vec<MixState>,
    weights: f64,
}

pub(crate) struct Program {
    phases: Vec<PhaseState>,
    phase: usize,
    phase_ends: u64,
    ends: u64,
    random: SplitMix,
    /// When the next line is due, if the program is paced.
    due: f64,
    /// The second half of an update.
    pending: Option<Step>,
}

/// Later than any run ends, picoseconds.
const NEVER: u64 = 1 << 62;
/// The most that a paced program which has fallen back catches up, in picoseconds. Without a bound a program
/// that waited for long would run at full speed for as long afterwards.
const CATCH_UP: f64 = 2e6;

impl Program {
    /// The program of a workload on areas with these numbers; `cpu` and `seed` choose its random numbers.
    pub fn new(
        workload: &Workload,
        areas: &[usize],
        pages: &PageTable,
        cpu: u16,
        seed: u64,
    ) -> Self {
        let name = workload.name.bytes().fold(seed, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        let mut random = SplitMix::new(name.wrapping_add(u64::from(cpu) << 40));
        let phases: Vec<PhaseState> = workload
            .phase
            .iter()
            .map(|phase| PhaseState::new(phase, workload, areas, pages, &mut random))
            .collect();
        let start = picos(workload.start_us * 1000.0);
        Program {
            phase_ends: phases[0].length.map_or(u64::MAX, |length| start + length),
            ends: workload.end_us.map_or(NEVER, |us| picos(us * 1000.0)),
            phases,
            phase: 0,
            random,
            due: start as f64,
            pending: None,
        }
    }

    /// Instructions a cycle in the present phase.
    pub fn ipc(&self) -> f64 {
        self.phases[self.phase].ipc
    }

    /// The next step of a program that has come to `now`.
    ///
    /// Random numbers are drawn in one order: the mix, the line, the dependence.
    /// A paced program is not before its due time, and an update is two steps, a load and the store behind
    /// it. After the program's end each step is put off for ever, so that its thread has one and waits for
    /// it.
    pub fn next(&mut self, now: u64) -> Step {
        if let Some(step) = self.pending.take() {
            return step;
        }
        while now >= self.phase_ends {
            self.phase = (self.phase + 1) % self.phases.len();
            let length = self.phases[self.phase].length;
            self.phase_ends = length.map_or(u64::MAX, |length| self.phase_ends + length);
        }
        let phase = &mut self.phases[self.phase];
        let mut chosen = 0;
        if phase.mixes.len() > 1 {
            let mut draw = self.random.unit() * phase.weights;
            while chosen + 1 < phase.mixes.len() && draw >= phase.mixes[chosen].figures.weight {
                draw -= phase.mixes[chosen].figures.weight;
                chosen += 1;
            }
        }
        let mix = &mut phase.mixes[chosen];
        let line = mix.walk.next(&mix.figures, &mut self.random);
        let figures = &mix.figures;
        let needs = match figures.chains {
            0 => 0,
            _ if figures.dependence >= 1.0 => figures.chains,
            _ if self.random.unit() < figures.dependence => figures.chains,
            _ => 0,
        };
        let mut not_before = self.due as u64;
        if let Some(pace) = phase.pace {
            self.due = self.due.max(now as f64 - CATCH_UP);
            not_before = self.due as u64;
            self.due += pace;
        }
        if now >= self.ends {
            not_before = NEVER;
        }
        let step = Step {
            access: match figures.kind {
                AccessKind::Load | AccessKind::Update => Access::Load,
                AccessKind::Store => Access::Store,
                AccessKind::NtStore => Access::NtStore,
            },
            line,
            gap: figures.gap,
            per_line: figures.per_line,
            mix: chosen,
            needs,
            not_before,
        };
        if figures.kind == AccessKind::Update {
            self.pending = Some(Step {
                access: Access::Store,
                gap: 1,
                per_line: 1,
                needs: 0,
                ..step
            });
        }
        step
    }
}

impl PhaseState {
    fn new(
        phase: &Phase,
        workload: &Workload,
        areas: &[usize],
        pages: &PageTable,
        random: &mut SplitMix,
    ) -> Self {
        let mixes: Vec<MixState> = phase
            .mix
            .iter()
            .map(|mix| {
                let area = workload.area.iter().position(|a| a.name == mix.area);
                let area = areas[area.unwrap_or(0)];
                MixState {
                    figures: mix.clone(),
                    walk: Walk::new(area, pages.lines(area), mix, random),
                }
            })
            .collect();
        PhaseState {
            length: phase.for_us.map(|us| picos(us * 1000.0)),
            pace: phase.mb_per_sec.map(|mb| 64e6 / mb),
            ipc: phase.ipc,
            weights: mixes.iter().map(|mix| mix.figures.weight).sum(),
            mixes,
        }
    }
}

impl Walk {
    fn new(area: usize, lines: u64, mix: &AccessMix, random: &mut SplitMix) -> Self {
        // A step of the golden ratio that has no common factor with the length visits every line once.
        let mut stride = ((lines as f64 * 0.618_033_988_749_894_9) as u64).max(1);
        while gcd(stride, lines) != 1 {
            stride += 1;
        }
        Walk {
            area,
            lines,
            hot_lines: ((lines as f64 * mix.hot_part) as u64).max(1),
            position: (random.unit() * lines as f64) as u64 % lines,
            stride,
            left: 0,
        }
    }

    fn next(&mut self, mix: &AccessMix, random: &mut SplitMix) -> u64 {
        let index = match mix.pattern {
            Pattern::Stream => {
                self.position = (self.position + 1) % self.lines;
                self.position
            }
            Pattern::Cycle => {
                self.position = (self.position + self.stride) % self.lines;
                self.position
            }
            Pattern::Random if self.left > 0 => {
                self.left -= 1;
                self.position = (self.position + 1) % self.lines;
                self.position
            }
            Pattern::Random => {
                self.left = mix.run_lines - 1;
                let is_hot = mix.hot_probability > 0.0 && random.unit() < mix.hot_probability;
                let lines = if is_hot { self.hot_lines } else { self.lines };
                self.position = (random.unit() * lines as f64) as u64;
                self.position
            }
        };
        virtual_line(self.area, index)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
