// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile live`: the first lines of a report, and stalls and stages of each workload, refreshed each
//! window. Reading order: [`feed`] (a recording that is played by [`player`], or counts of this machine),
//! [`frame`] (what is shown of them), [`model`] (keys), [`table`] and [`draw`] (layout). Terminal and keys
//! are those of `weir top`.

mod draw;
mod feed;
mod frame;
mod model;
mod player;
mod table;
#[cfg(test)]
mod tests;

use super::cli::LiveArgs;
use super::{checked_interval, shown, windows_of};
use crate::cli::exit::{Exit, print};
use crate::cli::lab;
use crate::run::screens::latest_windows::WINDOWS_TOGETHER;
use crate::top::keys::Act;
use crate::top::terminal::{self, Ready, Terminal, on_screen};
use anyhow::{Context, Result, bail};
use feed::{LiveCounting, LiveFeed};
use frame::LiveFrame;
use model::LiveModel;
use player::WindowPlayer;
use ratatui::crossterm::event::{Event, KeyEventKind};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_figures::text::harmless;
use weir_linux::Roots;
use weir_linux::windows::Asked;
use weir_profile::WindowFile;

const POLL: Duration = Duration::from_millis(100);
const NO_SCREEN: &str = "cannot use this terminal; try --once";

/// Does it.
///
/// # Errors
/// There is nothing to show, or no terminal to show it on.
pub fn live(args: &LiveArgs, roots: &Roots) -> Result<Exit> {
    let is_screen = !args.once && io::stdout().is_terminal();
    let (mut feed, source) = match recording(args)? {
        Some((file, idle, source)) => {
            let player = WindowPlayer::new(file, idle, args.workload.clone());
            let mut player = player.context("there is no window in it")?;
            if !is_screen {
                player.go_to_end();
            }
            (LiveFeed::recorded(player)?, source)
        }
        None => (
            LiveFeed::counted(roots, counting(args, is_screen)?)?,
            "counted here".into(),
        ),
    };
    if is_screen {
        on_screen(NO_SCREEN, |screen, keys, stop| {
            show(screen, keys, &mut feed, &source, stop)
        })?;
    } else {
        let frame = feed.wait().context("nothing was counted")?;
        print(&plain(frame, &source))?;
    }
    Ok(Exit::Done)
}

/// The windows to play, with those of the idle machine and words for the first line; nothing where this
/// machine counts.
fn recording(args: &LiveArgs) -> Result<Option<(WindowFile, Option<WindowFile>, String)>> {
    let idle = args.idle.as_deref().map(windows_of).transpose()?;
    if let Some(path) = &args.file {
        return Ok(Some((windows_of(path)?, idle, shown(path))));
    }
    let Some(name) = &args.sim else {
        return Ok(None);
    };
    let source = format!("simulated: {}, seed {}", harmless(name), args.seed);
    let dir = tempfile::tempdir()?;
    let [counted, alone] = ["counted", "idle"].map(|name| dir.path().join(name));
    let file = simulated(name, args.seed, &counted, idle.is_none().then_some(&alone))?;
    let idle = idle.map_or_else(|| windows_of(&alone), Ok)?;
    Ok(Some((file, Some(idle), source)))
}

/// Windows of the synthetic server, which weir-lab writes into a file, and those that they are compared with
/// into another, if that is given.
fn simulated(name: &str, seed: u64, counted: &Path, idle: Option<&PathBuf>) -> Result<WindowFile> {
    let (mut lab, program) = lab::lab("server");
    lab.args(["--seed", &seed.to_string(), "--out"])
        .arg(counted);
    if let Some(idle) = idle {
        lab.arg("--idle-out").arg(idle);
    }
    lab.args(["--", name]);
    let done = lab.stdin(Stdio::null()).output();
    let done = done.map_err(|error| lab::explained("server", &program, &error))?;
    // 1: it has found something, which is shown here too.
    if !matches!(done.status.code(), Some(0 | 1)) {
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.trim_start_matches("weir-lab: ").trim_end();
        // Killed, it says nothing.
        if said.is_empty() {
            bail!("weir-lab ended without an answer: {}", done.status);
        }
        bail!("{said}");
    }
    windows_of(counted)
}

