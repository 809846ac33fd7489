// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir top`. Reading order: [`feed`] (where snapshots come from), [`model`] (what they amount to:
//! [`history`], [`tree`]), [`keys`], [`table`] and [`draw`] (layout). Nothing here measures or decides.

pub mod cli;
pub mod draw;
pub mod empty;
pub mod feed;
pub mod help;
pub mod history;
pub mod keys;
pub mod model;
pub mod table;
pub mod terminal;
#[cfg(test)]
pub mod testing;
pub mod tree;

use crate::cli::exit::{Exit, print, print_json};
use crate::cli::output::wall_clock::wall_unix_ms;
use crate::recordings::replay_screen::{ReplayScreen, ReplayView};
use crate::run::screens::waits_in::{self, PublishedWaits};
use crate::top::cli::TopArgs;
use anyhow::{Context, Result};
use feed::Feed;
use keys::Act;
use model::Model;
use ratatui::crossterm::event::{Event, KeyEventKind};
use std::io::{self, IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use terminal::{Ready, Terminal, on_screen};
use weir_core::seam::snapshot::Snapshot;
use weir_figures::text;
use weir_linux::Roots;

const POLL: Duration = Duration::from_millis(100);
const WAITS_EACH: Duration = Duration::from_secs(1);
/// The plain table shows the mean of so many ticks, as the live one does.
const ONCE_SPAN: Duration = Duration::from_millis(1000);
/// A recording played fast has more of them than a screen can show.
const SNAPSHOTS_PER_DRAW: usize = 64;
/// A rate needs two ticks; after this long without one, the table shows what it has.
const PATIENCE: Duration = Duration::from_secs(4);
/// What to do with a recording without a screen.
const NO_SCREEN: &str = "--top needs a terminal; without --top `weir replay FILE` prints a line of JSON for \
     each tick, and `weir export FILE` the figures";

/// Shows the use of the device by workload.
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
        let mut model = gather(&mut feed, span)?;
        if !matches!(feed, Feed::File(_)) {
            model.set_waits(waits_in::read(&roots.run).map(|found| found.workloads));
        }
        print(&table::plain(&model, &feed.name(model.snapshot())))?;
    } else {
        on_screen(
            "cannot use this terminal; try --once",
            |screen, keys, stop| {
                show(screen, keys, &mut feed, stop, &|| {
                    waits_in::read(&roots.run)
                })
            },
        )?;
    }
    Ok(Exit::Done)
}

/// Shows a recorded run, and moves through it. Where stdout is no terminal, its end as one table.
///
/// # Errors
/// There is nothing in it, or the terminal cannot be used.
pub fn recorded(replay: ReplayScreen) -> Result<Exit> {
    let is_screen = io::stdout().is_terminal();
    let last = if is_screen { None } else { replay.last() };
    let mut feed = Feed::Recorded(replay);
    if is_screen {
        on_screen(NO_SCREEN, |screen, keys, stop| {
            show(screen, keys, &mut feed, stop, &|| None)
        })?;
    } else {
        let mut model = Model::default();
        model.is_recorded = true;
        model.toggle_list();
        take_in(&mut model, last.context("the recording has no tick")?);
        print(&table::plain(&model, &feed.name(model.snapshot())))?;
    }
    let Feed::Recorded(replay) = feed else {
        return Ok(Exit::Done);
    };
    if replay.damaged() > 0 {
        let _ = writeln!(
            io::stderr(),
            "weir: {} places in the recording cannot be read: `weir replay FILE` names them",
            replay.damaged()
        );
        return Ok(Exit::Trouble);
    }
    Ok(Exit::Done)
}

