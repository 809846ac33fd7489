// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir replay`: a recorded run shown again.
//!
//! ```text
//!  Recording ─► Replayed (a Platform) ─► the recorded plan ──────────► View ─► lines, or the screen
//!                                    └─► step, recorded settings ─► the same plan? (--check)
//!                                    └─► step, other settings ─► View ─► lines    (--policy, …)
//! ```

use super::cli::ReplayArgs;
use super::replay_screen::ReplayScreen;
use crate::cli::exit::{Exit, print, print_json};
use crate::run::metrics::Exporter;
use crate::run::page::{LivePage, OfferedPage};
use crate::run::platform;
use crate::run::screens::changes::Changes;
use crate::run::screens::snapshot_builder::{Beside, View};
use crate::run::settings;
use crate::top;
use anyhow::{Result, bail};
use serde::Serialize;
use std::cell::RefCell;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use weir_core::seam::snapshot::Snapshot;
use weir_core::{Plan, Platform, PlatformError, State, step};
use weir_figures::text;
use weir_store::{Recording, Replayed, Session, Start, Tick};

/// Shows it.
///
/// # Errors
/// It is no recording, or the lines cannot be printed. Damage on the way is named and passed over.
pub fn replay(args: &ReplayArgs) -> Result<Exit> {
    if args.top {
        return top::recorded(ReplayScreen::start(args)?);
    }
    let recording = Recording::open(&args.file)?;
    if args.check {
        return check(&recording, args);
    }
    if args.metrics.is_some() || args.page.is_some() {
        return offer(&recording, args);
    }
    let mut out = io::stdout().lock();
    let played = play(&recording, args, &mut |_| (), &mut |snapshot| {
        serde_json::to_writer(&mut out, snapshot)?;
        out.write_all(b"\n")?;
        Ok(())
    })?;
    out.flush()?;
    Ok(played.exit())
}

/// Offers each tick's metrics and page at its time. Where they are is said when the first is there.
fn offer(recording: &Recording, args: &ReplayArgs) -> Result<Exit> {
    let exporter = args.metrics.map(Exporter::start).transpose()?;
    let token_file = args.page_token_file.as_deref();
    let page = args
        .page
        .map(|address| OfferedPage::start(address, token_file));
    let offered = RefCell::new((exporter, page.transpose()?));
    let mut is_announced = false;
    let mut changes = Changes::default();
    let mut count = |tick: &Tick| {
        let (exporter, page) = &mut *offered.borrow_mut();
        if let Some(exporter) = exporter {
            exporter.0.count(tick);
        }
        if let Some(page) = page {
            let changes = changes.of(tick.wall_unix_ms, &tick.plan, &tick.outcomes);
            page.live.count(tick, &changes);
        }
    };
    let played = play(recording, args, &mut count, &mut |snapshot| {
        let (exporter, page) = &mut *offered.borrow_mut();
        if let Some(exporter) = exporter {
            exporter.0.leave(snapshot);
        }
        if let Some(page) = page {
            page.live.leave(snapshot);
        }
        if !std::mem::replace(&mut is_announced, true) {
            if let Some((exporter, _)) = exporter {
                exporter.wait_for_first();
            }
            let address = exporter.as_ref().map(|(_, address)| *address);
            announce(address, page.as_ref());
        }
        Ok(())
    })?;
    if let ((_, Some(page)), Some(last)) = (offered.into_inner(), &played.last) {
        stay(page.live, last.snapshot());
    }
    Ok(played.exit())
}

fn announce(metrics: Option<SocketAddr>, page: Option<&OfferedPage>) {
    let metrics = metrics.map(|address| {
        format!("metrics are at http://{address}/metrics until the end of the recording")
    });
    let page = page.map(|page| format!("the page is at http://{}/", page.address));
    for line in metrics.into_iter().chain(page) {
        // A closed stderr is no reason to stop.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Until Ctrl-C: a page that goes away while it is read helps no reader.
fn stay(mut page: LivePage, last: &Snapshot) -> ! {
    let _ = writeln!(
        io::stderr(),
        "the recording has ended; its page stays until Ctrl-C"
    );
    loop {
        page.leave(last);
        thread::sleep(Duration::from_millis(100));
    }
}

/// The sessions that are wanted.
///
/// # Errors
/// There is no such one.
pub fn chosen<'a>(recording: &'a Recording, args: &ReplayArgs) -> Result<Vec<&'a Session>> {
    let wanted = |session: &&Session| args.session.is_none_or(|id| id == session.id);
    let found: Vec<&Session> = recording.sessions().iter().filter(wanted).collect();
    if let ([], Some(id)) = (found.as_slice(), args.session) {
        bail!("there is no session {id}: `weir record FILE --info` lists them");
    }
    Ok(found)
}

pub struct Played {
    pub damaged: bool,
    last: Option<View>,
}

