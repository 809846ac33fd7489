// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of a command that takes minutes: what will happen, how far it is, how long it still takes.
//!
//! ```text
//! weir-testbed live: 3 runs of 26 s of the guest's time, about 4 min
//! [ 0:12, about 3:50 left] kernel, driver and guest
//! [ 1:40, about 2:20 left] 3 runs, 2 at a time: 45 %
//! ```
//!
//! All of it goes to stderr. On a terminal the last line is rewritten; elsewhere a line is added when a
//! phase begins, and at most every ten seconds in between.

pub mod cargo_lines;
mod estimate;

use crate::estimate::Estimate;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What follows the compiling in `make run`, by the plan of `weir-testbed live` on two CPUs: what comes first
/// has to know it, and is compiled before it.
pub const LIVE_SEC: f64 = 175.0;

/// Without a terminal, lines about the same phase are at least this far apart.
const LINES_APART: Duration = Duration::from_secs(10);
/// On a terminal the line is rewritten at most this often.
const REWRITES_APART: Duration = Duration::from_millis(200);
/// How often the clock in the line moves when nothing is reported.
const TICK: Duration = Duration::from_secs(1);
/// Less time left than this is not told apart.
const SOON_SEC: f64 = 20.0;
/// Longest line that is rewritten: a longer one would wrap, and could not be cleared.
const COLUMNS: usize = 79;
/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    /// How long it is expected to take, in seconds. 0 where nothing is to be done.
    pub weight_sec: f64,
}

impl Phase {
    pub fn new(name: impl Into<String>, weight_sec: f64) -> Self {
        let name = name.into();
        Phase { name, weight_sec }
    }
}

/// Progress on stderr. Methods take `&self`, so that a closure or a thread can report as well. The
/// line is cleared when it is dropped.
pub struct Progress {
    shared: Arc<Shared>,
    /// Its end ends the thread that moves the clock.
    _alive: Sender<()>,
}

struct Shared {
    began: Instant,
    screen: Mutex<Screen>,
}

impl Shared {
    /// The text of `event` at this moment goes to stderr.
    fn show(&self, event: impl FnOnce(&mut Screen, Duration) -> String) {
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let text = event(&mut screen, self.began.elapsed());
        // Written under the lock, so that lines do not mix. A closed stderr is no reason to end a run.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Progress {
    /// Prints `title` with the plan's length. `plan` has the phases in their order; `pace` is how long they
    /// take on this machine per planned time, 1 where that is not known.
    pub fn new(title: &str, plan: Vec<Phase>, pace: f64) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let shared = Arc::new(Shared {
            began: Instant::now(),
            screen: Mutex::new(Screen::new(plan, pace, is_terminal)),
        });
        shared.show(|screen, _| screen.opening(title));
        let (alive, ended) = channel::<()>();
        let ticking = Arc::clone(&shared);
        std::thread::spawn(move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                ticking.show(Screen::tick);
            }
        });
        let _alive = alive;
        Progress { shared, _alive }
    }

    /// Phase `number` of the plan begins, counted from 0; phases before it are over. A number that the plan
    /// does not have changes nothing.
    pub fn begin(&self, number: usize) {
        self.shared.show(|screen, at| screen.begin(number, at));
    }

    /// How much of the phase is done, 0 to 1, and at how much there will be another report; the same where
    /// that is all the time.
    pub fn fraction(&self, done: f64, next: f64) {
        let told = Told::Percent((done * 100.0) as u32);
        self.shared
            .show(|screen, at| screen.reached(done, next, told, at));
    }

    /// So many things of the phase are done. `done` is the part of the time that they take, `next` what it
    /// will be when one more is done.
    pub fn counted(&self, [things, all]: [u32; 2], done: f64, next: f64) {
        let told = Told::Count(things, all);
        self.shared
            .show(|screen, at| screen.reached(done, next, told, at));
    }

    /// How long planned things take on this machine, as measured so far: wall time per planned time.
    pub fn pace(&self) -> f64 {
        let screen = self.shared.screen.lock();
        screen
            .unwrap_or_else(PoisonError::into_inner)
            .estimate
            .pace()
    }

    /// A line of another program, as it is.
    pub fn pass_on(&self, line: &str) {
        self.shared.show(|screen, at| screen.pass_on(line, at));
    }

    pub fn say(&self, line: &str) {
        self.shared.show(|screen, at| screen.say(line, at));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.show(|screen, _| screen.end());
    }
}

/// How far the line says a phase is.
#[derive(Clone, Copy)]
enum Told {
    /// Rounded down: not all is done before all is done.
    Percent(u32),
    Count(u32, u32),
}