fn counting(args: &LiveArgs, is_screen: bool) -> Result<LiveCounting> {
    Ok(LiveCounting {
        asked: |cgroups, pid| match pid {
            Some(pid) => Asked::Process(pid),
            None if !cgroups.is_empty() => Asked::Cgroups(cgroups.to_vec()),
            None => Asked::Machine,
        },
        cgroups: args.cgroup.clone(),
        pid: args.pid,
        interval: checked_interval(args.interval)?,
        idle: args.idle.as_deref().map(windows_of).transpose()?,
        workload: args.workload.clone(),
        windows_least: if is_screen { 1 } else { WINDOWS_TOGETHER },
    })
}

/// Until a key or a signal ends it, or the terminal is closed.
fn show(
    screen: &mut ratatui::DefaultTerminal,
    keys: &Terminal,
    feed: &mut LiveFeed,
    source: &str,
    stop: &AtomicBool,
) -> Result<Ready> {
    // The variable is set and not empty, as https://no-color.org says.
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut model = LiveModel {
        is_recorded: feed.is_recorded(),
        ..LiveModel::default()
    };
    loop {
        // Taken even when paused, so that the source does not wait. A recording pauses itself.
        if let Some(frame) = feed.poll()?
            && (!model.paused || model.is_recorded)
        {
            model.frame = Some(frame);
        }
        model.is_over = feed.is_over;
        screen.draw(|frame| draw::draw(frame, &model, source, has_colours))?;
        let ready = keys.wait(POLL)?;
        let ended = ready == Ready::Closed || stop.load(Ordering::Relaxed);
        if ended || take_keys(&mut model, feed)? == Act::Quit {
            return Ok(ready);
        }
    }
}

/// Takes the keys that were pressed since the last draw.
fn take_keys(model: &mut LiveModel, feed: &LiveFeed) -> Result<Act> {
    while let Some(found) = terminal::next_event()? {
        let Event::Key(key) = found else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match model.key(key) {
            Act::Quit => return Ok(Act::Quit),
            Act::Wish(wish) => feed.wish(wish),
            Act::GoOn => {}
        }
    }
    Ok(Act::GoOn)
}

/// On paper: no colours, all rows, and below each its stalls and stages.
fn plain(frame: LiveFrame, source: &str) -> String {
    let mut lines = vec![format!(
        "weir profile: {}; {}",
        frame.place,
        harmless(source)
    )];
    lines.extend(frame.headline.iter().cloned());
    lines.extend(frame.sums.clone());
    let rows: Vec<&frame::LiveRow> = frame.rows.iter().collect();
    let layout = table::LiveLayout::on_paper(&rows);
    lines.push(layout.title());
    lines.extend(rows.iter().map(|row| layout.line(row)));
    for row in rows {
        lines.push(format!("== {}", row.name));
        match &row.why {
            Some(why) => lines.push(format!(" its stalls are not split: {why}")),
            None => lines.extend(table::stalls(row)),
        }
        lines.extend(
            table::stages(row)
                .into_iter()
                .map(|line| format!(" {line}")),
        );
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}

const COLUMNS: [&str; 10] = [
    "STALLED   part of its time that a core waits, counted",
    "CXL       part of that for CXL memory, by a model",
    "WAITS IN  stage of most stalls; their part of its time",
    "FINDINGS  rules that found something in these windows",
    "– is what is not known. Below: the chosen workload.",
    "stay, wait: how long requests are in a queue, and what of",
    "            that the idle machine does not have (--idle)",
    "full        requests in a queue ÷ its entries",
    "Figures are of the last ten windows together:",
    "sets of events take turns, and one has not seen all.",
];
const KEYS: [&str; 3] = [
    "/ filter   p pause   q Esc quit",
    "↑↓ j k PgUp PgDn Home End choose",
    "any key closes this",
];
const IN_TIME: &str = ", . step   [ ] 10 windows   { } 60   g G start and end";

fn help_lines(is_recorded: bool) -> Vec<&'static str> {
    let mut lines = COLUMNS.to_vec();
    lines.push("");
    if is_recorded {
        lines.push(IN_TIME);
    }
    lines.extend(KEYS);
    lines
}
