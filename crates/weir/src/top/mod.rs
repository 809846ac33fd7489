// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir top`. Reading order: [`feed`] (where snapshots come from), [`model`] (what they amount to),
//! [`table`] and [`draw`] (layout). Nothing here measures or decides.

pub mod draw;
pub mod feed;
pub mod model;
pub mod table;
#[cfg(test)]
pub mod testing;

use crate::cli::TopArgs;
use crate::exit::{Exit, print, print_json};
use crate::run::publish::wall_unix_ms;
use crate::text;
use anyhow::{Context, Result};
use feed::Feed;
use model::Model;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use weir_core::snapshot::Snapshot;
use weir_linux::Roots;

const POLL: Duration = Duration::from_millis(100);
/// The plain table is of this many ticks' mean, as the live one.
const ONCE_SPAN: Duration = Duration::from_millis(1000);
/// A recording played fast has more of them than a screen can show.
const SNAPSHOTS_PER_DRAW: usize = 64;
/// A rate needs two looks; after this long without one, what there is is shown.
const PATIENCE: Duration = Duration::from_secs(4);

/// Shows who uses the device.
///
/// # Errors
/// There is nothing to show, or no terminal to show it on.
pub fn top(args: &TopArgs, roots: &Roots) -> Result<Exit> {
    let mut feed = Feed::open(args, roots)?;
    if args.json {
        let model = gather(&mut feed, Duration::ZERO)?;
        print_json(&model.snapshot())?;
    } else if args.once || !io::stdout().is_terminal() {
        let span = if matches!(feed, Feed::File(_)) {
            Duration::ZERO
        } else {
            ONCE_SPAN
        };
        let model = gather(&mut feed, span)?;
        print(&plain(&model, feed.name()))?;
    } else {
        live(&mut feed)?;
    }
    Ok(Exit::Done)
}

/// Shows a recorded run as it comes in.
///
/// # Errors
/// There is no terminal to show it on.
pub fn recorded(ticks: Receiver<Snapshot>) -> Result<Exit> {
    live(&mut Feed::Recorded(ticks))?;
    Ok(Exit::Done)
}

/// Takes in snapshots until there are rates and `span` has passed since the first.
fn gather(feed: &mut Feed, span: Duration) -> Result<Model> {
    let start = Instant::now();
    let mut first: Option<Instant> = None;
    let mut model = Model::default();
    loop {
        match feed.poll() {
            Ok(Some(snapshot)) => {
                first.get_or_insert_with(Instant::now);
                model.add(snapshot);
            }
            Ok(None) => {}
            // A source that ends after it has shown something has shown it.
            Err(_) if first.is_some() => return Ok(model),
            Err(error) => return Err(error),
        }
        let seen_enough = first.is_some_and(|first| first.elapsed() >= span);
        let is_file = matches!(feed, Feed::File(_));
        if seen_enough && (model.has_rates() || is_file) || start.elapsed() >= PATIENCE {
            model.snapshot().context("nothing was seen in time")?;
            return Ok(model);
        }
        std::thread::sleep(POLL / 2);
    }
}

/// The table on paper: no colours, no cursor, all rows.
fn plain(model: &Model, source: &str) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = writeln!(out, "weir: {}", headline(model.snapshot(), source));
    for device in model.devices() {
        let rate = device
            .bandwidth
            .map_or_else(|| "not known".to_owned(), text::rate);
        let _ = write!(
            out,
            "{} {}: {rate}",
            device.state.id,
            text::harmless(&device.name)
        );
        if let Some(set) = device.state.set_point_bytes_per_sec {
            let _ = write!(out, ", set-point {}", text::rate(set));
        }
        if let Some(capacity) = device.capacity {
            let _ = write!(out, ", capacity {}", text::rate(capacity));
        }
        if let Ok(latency) = device.latency {
            let _ = write!(out, ", latency {latency}");
        }
        out.push('\n');
    }
    let layout = table::Layout::on_paper(table::longest_name(model.rows()));
    let mut add = |line: String| {
        let _ = writeln!(out, "{}", line.trim_end());
    };
    add(layout.title());
    for row in model.rows() {
        add(layout.line(row));
    }
    out
}

fn headline(snapshot: Option<&Snapshot>, source: &str) -> String {
    match snapshot {
        Some(Snapshot {
            limiting: true,
            policy,
            ..
        }) => {
            format!("limiting, policy {}; {source}", text::harmless(policy))
        }
        Some(_) => format!("observing only; {source}"),
        None => source.to_owned(),
    }
}

fn live(feed: &mut Feed) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        // So that the terminal is put back in order.
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut terminal = ratatui::try_init().context("cannot use this terminal; try --once")?;
    let result = show(&mut terminal, feed, &stop);
    ratatui::restore();
    result
}

