// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of a command that takes minutes: what will happen, how far it is, how long it still takes.
//!
//! ```text
//! weir-testbed live: 3 runs of 46 s guest time, about 4 min
//! [ 0:12, about 3:50 left] booting Linux 6.18
//! [ 1:40, about 2:20 left] run 2 of 3, with weir, cpu-max: 45 %
//! ```
//!
//! All of it goes to stderr. On a terminal the last line is rewritten; elsewhere a line is added when a
//! phase begins, and at most every ten seconds in between.
//!
//! The time left is the plan's, multiplied by the *pace*: wall time per planned time, as measured so far. A
//! phase counts for the pace by its length, so a short one cannot distort the estimate.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Without a terminal, lines about the same phase are at least this far apart.
const LINES_APART: Duration = Duration::from_secs(10);
/// On a terminal the line is rewritten at most this often.
const REWRITES_APART: Duration = Duration::from_millis(200);
/// How often the clock in the line moves when nothing is reported.
const TICK: Duration = Duration::from_secs(1);
/// A phase that reports nothing is never taken for further than this.
const UNREPORTED_MAX: f64 = 0.95;
/// The plan's own pace counts as much as a phase of this part of the plan.
const PRIOR_RATIO: f64 = 0.1;
/// Longest line that is rewritten: a longer one would wrap, and could not be cleared.
const COLUMNS: usize = 79;
/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// A part of the work.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// What the line says.
    pub name: String,
    /// How long it is expected to take, in seconds. 0 where nothing is to be done.
    pub weight_sec: f64,
}

