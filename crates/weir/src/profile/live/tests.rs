// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The screen as text, in all sizes and states; keys; paper.

use super::frame::{LiveQueue, LiveRow};
use super::model::LiveModel;
use super::*;
use crate::recordings::replay_screen::Wish;
use crate::run::screens::waits_in::WaitsIn;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

fn row(name: &str, stalled: f64, findings: &[&'static str]) -> LiveRow {
    let waits = WaitsIn {
        stage: "device".into(),
        time_ratio: Some(stalled * 0.6),
    };
    let queue = |role: &str, residence_ns, waiting_ns, pressure| LiveQueue {
        role: role.to_owned(),
        residence_ns,
        waiting_ns,
        pressure,
    };
    LiveRow {
        name: weir_figures::text::harmless(name),
        stalled: Some(stalled),
        cxl: Some((0.941, 0.06)),
        waits_in: Some(waits),
        why: None,
        findings: findings.to_vec(),
        parts: vec![
            ("device.drd.cxl-own".into(), 0.613, 0.05),
            ("ingress.drd.any".into(), 0.21, 0.11),
            ("lfb.drd.any".into(), 0.1, 0.02),
        ],
        queues: vec![
            queue("sq.drd.any", 1280.0, Some(640.0), None),
            queue("tor.drd.cxl-own", 1180.4, None, Some(0.42)),
        ],
    }
}

fn frame() -> LiveFrame {
    LiveFrame {
        place: "12.0 s of 0:01:00 · windows 3 to 12 of 60".into(),
        headline: [
            "/db: the CXL device is saturated: requests stay 3.1 times as long in it as on the idle machine, because of \
             /batch (62 %) (since 1.0 s, in 10 of 10 windows)"
                .into(),
            "how sure: inferred: the counts fit, something else could be behind them; it would be refuted by: few requests \
             in it"
                .into(),
            "next: limit the workloads that fill it (`weir run`), or move hot pages to DRAM".into(),
        ],
        rows: vec![
            LiveRow {
                name: "machine".into(),
                why: Some("stalls were not counted".into()),
                ..LiveRow::default()
            },
            row("/db", 0.82, &["device_saturated", "fill_buffers_held"]),
            row("/user.slice/\u{1b}[31mevil\nname\u{202e}", 0.3, &[]),
            row("/日本語/サービス", 0.1, &["chains"]),
        ],
        sums: None,
    }
}

fn model() -> LiveModel {
    LiveModel {
        frame: Some(frame()),
        is_recorded: true,
        ..LiveModel::default()
    }
}

fn drawn(model: &LiveModel, width: u16, height: u16, has_colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let drawn = terminal.draw(|frame| draw::draw(frame, model, "db.windows", has_colours));
    drawn.unwrap();
    terminal.backend().buffer().clone()
}

fn screen(model: &LiveModel, width: u16, height: u16) -> String {
    let buffer = drawn(model, width, height, true);
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(width)) {
        let (mut line, mut skip) = (String::new(), 0);
        for cell in row {
            if skip == 0 {
                line.push_str(cell.symbol());
                skip = weir_figures::text::width(cell.symbol()).saturating_sub(1);
            } else {
                skip -= 1;
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Compares with a picture kept beside this file; `WEIR_BLESS=1` writes it anew.
fn assert_picture(name: &str, seen: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("src/profile/live/pictures").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, seen).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    assert!(wanted == seen, "{name} is not as kept; it is now:\n{seen}");
}

#[test]
fn the_screen_in_two_sizes_and_on_paper() {
    assert_picture("80x24.txt", &screen(&model(), 80, 24));
    assert_picture("160x40.txt", &screen(&model(), 160, 40));
    assert_picture("paper.txt", &plain(frame(), "db.windows"));
}

#[test]
fn the_help_fits_the_smallest_screen() {
    let mut model = model();
    model.help = true;
    let seen = screen(&model, 80, 24);
    assert!(seen.contains("any key closes this"), "{seen}");
    assert_picture("help.txt", &seen);
}

#[test]
fn no_size_and_no_state_panics_and_the_answer_comes_first() {
    let mut model = model();
    for step in 0..4 {
        for (width, height) in [
            (1, 1),
            (2, 3),
            (10, 5),
            (40, 10),
            (79, 23),
            (300, 4),
            (20, 80),
        ] {
            screen(&model, width, height);
            screen(&LiveModel::default(), width, height);
        }
        model.help = step == 0;
        model.typing = step == 1;
        model.filter = "x".repeat(step);
    }
    let small = screen(
        &LiveModel {
            frame: Some(frame()),
            ..LiveModel::default()
        },
        40,
        8,
    );
    assert!(small.contains(" /db: the CXL device is"), "{small}");
    assert!(small.contains("WORKLOAD"), "{small}");
}

#[test]
fn without_colours_the_chosen_row_and_findings_are_still_marked() {
    let has_colour = |has_colours| {
        let buffer = drawn(&model(), 80, 24, has_colours);
        let cells = buffer.content().iter();
        let coloured = cells.filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        coloured.count() > 0
    };
    assert!(has_colour(true) && !has_colour(false));
    let with = |change: fn(&mut LiveModel)| {
        let mut model = model();
        change(&mut model);
        drawn(&model, 80, 24, false)
    };
    let down = |model: &mut LiveModel| {
        assert_eq!(model.key(press(KeyCode::Down)), Act::GoOn);
    };
    assert_ne!(with(|_| ()), with(down), "the choice shows");
}

fn press(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

#[test]
fn keys_do_what_the_help_says() {
    let mut model = model();
    assert_eq!(model.selected(), 1, "the first workload");
    for (code, place) in [
        (KeyCode::Up, 0),
        (KeyCode::Char('j'), 1),
        (KeyCode::End, 3),
        (KeyCode::PageUp, 0),
    ] {
        assert_eq!(model.key(press(code)), Act::GoOn);
        assert_eq!(model.selected(), place);
    }
    assert_eq!(
        model.key(press(KeyCode::Char('p'))),
        Act::Wish(Wish::Pause(true))
    );
    assert_eq!(
        model.key(press(KeyCode::Char(']'))),
        Act::Wish(Wish::By(10_000))
    );
    for c in "/EVILq".chars() {
        model.key(press(KeyCode::Char(c)));
    }
    assert!(model.rows().is_empty());
    assert!(screen(&model, 80, 24).contains("no name has that in it"));
    model.key(press(KeyCode::Backspace));
    assert_eq!(model.rows().len(), 1);
    model.key(press(KeyCode::Enter));
    assert_eq!(
        model.key(press(KeyCode::Esc)),
        Act::GoOn,
        "the filter goes first"
    );
    model.key(press(KeyCode::Char('?')));
    assert!(model.help);
    assert_eq!(
        model.key(press(KeyCode::Char('p'))),
        Act::GoOn,
        "any key closes the help"
    );
    model.is_recorded = false;
    model.paused = false;
    assert_eq!(model.key(press(KeyCode::Char(' '))), Act::GoOn);
    assert!(model.paused);
    assert_eq!(model.key(press(KeyCode::Char('q'))), Act::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.key(interrupt), Act::Quit);
}

#[test]
fn a_recording_is_played_to_its_end_and_from_its_begin() {
    let text = include_bytes!("../../../../weir-profile/tests/data/table7.windows");
    let file = WindowFile::read(text).unwrap();
    let windows = file.windows.len();
    let mut player = WindowPlayer::new(file, None, None).unwrap();
    player.go_to_end();
    let mut feed = LiveFeed::recorded(player).unwrap();
    let frame = feed.wait().unwrap();
    assert!(
        frame.place.ends_with(&format!("{windows} of {windows}")),
        "{}",
        frame.place
    );
    feed.wish(Wish::Start);
    let begin = feed.wait().unwrap();
    assert!(begin.place.contains("windows 1 to 1 of"), "{}", begin.place);
}