/// What is written when, as a function of the time since the start.
struct Screen {
    names: Vec<String>,
    estimate: Estimate,
    is_terminal: bool,
    /// The phase that goes on.
    current: Option<(usize, Option<Told>)>,
    /// When the line about the phase was last written.
    written_at: Option<Duration>,
    is_line_open: bool,
}

impl Screen {
    fn new(plan: Vec<Phase>, pace: f64, is_terminal: bool) -> Self {
        let usable = |sec: f64| if sec.is_finite() { sec.max(0.0) } else { 0.0 };
        let phases = plan.iter().map(|p| usable(p.weight_sec)).collect();
        Screen {
            names: plan.into_iter().map(|p| p.name).collect(),
            estimate: Estimate::new(phases, pace),
            is_terminal,
            current: None,
            written_at: None,
            is_line_open: false,
        }
    }

    fn opening(&self, title: &str) -> String {
        match self.estimate.whole_sec() {
            0.0 => format!("{title}\n"),
            sec => format!("{title}, about {}\n", rough(sec)),
        }
    }

    fn begin(&mut self, number: usize, at: Duration) -> String {
        if number >= self.names.len() {
            return String::new();
        }
        self.estimate.begin(number, at);
        self.current = Some((number, None));
        self.write(at)
    }

    /// `done` and `next` are parts of the phase.
    fn reached(&mut self, done: f64, next: f64, told: Told, at: Duration) -> String {
        if let Some((_, last)) = self.current.as_mut().filter(|_| done.is_finite()) {
            *last = Some(told);
            let part = |p: f64| p.clamp(0.0, 1.0);
            self.estimate.reached(part(done), part(next), at);
        }
        self.tick(at)
    }

    /// The line again, if the last one is old enough.
    fn tick(&mut self, at: Duration) -> String {
        let apart = if self.is_terminal {
            REWRITES_APART
        } else {
            LINES_APART
        };
        self.estimate.pass(at);
        let is_due = self.written_at.is_none_or(|last| at >= last + apart);
        if is_due && self.current.is_some() {
            self.write(at)
        } else {
            String::new()
        }
    }

    fn say(&mut self, line: &str, at: Duration) -> String {
        let line = format!("[{}] {line}", clock(at));
        self.pass_on(&line, at)
    }

    fn pass_on(&mut self, line: &str, at: Duration) -> String {
        let mut text = format!("{}{line}\n", self.cleared());
        if self.is_terminal && self.current.is_some() {
            text += &self.write(at);
        }
        text
    }

    /// Nothing is written after it but what is said.
    fn end(&mut self) -> String {
        self.current = None;
        self.cleared().into()
    }

    fn cleared(&mut self) -> &'static str {
        if std::mem::take(&mut self.is_line_open) {
            CLEAR
        } else {
            ""
        }
    }

    fn write(&mut self, at: Duration) -> String {
        self.written_at = Some(at);
        let line = self.line(at);
        if !self.is_terminal {
            return line + "\n";
        }
        self.is_line_open = true;
        let shown: String = line.chars().take(COLUMNS).collect();
        format!("{CLEAR}{shown}")
    }

    fn line(&self, at: Duration) -> String {
        let Some((number, told)) = self.current else {
            return format!("[{}]", clock(at));
        };
        let left = match self.estimate.left_sec() {
            Some(sec) if rounded(sec).as_secs_f64() < SOON_SEC => {
                format!(", less than {SOON_SEC} s left")
            }
            Some(sec) => format!(", about {} left", clock(rounded(sec)).trim_start()),
            None => String::new(),
        };
        let done = match told {
            Some(Told::Percent(percent)) => format!(": {} %", percent.min(100)),
            Some(Told::Count(done, all)) => format!(": {done} of {all}"),
            None => String::new(),
        };
        format!("[{}{left}] {}{done}", clock(at), self.names[number])
    }
}

/// `1:05`, `1:00:05`.
fn clock(at: Duration) -> String {
    let sec = at.as_secs();
    match (sec / 3600, sec / 60 % 60, sec % 60) {
        (0, min, sec) => format!("{min:>2}:{sec:02}"),
        (hours, min, sec) => format!("{hours}:{min:02}:{sec:02}"),
    }
}

/// Rounds to five seconds below a minute, to ten above: an estimate is no better than that.
fn rounded(sec: f64) -> Duration {
    let step = if sec < 57.5 { 5.0 } else { 10.0 };
    let round = (sec / step).round() * step;
    Duration::try_from_secs_f64(round).unwrap_or(Duration::MAX)
}

/// `50 s`, `4 min`.
fn rough(sec: f64) -> String {
    match sec {
        s if s < 90.0 => format!("{:.0} s", ((s / 5.0).ceil() * 5.0).max(5.0)),
        s => format!("{:.0} min", s / 60.0),
    }
}

#[cfg(test)]
mod tests;