impl Played {
    fn exit(&self) -> Exit {
        if self.damaged {
            Exit::Trouble
        } else {
            Exit::Done
        }
    }
}

/// Gives each tick, and then the snapshot that it makes.
///
/// # Errors
/// There is no such session, or what `show` says.
pub fn play(
    recording: &Recording,
    args: &ReplayArgs,
    met: &mut dyn FnMut(&Tick),
    show: &mut dyn FnMut(&Snapshot) -> Result<()>,
) -> Result<Played> {
    let mut damaged = false;
    let mut pace = Pace::new(args);
    let mut running: Option<Running> = None;
    for session in chosen(recording, args)? {
        let mut world = Replayed::new(recording, session);
        while let Some(result) = next(&mut world) {
            let Ok(mut tick) = result.map_err(|what| say(&what)) else {
                damaged = true;
                continue;
            };
            let run = Running::follow(running.take(), session, &tick, args)?;
            let run = running.insert(run);
            if let Some(other) = &mut run.other {
                other.decide(&mut world, &mut tick);
            }
            pace.wait(tick.wall_unix_ms);
            met(&tick);
            run.view.update(tick, Beside::default());
            show(run.view.snapshot())?;
        }
    }
    let last = running.map(|run| run.view);
    Ok(Played { damaged, last })
}

/// A run of weir that is shown again: one session, or several that go on with one another.
struct Running<'a> {
    session: &'a Session,
    last_seq: u64,
    view: View,
    other: Option<Other>,
}

impl<'a> Running<'a> {
    /// The run that a tick belongs to.
    fn follow(
        before: Option<Running<'a>>,
        session: &'a Session,
        tick: &Tick,
        args: &ReplayArgs,
    ) -> Result<Running<'a>> {
        let seq = tick.observation.seq;
        let before = match before {
            Some(mut run) if run.session.id == session.id => {
                run.last_seq = seq;
                return Ok(run);
            }
            Some(run) if session.start.goes_on(&run.session.start, seq, run.last_seq) => Some(run),
            _ => None,
        };
        let mut other = Other::new(args, &session.start)?;
        let start = other.as_ref().map_or(&session.start, |other| &other.start);
        let mut view = View::new(head(start));
        if let Some(before) = before {
            view = before.view;
            view.update_machine(&start.description);
            view.update_settings(start.config.limit, &start.policy);
            if let (Some(other), Some(before)) = (&mut other, before.other) {
                other.state = before.state;
            }
        }
        Ok(Running {
            session,
            last_seq: seq,
            view,
            other,
        })
    }
}

/// The next tick, or what is damaged; nothing at the end.
pub fn next(world: &mut Replayed) -> Option<Result<Tick, String>> {
    match world.observe() {
        Ok(_) => world.tick().cloned().map(Ok),
        Err(PlatformError::End) => None,
        Err(PlatformError::Broken(what)) => Some(Err(what)),
    }
}

fn say(what: &str) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(io::stderr(), "weir: {}", text::harmless(what));
}

/// The snapshot before the first tick: the weir that recorded, and the machine.
pub fn head(start: &Start) -> Snapshot {
    Snapshot {
        writer_pid: start.writer_pid,
        limiting: start.config.limit,
        interval_ms: start.interval_ms,
        policy: start.policy.clone(),
        description: start.description.clone(),
        ..Snapshot::empty()
    }
}

/// The controller with other settings than it had.
pub struct Other {
    pub start: Start,
    state: State,
}

impl Other {
    /// Nothing if no other settings are wanted.
    ///
    /// # Errors
    /// They make no sense on that machine.
    pub fn new(args: &ReplayArgs, start: &Start) -> Result<Option<Other>> {
        if args.policy.is_none() && args.set_point.is_none() {
            return Ok(None);
        }
        let mut start = start.clone();
        if let Some(policy) = args.policy {
            start.config.policy = policy.policy();
            start.policy = platform::policy_name(policy.policy());
        }
        if let Some(set_point) = &args.set_point {
            let capacity = args.capacity.map(|rate| rate.0);
            let held = settings::set_point(*set_point, capacity, &start.description)?;
            start.config.set_point_bytes_per_sec = Some(held);
            start.config.limit = true;
        }
        start.config.validate()?;
        let state = State::default();
        Ok(Some(Other { start, state }))
    }

    /// Puts its plan in place of the recorded one.
    pub fn decide(&mut self, world: &mut Replayed, tick: &mut Tick) {
        let Start {
            config,
            description,
            ..
        } = &self.start;
        tick.plan = step(&mut self.state, config, description, &tick.observation);
        tick.outcomes = world.apply(&tick.plan);
        self.state.note(&tick.outcomes);
    }
}

/// What --check found in a session.
#[derive(Default, Serialize)]
struct Checked {
    session: i64,
    ticks: u64,
    lost_ticks: u64,
    damaged_places: u64,
    plans_that_differ: u64,
    first_seq_that_differs: Option<u64>,
}

