// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written when, and estimates of made-up runs.

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

fn screen(is_terminal: bool) -> Screen {
    Screen::new(plan(), 1.0, is_terminal)
}

/// Reports a fraction as [`Progress::fraction`] does.
fn fraction(screen: &mut Screen, done: f64, at: Duration) -> String {
    screen.reached(done, done, Told::Percent((done * 100.0) as u32), at)
}

#[test]
fn the_plan_comes_first() {
    let opening = |plan, pace| Screen::new(plan, pace, false).opening("live: 2 runs");
    assert_eq!(opening(plan(), 1.0), "live: 2 runs, about 3 min\n");
    assert_eq!(opening(plan(), 2.0), "live: 2 runs, about 6 min\n");
    assert_eq!(opening(plan(), 0.25), "live: 2 runs, about 45 s\n");
    let unknown = vec![Phase::new("a", f64::NAN)];
    assert_eq!(opening(unknown, f64::NAN), "live: 2 runs\n");
    assert_eq!(
        [1.0, 43.0, 89.0, 91.0, 545.0].map(rough),
        ["5 s", "45 s", "90 s", "2 min", "9 min"]
    );
}

#[test]
fn without_a_terminal_lines_are_few() {
    let mut screen = screen(false);
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
    assert_eq!(fraction(&mut screen, 0.1, sec(28)), "");
    let half = fraction(&mut screen, 0.5, sec(60));
    assert_eq!(
        half,
        "[ 1:00, about 2:00 left] run 1 of 2, without weir: 50 %\n"
    );
    screen.begin(2, sec(100));
    let counted = screen.reached(0.9, 0.95, Told::Count(11, 12), sec(170));
    assert_eq!(
        counted,
        "[ 2:50, less than 20 s left] run 2 of 2, with weir: 11 of 12\n"
    );
    assert_eq!(screen.end(), "");
    assert_eq!(screen.tick(sec(1000)), "", "nothing after the end");
}

#[test]
fn on_a_terminal_one_line_is_rewritten() {
    let mut screen = screen(true);
    let first = screen.begin(0, sec(0));
    assert_eq!(first, format!("{CLEAR}[ 0:00, about 3:00 left] booting"));
    assert_eq!(fraction(&mut screen, 0.5, Duration::from_millis(100)), "");
    let said = screen.say("up", sec(10));
    let again = screen.line(sec(10));
    assert!(again.starts_with("[ 0:10, about ") && again.ends_with(" left] booting: 50 %"));
    assert_eq!(said, format!("{CLEAR}[ 0:10] up\n{CLEAR}{again}"));
    let passed = screen.pass_on("error: no", sec(10));
    assert!(passed.starts_with(&format!("{CLEAR}error: no\n{CLEAR}[")));
    assert_eq!(screen.end(), CLEAR);
    assert_eq!(screen.say("bye", sec(11)), "[ 0:11] bye\n");
    let mut long = Screen::new(vec![Phase::new("x".repeat(300), 1.0)], 1.0, true);
    let line = long.begin(0, sec(0));
    assert_eq!(line.strip_prefix(CLEAR).unwrap().chars().count(), COLUMNS);
}

#[test]
fn the_time_left_follows_what_was_measured() {
    let mut screen = screen(false);
    let left = |screen: &Screen| screen.estimate.left_sec().unwrap();
    screen.begin(0, sec(0));
    screen.begin(1, sec(20));
    assert!((left(&screen) - 160.0).abs() < 2.0);
    // Half as fast as planned: the estimate goes towards 320 s and stays below it.
    let mut last = 160.0;
    for at in 21..=180 {
        fraction(&mut screen, (at - 20) as f64 / 160.0, sec(at));
        if at % 40 == 20 {
            let whole = left(&screen) + at as f64 - 20.0;
            assert!(whole > last && whole < 320.0, "{at} s: {whole} s");
            last = whole;
        }
    }
    assert!(last > 280.0, "{last}");
    assert!((1.5..2.0).contains(&screen.estimate.pace()));
    // The second run begins with the pace of the first.
    screen.begin(2, sec(180));
    assert!((120.0..160.0).contains(&left(&screen)));
    fraction(&mut screen, 1.0, sec(340));
    assert_eq!(left(&screen), 0.0);
}