/// Takes in snapshots until there are rates and `span` has passed since the first.
fn gather(feed: &mut Feed, span: Duration) -> Result<Model> {
    let start = Instant::now();
    let mut first: Option<Instant> = None;
    let mut model = Model::default();
    // On paper it is a list, and rows need not keep still.
    model.toggle_list();
    model.is_exact = true;
    loop {
        match feed.poll() {
            Ok(Some(shown)) => {
                first.get_or_insert_with(Instant::now);
                take_in(&mut model, shown);
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

fn take_in(model: &mut Model, shown: ReplayView) {
    match shown {
        ReplayView::Tick(snapshot) => model.add(*snapshot),
        ReplayView::Jump { past, recent } => model.jump(&past, recent),
    }
}

/// Until a key or a signal ends it, or the terminal is closed.
fn show(
    screen: &mut ratatui::DefaultTerminal,
    keys: &Terminal,
    feed: &mut Feed,
    stop: &AtomicBool,
    waits: &dyn Fn() -> Option<PublishedWaits>,
) -> Result<Ready> {
    let mut model = Model::default();
    model.is_recorded = matches!(feed, Feed::Recorded(_));
    let mut asked: Option<Instant> = None;
    loop {
        if asked.is_none_or(|asked| asked.elapsed() >= WAITS_EACH) {
            model.set_waits(waits().map(|found| found.workloads));
            asked = Some(Instant::now());
        }
        // Polled even when paused, so that the source does not fall behind. A recording pauses itself.
        for _ in 0..SNAPSHOTS_PER_DRAW {
            match feed.poll()? {
                Some(shown) if !model.paused || model.is_recorded => take_in(&mut model, shown),
                Some(_) => {}
                None => break,
            }
        }
        let source = feed.name(model.snapshot());
        // A recorded tick is as old as it was then.
        let now_ms = match (&feed, model.snapshot()) {
            (Feed::Recorded(_), Some(snapshot)) => snapshot.wall_unix_ms,
            _ => wall_unix_ms(),
        };
        screen.draw(|frame| draw::draw(frame, &model, &source, now_ms))?;
        let ready = keys.wait(POLL)?;
        let ended = ready == Ready::Closed || stop.load(Ordering::Relaxed);
        if ended || take_keys(&mut model, feed)? == Act::Quit {
            return Ok(ready);
        }
    }
}

/// Takes the keys that were pressed since the last draw.
fn take_keys(model: &mut Model, feed: &Feed) -> Result<Act> {
    while let Some(found) = terminal::next_event()? {
        let Event::Key(key) = found else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match (keys::take(model, key), feed) {
            (Act::Quit, _) => return Ok(Act::Quit),
            (Act::Wish(wish), Feed::Recorded(replay)) => replay.wish(wish),
            _ => {}
        }
    }
    Ok(Act::GoOn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::screens::waits_in::WaitsIn;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::collections::BTreeMap;
    use testing::snapshot;
    use unicode_width::UnicodeWidthStr;
    use weir_core::WorkloadId;

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

    /// Compares with a picture kept beside this file; `WEIR_BLESS=1` writes it anew. Check it before it is
    /// committed.
    fn assert_picture(name: &str, seen: &str) {
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
        assert_picture("80x24.txt", &screen(&two_seconds(), 80, 24));
    }

    #[test]
    fn the_screen_at_200_by_50() {
        assert_picture("200x50.txt", &screen(&two_seconds(), 200, 50));
    }

    #[test]
    fn a_device_without_counts_says_where_the_reason_is() {
        let mut unknown = snapshot(0, 200.0);
        unknown.plan.devices[0].read_bytes_per_sec = None;
        let mut model = Model::default();
        model.add(unknown);
        let page = table::plain(&model, "here");
        let wanted =
            "cxl0 weir_cxl0: traffic not known, `weir doctor` says why, set-point 160 MiB/s";
        assert!(page.contains(wanted), "{page}");
    }

    #[test]
    fn the_help_fits_the_smallest_screen() {
        let mut model = two_seconds();
        model.help = true;
        let seen = screen(&model, 80, 24);
        assert!(seen.contains("any key closes this"), "{seen}");
        assert_picture("help.txt", &seen);
    }

    #[test]
    fn while_a_profile_runs_rows_say_where_they_wait() {
        let mut model = two_seconds();
        model.set_waits(Some(BTreeMap::new()));
        assert!(screen(&model, 80, 24).contains("WAITS IN"));
        let waits = |id: &str, stage: &str, time_ratio| {
            let stage = stage.to_owned();
            (WorkloadId::new(id), WaitsIn { stage, time_ratio })
        };
        let all = [
            waits(
                "/system.slice/fio-heavy-reader-1.service",
                "device",
                Some(0.613),
            ),
            waits("/system.slice/light.service", "ingress", None),
            waits("/weir", "\u{1b}[2J\n", Some(f64::NAN)),
        ];
        model.set_waits(Some(all.into()));
        assert_picture("waits.txt", &screen(&model, 80, 24));
        model.toggle_list();
        let paper = table::plain(&model, "from the running weir");
        assert!(paper.contains(" device 61 %   limited"), "{paper}");
        model.set_waits(None);
        assert!(!screen(&model, 200, 24).contains("WAITS IN"), "none runs");
    }

    #[test]
    fn the_plain_table() {
        let mut model = two_seconds();
        model.toggle_list();
        assert_picture("plain.txt", &table::plain(&model, "from the running weir"));
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
    fn a_recording_shows_where_one_is() {
        let mut model = two_seconds();
        model.is_recorded = true;
        model.paused = true;
        let newest = snapshot(20_000, 200.0);
        let past: Vec<_> = (0..38)
            .map(|step| (step * 500, newest.plan.devices.clone()))
            .collect();
        model.jump(&past, vec![newest]);
        model.select(1);
        assert_picture("recorded.txt", &screen(&model, 100, 24));
    }

    #[test]
    fn many_devices_have_a_line_each() {
        let mut model = Model::default();
        for tick in 0..400u32 {
            let mib = 170.0 + 60.0 * (f64::from(tick) / 15.0).sin();
            let mut seen = snapshot(u64::from(tick) * 50, mib);
            let device = seen.plan.devices[0].clone();
            for id in 1..4 {
                let id = weir_core::DeviceId(id);
                let mut more = device.clone();
                more.id = id;
                // One that has never been read.
                more.read_bytes_per_sec = more.read_bytes_per_sec.filter(|_| id.0 != 2);
                seen.plan.devices.push(more);
            }
            model.add(seen);
        }
        assert_picture("devices.txt", &screen(&model, 80, 24));
    }

    #[test]
    fn processes_below_their_workload() {
        let mut model = two_seconds();
        model.select(1);
        model.unfold();
        model.select(2);
        let seen = screen(&model, 100, 30);
        assert_picture("processes.txt", &seen);
        // The snapshot has no processes of the others, and the row says so.
        model.select(isize::MAX);
        model.unfold();
        model.select(1);
        let narrow = screen(&model, 80, 30);
        assert!(
            narrow.contains("processes are shown of workloads"),
            "{narrow}"
        );
        model.is_recorded = true;
        model.fold();
        model.fold();
        model.unfold();
        model.select(1);
        let recorded = screen(&model, 80, 30);
        assert!(recorded.contains("recordings do not keep"), "{recorded}");
    }

    #[test]
    fn folded_rows_and_rows_that_match_a_filter() {
        let mut model = two_seconds();
        model.fold_all();
        let folded = screen(&model, 80, 24);
        model.set_filter("service".to_owned());
        model.typing = true;
        model.select(1);
        assert_picture("folded.txt", &folded);
        assert_picture("filter.txt", &screen(&model, 80, 24));
    }
}