/// Same recording, same plan? A session that goes on with another one is decided with what was known at that
/// one's end.
fn check(recording: &Recording, args: &ReplayArgs) -> Result<Exit> {
    let wanted = chosen(recording, args)?;
    let mut all = Vec::new();
    let mut decided = Decided::default();
    for session in leading_to(recording, &wanted) {
        let found = decided.check(recording, session);
        if wanted.iter().any(|wanted| wanted.id == session.id) {
            all.push(found);
        }
    }
    if args.json {
        print_json(&serde_json::json!({ "sessions": all }))?;
    } else {
        print(&all.iter().map(verdict).collect::<String>())?;
    }
    Ok(if all.iter().any(|found| found.damaged_places > 0) {
        Exit::Trouble
    } else if all.iter().any(|found| found.plans_that_differ > 0) {
        Exit::Finding
    } else {
        Exit::Done
    })
}

/// The controller after the ticks so far.
#[derive(Default)]
struct Decided<'a> {
    state: State,
    /// The session of the last of them, and its number.
    last: Option<(&'a Start, u64)>,
}

impl<'a> Decided<'a> {
    fn check(&mut self, recording: &'a Recording, session: &'a Session) -> Checked {
        let mut found = Checked {
            session: session.id,
            ..Checked::default()
        };
        let mut world = Replayed::new(recording, session);
        while let Some(result) = next(&mut world) {
            let Ok(tick) = result.map_err(|what| say(&what)) else {
                found.damaged_places += 1;
                continue;
            };
            let plan = self.decide(&session.start, &tick, found.ticks == 0);
            found.ticks += 1;
            found.lost_ticks += tick.lost_before;
            if plan != tick.plan {
                found.plans_that_differ += 1;
                found.first_seq_that_differs.get_or_insert(tick.plan.seq);
            }
        }
        found
    }

    fn decide(&mut self, start: &'a Start, tick: &Tick, is_first: bool) -> Plan {
        let seq = tick.observation.seq;
        let goes_on = |(before, last)| start.goes_on(before, seq, last);
        if is_first && !self.last.is_some_and(goes_on) {
            self.state = State::default();
        }
        self.last = Some((start, seq));
        let (config, machine) = (&start.config, &start.description);
        let plan = step(&mut self.state, config, machine, &tick.observation);
        self.state.note(&tick.outcomes);
        plan
    }
}

/// These sessions, and those before them that they may go on with.
fn leading_to<'a>(recording: &'a Recording, wanted: &[&'a Session]) -> Vec<&'a Session> {
    let all = recording.sessions();
    let place = |id| all.iter().position(|session| session.id == id);
    let first = wanted.first().and_then(|session| place(session.id));
    let last = wanted.last().and_then(|session| place(session.id));
    let (Some(mut first), Some(last)) = (first, last) else {
        return Vec::new();
    };
    while first > 0 && all[first].start.is_like(&all[first - 1].start) {
        first -= 1;
    }
    all[first..=last].iter().collect()
}

fn verdict(found: &Checked) -> String {
    let verdict = match found.first_seq_that_differs {
        None => "each plan is the recorded one".to_owned(),
        Some(seq) => {
            let count = found.plans_that_differ;
            format!("{count} plans differ, the first at seq {seq}")
        }
    };
    let lost = match found.lost_ticks {
        0 => String::new(),
        lost => format!(" ({lost} ticks were lost)"),
    };
    let damaged = match found.damaged_places {
        0 => "",
        _ => "; not all of it can be read",
    };
    let Checked { session, ticks, .. } = found;
    format!("session {session}: {ticks} ticks{lost}: {verdict}{damaged}\n")
}

/// Waits between ticks as long as it took then, divided by the speed.
struct Pace {
    speed: Option<f64>,
    began: Option<(Instant, u64)>,
}

impl Pace {
    fn new(args: &ReplayArgs) -> Pace {
        Pace {
            // Metrics are scraped, and a page is read, in real time: the recording plays at its own speed.
            speed: args.speed.or(args.metrics.or(args.page).map(|_| 1.0)),
            began: None,
        }
    }

    fn wait(&mut self, wall_unix_ms: u64) {
        let Some(speed) = self.speed else { return };
        let (start, first) = *self.began.get_or_insert((Instant::now(), wall_unix_ms));
        // Between two sessions there may have been days, and the clock may have been set.
        let span = wall_unix_ms.saturating_sub(first) as f64 / 1000.0 / speed;
        let wanted = Duration::try_from_secs_f64(span).unwrap_or(Duration::MAX);
        let wait = wanted.saturating_sub(start.elapsed());
        if wait > Duration::from_secs(60) {
            self.began = Some((Instant::now(), wall_unix_ms));
        } else {
            thread::sleep(wait);
        }
    }
}