fn show(terminal: &mut ratatui::DefaultTerminal, feed: &mut Feed, stop: &AtomicBool) -> Result<()> {
    let mut model = Model::default();
    loop {
        // Polled even when paused, so that the source does not fall behind.
        for _ in 0..SNAPSHOTS_PER_DRAW {
            match feed.poll()? {
                Some(snapshot) if !model.paused => model.add(snapshot),
                Some(_) => {}
                None => break,
            }
        }
        let source = feed.name();
        // A recorded tick is as old as it was then.
        let now_ms = match (&feed, model.snapshot()) {
            (Feed::Recorded(_), Some(snapshot)) => snapshot.wall_unix_ms,
            _ => wall_unix_ms(),
        };
        terminal.draw(|frame| draw::draw(frame, &model, source, now_ms))?;
        if event::poll(POLL)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && !take_key(&mut model, key)
        {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Whether to go on.
fn take_key(model: &mut Model, key: KeyEvent) -> bool {
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return false;
    }
    if model.help {
        model.help = false;
        return key.code != KeyCode::Char('q');
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('s') => model.sort_next(),
        KeyCode::Char('p') | KeyCode::Char(' ') => model.paused = !model.paused,
        KeyCode::Char('?') | KeyCode::Char('h') => model.help = true,
        KeyCode::Up | KeyCode::Char('k') => model.select(-1),
        KeyCode::Down | KeyCode::Char('j') => model.select(1),
        KeyCode::PageUp => model.select(-10),
        KeyCode::PageDown => model.select(10),
        KeyCode::Home => model.select(isize::MIN),
        KeyCode::End => model.select(isize::MAX),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use testing::snapshot;
    use unicode_width::UnicodeWidthStr;

    fn two_seconds() -> Model {
        let mut model = Model::default();
        for tick in 0..400u32 {
            let mib = 170.0 + 60.0 * (f64::from(tick) / 15.0).sin();
            model.add(snapshot(u64::from(tick) * 50, mib));
        }
        model
    }

    fn screen(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| draw::draw(frame, model, "from the running weir", 83_000))
            .unwrap();
        let buffer = terminal.backend().buffer().clone();
        let mut text = String::new();
        for row in buffer.content().chunks(usize::from(width)) {
            // A wide character leaves its second cell empty in the buffer's own account.
            let mut line = String::new();
            let mut skip = 0;
            for cell in row {
                if skip == 0 {
                    line.push_str(cell.symbol());
                    skip = cell.symbol().width().saturating_sub(1);
                } else {
                    skip -= 1;
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Compares with a picture kept beside this file; `WEIR_BLESS=1` writes it anew, to be looked
    /// at before it is committed.
    fn looks_like(name: &str, seen: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/top/pictures")
            .join(name);
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, seen).unwrap();
        }
        let wanted = std::fs::read_to_string(&path).unwrap();
        assert!(wanted == seen, "{name} is not as kept; it is now:\n{seen}");
    }

    #[test]
    fn the_screen_at_80_by_24() {
        looks_like("80x24.txt", &screen(&two_seconds(), 80, 24));
    }

    #[test]
    fn the_screen_at_200_by_50() {
        looks_like("200x50.txt", &screen(&two_seconds(), 200, 50));
    }

    #[test]
    fn the_help_fits_the_smallest_screen() {
        let mut model = two_seconds();
        model.help = true;
        let seen = screen(&model, 80, 24);
        assert!(seen.contains("any key closes this"), "{seen}");
        looks_like("help.txt", &seen);
    }

    #[test]
    fn the_plain_table() {
        looks_like("plain.txt", &plain(&two_seconds(), "from the running weir"));
    }

    #[test]
    fn no_size_and_no_state_panics() {
        let mut model = two_seconds();
        for step in 0..3 {
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
                screen(&Model::default(), width, height);
            }
            model.help = step == 0;
            model.paused = step == 1;
        }
    }

    #[test]
    fn keys_do_what_the_help_says() {
        let mut model = two_seconds();
        let mut press = |code| take_key(&mut model, KeyEvent::new(code, KeyModifiers::NONE));
        assert!(press(KeyCode::Char('?')));
        assert!(
            press(KeyCode::Char('x')),
            "any key closes the help and does nothing else"
        );
        assert!(press(KeyCode::Char('s')) && press(KeyCode::Char('p')) && press(KeyCode::Down));
        assert!(!press(KeyCode::Char('q')));
        assert_eq!(
            (model.sort(), model.paused, model.help),
            (model::Sort::Cpu, true, false)
        );
        assert_eq!(model.selected(), 1);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!take_key(&mut model, interrupt));
    }
}