impl Phase {
    /// A phase.
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
    /// Prints `title` with the plan's length. `plan` has the phases in their order.
    pub fn new(title: &str, plan: Vec<Phase>) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let shared = Arc::new(Shared {
            began: Instant::now(),
            screen: Mutex::new(Screen::new(plan, is_terminal)),
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

    /// Phase `number` of the plan begins, counted from 0; phases before it are over. A phase may begin
    /// again. A number that the plan does not have changes nothing.
    pub fn begin(&self, number: usize) {
        self.shared.show(|screen, at| screen.begin(number, at));
    }

    /// How much of the phase is done, 0 to 1.
    pub fn fraction(&self, done: f64) {
        self.shared.show(|screen, at| screen.fraction(done, at));
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        self.shared.show(|screen, at| screen.say(line, at));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.show(|screen, _| screen.end());
    }
}

/// What is written when, as a function of the time since the start.
struct Screen {
    plan: Vec<Phase>,
    is_terminal: bool,
    current: Option<Current>,
    /// Wall time per planned time, by the phases that are over.
    pace: f64,
    /// When the line about the phase was last written.
    written_at: Option<Duration>,
    is_line_open: bool,
    is_over: bool,
}

struct Current {
    number: usize,
    begun_at: Duration,
    fraction: Option<f64>,
}

impl Screen {
    fn new(mut plan: Vec<Phase>, is_terminal: bool) -> Self {
        for phase in &mut plan {
            let is_usable = phase.weight_sec.is_finite() && phase.weight_sec > 0.0;
            phase.weight_sec = if is_usable { phase.weight_sec } else { 0.0 };
        }
        Screen {
            plan,
            is_terminal,
            current: None,
            pace: 1.0,
            written_at: None,
            is_line_open: false,
            is_over: false,
        }
    }

    fn total_sec(&self) -> f64 {
        self.plan.iter().map(|p| p.weight_sec).sum()
    }

    fn opening(&self, title: &str) -> String {
        match self.total_sec() {
            0.0 => format!("{title}\n"),
            sec => format!("{title}, about {}\n", rough(sec)),
        }
    }

    fn begin(&mut self, number: usize, at: Duration) -> String {
        if number >= self.plan.len() {
            return String::new();
        }
        if let Some(last) = self.current.take().filter(|last| last.number < number) {
            self.pace = self.pace_with(&last, 1.0, at);
        }
        self.current = Some(Current {
            number,
            begun_at: at,
            fraction: None,
        });
        self.write(at)
    }

    fn fraction(&mut self, done: f64, at: Duration) -> String {
        if let Some(current) = self.current.as_mut().filter(|_| done.is_finite()) {
            current.fraction = Some(done.clamp(0.0, 1.0));
        }
        self.tick(at)
    }

    /// The line again, if the last one is old enough.
    fn tick(&mut self, at: Duration) -> String {
        let apart = match self.is_terminal {
            true => REWRITES_APART,
            false => LINES_APART,
        };
        let is_due = self.written_at.is_none_or(|last| at >= last + apart);
        match is_due && self.current.is_some() && !self.is_over {
            true => self.write(at),
            false => String::new(),
        }
    }

    fn say(&mut self, line: &str, at: Duration) -> String {
        let mut text = format!("{}[{}] {line}\n", self.cleared(), clock(at));
        if self.is_terminal && self.current.is_some() {
            text += &self.write(at);
        }
        text
    }

    /// Nothing is written after it but what is said.
    fn end(&mut self) -> String {
        self.is_over = true;
        self.current = None;
        self.cleared().into()
    }

    fn cleared(&mut self) -> &'static str {
        match std::mem::take(&mut self.is_line_open) {
            true => CLEAR,
            false => "",
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
        let Some(current) = &self.current else {
            return format!("[{}]", clock(at));
        };
        let left = match self.left_sec(at) {
            Some(sec) => format!(", about {} left", clock(rounded(sec)).trim_start()),
            None => String::new(),
        };
        let done = match current.fraction {
            Some(fraction) => format!(": {:.0} %", fraction * 100.0),
            None => String::new(),
        };
        let name = &self.plan[current.number].name;
        format!("[{}{left}] {name}{done}", clock(at))
    }

    /// The pace, with `fraction` of a phase done at `at`.
    fn pace_with(&self, phase: &Current, fraction: f64, at: Duration) -> f64 {
        let planned_sec = fraction * self.plan[phase.number].weight_sec;
        if planned_sec <= 0.0 {
            return self.pace;
        }
        let own = at.saturating_sub(phase.begun_at).as_secs_f64() / planned_sec;
        let credibility = planned_sec / (planned_sec + PRIOR_RATIO * self.total_sec());
        credibility * own + (1.0 - credibility) * self.pace
    }

    /// Wall time until the end of the plan, unless the plan has no times.
    fn left_sec(&self, at: Duration) -> Option<f64> {
        let current = self.current.as_ref().filter(|_| self.total_sec() > 0.0)?;
        let weight_sec = self.plan[current.number].weight_sec;
        let pace = self.pace_with(current, current.fraction.unwrap_or(0.0), at);
        let in_phase_sec = at.saturating_sub(current.begun_at).as_secs_f64();
        let done_sec = match current.fraction {
            Some(fraction) => fraction * weight_sec,
            None => (in_phase_sec / pace).min(UNREPORTED_MAX * weight_sec),
        };
        let rest = self.plan.iter().skip(current.number);
        let rest_sec: f64 = rest.map(|p| p.weight_sec).sum();
        let left_sec = pace * (rest_sec - done_sec);
        left_sec.is_finite().then_some(left_sec.max(0.0))
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

/// To five seconds below a minute, to ten above: an estimate is no better than that.
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
mod tests {
    use super::*;

    const fn sec(sec: u64) -> Duration {
        Duration::from_secs(sec)
    }

    fn plan() -> Vec<Phase> {
        vec![
            Phase::new("booting", 20.0),
            Phase::new("run 1 of 2, without weir", 80.0),
            Phase::new("run 2 of 2, with weir", 80.0),
        ]
    }

    fn left_sec(screen: &Screen, at: Duration) -> f64 {
        screen.left_sec(at).unwrap()
    }

    #[test]
    fn the_plan_comes_first() {
        let screen = Screen::new(plan(), false);
        assert_eq!(
            screen.opening("live: 2 runs"),
            "live: 2 runs, about 3 min\n"
        );
        let unknown = Screen::new(vec![Phase::new("a", f64::NAN)], false);
        assert_eq!(unknown.opening("live"), "live\n");
        assert_eq!(
            [1.0, 43.0, 89.0, 91.0, 545.0].map(rough),
            ["5 s", "45 s", "90 s", "2 min", "9 min"]
        );
    }

    #[test]
    fn without_a_terminal_lines_are_few() {
        let mut screen = Screen::new(plan(), false);
        let first = screen.begin(0, sec(0));
        assert_eq!(first, "[ 0:00, about 3:00 left] booting\n");
        assert_eq!(screen.tick(sec(9)), "");
        assert_eq!(
            screen.tick(sec(10)),
            "[ 0:10, about 2:50 left] booting\n",
            "a phase without reports goes on by the clock"
        );
        assert_eq!(screen.say("up", sec(12)), "[ 0:12] up\n");
        let run = screen.begin(1, sec(20));
        assert_eq!(run, "[ 0:20, about 2:40 left] run 1 of 2, without weir\n");
        assert_eq!(screen.fraction(0.1, sec(28)), "");
        let half = screen.fraction(0.5, sec(60));
        assert_eq!(
            half,
            "[ 1:00, about 2:00 left] run 1 of 2, without weir: 50 %\n"
        );
        assert_eq!(screen.end(), "");
        assert_eq!(screen.tick(sec(1000)), "", "nothing after the end");
    }

    #[test]
    fn on_a_terminal_one_line_is_rewritten() {
        let mut screen = Screen::new(plan(), true);
        let first = screen.begin(0, sec(0));
        assert_eq!(first, format!("{CLEAR}[ 0:00, about 3:00 left] booting"));
        assert_eq!(screen.fraction(0.5, Duration::from_millis(100)), "");
        let said = screen.say("up", sec(10));
        let again = "[ 0:10, about 2:50 left] booting: 50 %";
        assert_eq!(said, format!("{CLEAR}[ 0:10] up\n{CLEAR}{again}"));
        assert_eq!(screen.end(), CLEAR);
        assert_eq!(screen.say("bye", sec(11)), "[ 0:11] bye\n");
        let mut long = Screen::new(vec![Phase::new("x".repeat(300), 1.0)], true);
        let line = long.begin(0, sec(0));
        assert_eq!(line.strip_prefix(CLEAR).unwrap().chars().count(), COLUMNS);
    }

    #[test]
    fn the_time_left_follows_what_was_measured() {
        let mut screen = Screen::new(plan(), false);
        screen.begin(0, sec(0));
        screen.begin(1, sec(20));
        assert!((left_sec(&screen, sec(20)) - 160.0).abs() < 1e-9);
        // Half as fast as planned: the estimate goes towards 320 s and stays below it.
        let mut last = 160.0;
        for percent in [10, 25, 50, 100] {
            let at = sec(20 + 160 * percent / 100);
            screen.fraction(percent as f64 / 100.0, at);
            let whole = left_sec(&screen, at) + at.as_secs_f64() - 20.0;
            assert!(whole > last && whole < 320.0, "{percent} %: {whole} s");
            last = whole;
        }
        assert!(last > 300.0, "{last}");
        // The second run begins with the pace of the first, whatever it reports.
        screen.begin(2, sec(180));
        let next = left_sec(&screen, sec(180));
        assert!((140.0..160.0).contains(&next), "{next}");
        screen.fraction(1.0, sec(340));
        assert_eq!(left_sec(&screen, sec(340)), 0.0);
    }

    #[test]
    fn a_short_phase_does_not_turn_the_estimate_upside_down() {
        let mut plan = plan();
        plan[0].weight_sec = 1.0;
        let mut screen = Screen::new(plan, false);
        screen.begin(0, sec(0));
        // Ten times as long as planned.
        screen.begin(1, sec(10));
        let left = left_sec(&screen, sec(10));
        assert!((160.0..260.0).contains(&left), "{left}");
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut screen = Screen::new(plan(), false);
        assert_eq!(screen.fraction(0.5, sec(1)), "", "no phase has begun");
        assert_eq!(screen.begin(3, sec(1)), "", "no such phase");
        screen.begin(1, sec(2));
        screen.fraction(f64::NAN, sec(3));
        screen.fraction(-1.0, sec(4));
        assert!(screen.line(sec(4)).ends_with(": 0 %"));
        screen.fraction(7.0, sec(5));
        assert!(screen.line(sec(5)).ends_with(": 100 %"));
        // The clock of the caller goes back.
        assert!(left_sec(&screen, sec(0)).is_finite());
        // Once more from the start: nothing of the first attempt is left.
        screen.begin(1, sec(50));
        let line = screen.line(sec(50));
        assert!(line.ends_with("without weir"), "{line}");
    }

    #[test]
    fn clocks_are_read_at_sight() {
        assert_eq!(clock(sec(5)), " 0:05");
        assert_eq!(clock(sec(3725)), "1:02:05");
        assert_eq!(
            [4.0, 57.0, 58.0, 123.0].map(|s| rounded(s).as_secs()),
            [5, 55, 60, 120]
        );
        assert_eq!(rounded(f64::INFINITY), Duration::MAX);
    }
}