#[test]
fn nonsense_changes_nothing() {
    let mut screen = screen(false);
    assert_eq!(fraction(&mut screen, 0.5, sec(1)), "", "no phase has begun");
    assert_eq!(screen.begin(3, sec(1)), "", "no such phase");
    screen.begin(1, sec(2));
    fraction(&mut screen, f64::NAN, sec(3));
    assert!(screen.line(sec(3)).ends_with("without weir"));
    fraction(&mut screen, -1.0, sec(4));
    assert!(screen.line(sec(4)).ends_with(": 0 %"));
    fraction(&mut screen, 0.9999, sec(4));
    assert!(screen.line(sec(4)).ends_with(": 99 %"), "not all is done");
    fraction(&mut screen, 7.0, sec(5));
    assert!(screen.line(sec(5)).ends_with(": 100 %"));
    // The clock of the caller goes back.
    screen.tick(sec(0));
    assert!(screen.estimate.left_sec().unwrap().is_finite());
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

/// A phase of a made-up run: how long it is planned to take, in how many steps it is reported, and the pace
/// of each quarter of it.
struct MadeUp {
    planned_sec: f64,
    steps: u32,
    paces: [f64; 4],
}

/// The lines of a run of such phases, second by second, without a terminal.
fn lines(phases: &[MadeUp]) -> Vec<String> {
    let plan = phases.iter().map(|p| Phase::new("phase", p.planned_sec));
    let mut screen = Screen::new(plan.collect(), 1.0, false);
    let (mut text, mut now) = (String::new(), 0.0);
    let mut second = 0;
    for (number, phase) in phases.iter().enumerate() {
        text += &screen.begin(number, Duration::from_secs_f64(now));
        let quarters = phase.paces.map(|pace| phase.planned_sec / 4.0 * pace);
        let mut begun = now;
        for (quarter, length) in (0u32..).zip(quarters) {
            while f64::from(second) < begun + length {
                now = f64::from(second).max(now);
                second += 1;
                let at = Duration::from_secs_f64(now);
                let part = (f64::from(quarter) + (now - begun).max(0.0) / length) / 4.0;
                let step = (part * f64::from(phase.steps)).floor();
                text += &match phase.steps {
                    0 => screen.tick(at),
                    1000 => fraction(&mut screen, part, at),
                    steps => {
                        let told = Told::Count(step as u32, steps);
                        let part = |n: f64| n / f64::from(steps);
                        screen.reached(part(step), part(step + 1.0), told, at)
                    }
                };
            }
            begun += length;
        }
        now = begun;
    }
    text.lines().map(str::to_owned).collect()
}

/// Wall time and time left of a line, in seconds.
fn read(line: &str) -> (f64, f64) {
    let seconds = |clock: &str| {
        let parts = clock.trim().split(':');
        parts.fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
    };
    let (at, left) = line[1..].split_once(", ").unwrap();
    let left = match left.strip_prefix("about ") {
        Some(left) => seconds(left.split(' ').next().unwrap()),
        None => SOON_SEC,
    };
    (seconds(at), left)
}

/// What `make run` is made of, each phase at a pace of its own, which wobbles.
fn made_up(wobble: f64, number: &mut dyn FnMut() -> f64) -> [MadeUp; 4] {
    [(10.0, 0), (400.0, 300), (8.0, 0), (180.0, 1000)].map(|(planned_sec, steps)| {
        let pace = number();
        MadeUp {
            planned_sec,
            steps,
            paces: [(); 4].map(|()| 4f64.powf((pace + wobble * number()).clamp(-1.0, 1.0))),
        }
    })
}

/// The promise of `make run`.
fn is_steady(phases: &[MadeUp; 4]) {
    let lines = lines(phases);
    let shown: Vec<(f64, f64)> = lines.iter().map(|line| read(line)).collect();
    for (pair, line) in shown.windows(2).zip(&lines[1..]) {
        let [(_, before), (_, after)] = pair else {
            unreachable!("windows of two")
        };
        assert!(*after <= before * 4.0 / 3.0, "{before} s, then {line}");
    }
    let length = |p: &MadeUp| p.planned_sec * p.paces.iter().sum::<f64>() / 4.0;
    let end: f64 = phases.iter().map(length).sum();
    let soon = shown.iter().find(|(_, left)| *left <= SOON_SEC);
    let soon = soon.map_or(end, |(at, _)| *at);
    assert!(end - soon < 60.0, "{} s at the end", end - soon);
    assert!(!lines.iter().any(|line| line.ends_with(": 100 %")));
}

#[test]
fn the_time_left_rises_by_a_third_at_most() {
    // Powers of four: from a quarter of the plan's pace to four times it.
    for (first, then) in [
        (0.0, 0.0),
        (1.0, 1.0),
        (-1.0, -1.0),
        (-1.0, 1.0),
        (1.0, -1.0),
    ] {
        let mut count = 0;
        is_steady(&made_up(0.0, &mut || {
            count += 1;
            if count <= 10 { first } else { then }
        }));
    }
    // Any paces between these, from a generator with a known seed.
    let mut state = 40u64;
    let mut number = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    for _ in 0..500 {
        is_steady(&made_up(0.3, &mut number));
    }
}

#[test]
fn a_known_pace_is_in_the_first_line() {
    let mut screen = Screen::new(plan(), 3.0, false);
    assert_eq!(read(&screen.begin(0, sec(0))), (0.0, 540.0));
}
