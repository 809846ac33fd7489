// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording on the screen, and moving through it: pause, step, jump.
//!
//! A jump reads from some time before its target on, as far as the curves reach back, so that the screen
//! is the same as after a replay without jumps. The past is handed over in short form ([`Past`]), so that a
//! jump costs the screen little.

use super::cli::ReplayArgs;
use super::replay::{Other, chosen, head, next};
use crate::run::screens::snapshot_builder::{Beside, View};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::thread;
use std::time::{Duration, Instant};
use weir_core::seam::plan::DeviceState;
use weir_core::seam::snapshot::Snapshot;
use weir_store::{Recording, Replayed, Session, Tick};

/// How far before its aim a jump reads: the curves of a wide screen. So the screen is what it would be if the
/// recording had been watched all along.
const REACH_MS: u64 = 256_000;
/// Whole snapshots of so much time before the target: figures are means over it.
const RECENT_MS: u64 = 1_000;
/// Longest pause between two ticks: in the recording there may be days between them.
const GAP_MOST_MS: u64 = 60_000;

/// A request of the user at the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Stop, or go on.
    Pause(bool),
    /// One tick on, or back.
    Step { back: bool },
    /// So much time on, or back.
    By(i64),
    /// Goes to the first tick.
    Start,
    /// Goes to the last tick.
    End,
}

/// The devices at some earlier tick.
pub type Past = (u64, Vec<DeviceState>);

/// What comes from the recording.
pub enum ReplayView {
    Tick(Box<Snapshot>),
    /// Somewhere else: forget what was, this came before, and this is now.
    Jump {
        past: Vec<Past>,
        recent: Vec<Snapshot>,
    },
}

/// The screen's end of it.
pub struct ReplayScreen {
    wishes: Sender<Wish>,
    shown: Receiver<ReplayView>,
    damaged: Arc<AtomicU64>,
    /// How it came about, for the screen's first line.
    pub origin: &'static str,
    /// When the recording begins and ends, milliseconds since the Unix epoch.
    pub span_unix_ms: (u64, u64),
}

impl ReplayScreen {
    /// Plays it from its beginning.
    ///
    /// # Errors
    /// It is no recording, has no such session, or no thread can be had.
    pub fn start(args: &ReplayArgs) -> Result<ReplayScreen> {
        // Opened here too, so that what is wrong with it is said before the screen changes.
        let recording = Recording::open(&args.file)?;
        let sessions = chosen(&recording, args)?;
        let mut end = 0;
        for session in &sessions {
            end = recording.last_unix_ms(session.id)?.unwrap_or(0).max(end);
        }
        let begin = sessions.first().map_or(0, |s| s.start.started_unix_ms);
        let (send, shown) = sync_channel(64);
        let (wishes, requests) = channel();
        let args = args.clone();
        let damaged: Arc<AtomicU64> = Arc::default();
        let counted = Arc::clone(&damaged);
        thread::Builder::new()
            .name("weir-replay".into())
            .spawn(move || -> Result<()> {
                let recording = Recording::open(&args.file)?;
                let sessions = chosen(&recording, &args)?;
                Player::new(&recording, sessions, &args, counted).run(&requests, &send)
            })
            .context("cannot start the replaying thread")?;
        Ok(ReplayScreen {
            wishes,
            shown,
            damaged,
            origin: "recorded",
            span_unix_ms: (begin, end.max(begin)),
        })
    }

    /// The same by another name on the screen.
    #[must_use]
    pub fn named(mut self, origin: &'static str) -> ReplayScreen {
        self.origin = origin;
        self
    }

    /// Sends a request; it is carried out as soon as possible.
    pub fn wish(&self, wish: Wish) {
        // After a fault of the other side the screen stays as it is.
        let _ = self.wishes.send(wish);
    }

    /// Places met so far that could not be read.
    pub fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// What has come since.
    pub fn poll(&self) -> Option<ReplayView> {
        self.shown.try_recv().ok()
    }

    /// The end of the recording; waits until it is read. Nothing if there is no tick in it.
    pub fn last(&self) -> Option<ReplayView> {
        self.wish(Wish::Pause(true));
        self.wish(Wish::End);
        // Ticks that were on their way come first.
        loop {
            match self.shown.recv() {
                Ok(ReplayView::Tick(_)) => {}
                Ok(jump) => return Some(jump),
                Err(_) => return None,
            }
        }
    }
}

/// Where in the recording.
struct Player<'a> {
    recording: &'a Recording,
    sessions: Vec<&'a Session>,
    args: &'a ReplayArgs,
    /// The session that is played, by its place in the list.
    place: usize,
    world: Option<Replayed<'a>>,
    other: Option<Other>,
    view: View,
    pending: Option<Tick>,
    /// When the tick shown last was.
    now_unix_ms: u64,
    paused: bool,
    damaged: Arc<AtomicU64>,
    /// A time of the recording, and when it was shown.
    anchor: Option<(Instant, u64)>,
}

impl<'a> Player<'a> {
    fn new(
        recording: &'a Recording,
        sessions: Vec<&'a Session>,
        args: &'a ReplayArgs,
        damaged: Arc<AtomicU64>,
    ) -> Player<'a> {
        Player {
            recording,
            sessions,
            args,
            place: 0,
            world: None,
            other: None,
            view: View::new(Snapshot::empty()),
            pending: None,
            now_unix_ms: 0,
            paused: false,
            damaged,
            anchor: None,
        }
    }

    /// Until the screen has gone.
    fn run(mut self, wishes: &Receiver<Wish>, shown: &SyncSender<ReplayView>) -> Result<()> {
        self.open(0, None)?;
        loop {
            let wish = match self.wait() {
                Some(wait) => wishes.recv_timeout(wait),
                None => wishes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let wish = match wish {
                Ok(wish) => Some(wish),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let message = match wish {
                None => self
                    .take()?
                    .map(|snapshot| ReplayView::Tick(Box::new(snapshot))),
                Some(wish) => self.grant(wish, wishes)?,
            };
            if let Some(message) = message
                && shown.send(message).is_err()
            {
                return Ok(());
            }
        }
    }

    /// Until the next tick is due; nothing if none comes by itself.
    fn wait(&mut self) -> Option<Duration> {
        let tick = self.pending.as_ref().filter(|_| !self.paused)?;
        let is_far = tick.wall_unix_ms.saturating_sub(self.now_unix_ms) > GAP_MOST_MS;
        if is_far {
            self.anchor = None;
        }
        // After a jump the next tick is as far away as it was then.
        let from = if is_far {
            tick.wall_unix_ms
        } else {
            self.now_unix_ms
        };
        let (since, from) = *self.anchor.get_or_insert((Instant::now(), from));
        let speed = self.args.speed.unwrap_or(1.0);
        let span = tick.wall_unix_ms.saturating_sub(from) as f64 / 1000.0 / speed;
        let due = Duration::try_from_secs_f64(span).unwrap_or(Duration::MAX);
        Some(due.saturating_sub(since.elapsed()))
    }

    /// Carries out requests. Jumps that came meanwhile are made as one.
    fn grant(&mut self, wish: Wish, wishes: &Receiver<Wish>) -> Result<Option<ReplayView>> {
        self.anchor = None;
        let mut by = match wish {
            Wish::Pause(paused) => {
                self.paused = paused;
                return Ok(None);
            }
            Wish::Step { back: false } => {
                self.paused = true;
                return Ok(self
                    .take()?
                    .map(|snapshot| ReplayView::Tick(Box::new(snapshot))));
            }
            Wish::Step { back: true } => {
                self.paused = true;
                // A key that stays pressed repeats faster than there can be steps back.
                while let Ok(more) = wishes.try_recv() {
                    if more != wish {
                        return self.grant(more, wishes);
                    }
                }
                let before = self.now_unix_ms.saturating_sub(1);
                return self.jump(before).map(Some);
            }
            Wish::Start => return self.jump(0).map(Some),
            Wish::End => return self.jump(u64::MAX).map(Some),
            Wish::By(by) => by,
        };
        loop {
            match wishes.try_recv() {
                Ok(Wish::By(more)) => by = by.saturating_add(more),
                Ok(Wish::Pause(paused)) => self.paused = paused,
                // The last word counts.
                Ok(other) => return self.grant(other, wishes),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        self.jump(self.now_unix_ms.saturating_add_signed(by))
            .map(Some)
    }

    /// Goes to the last tick that is not later than this, or to the first if all are later.
    fn jump(&mut self, to_unix_ms: u64) -> Result<ReplayView> {
        let begun = |session: &&Session| session.start.started_unix_ms <= to_unix_ms;
        let place = self.sessions.iter().rposition(begun).unwrap_or(0);
        let end = match self.sessions.get(place) {
            Some(session) => self.recording.last_unix_ms(session.id)?.unwrap_or(0),
            None => 0,
        };
        let to_unix_ms = to_unix_ms.min(end);
        self.open(place, Some(to_unix_ms.saturating_sub(REACH_MS)))?;
        let (mut past, mut recent) = (Vec::new(), Vec::new());
        while let Some(tick) = &self.pending {
            let is_later = tick.wall_unix_ms > to_unix_ms || self.place != place;
            let is_first = past.is_empty() && recent.is_empty();
            if is_later && !is_first {
                break;
            }
            let is_recent = tick.wall_unix_ms.saturating_add(RECENT_MS) > to_unix_ms;
            match self.take_as(is_recent)? {
                Some(Ok(snapshot)) => recent.push(snapshot),
                Some(Err(devices)) => past.push(devices),
                None => break,
            }
            // A first tick that is later than the aim is where we are.
            if is_later {
                break;
            }
        }
        if recent.is_empty() {
            // Where ticks are far apart even the last is not recent.
            past.pop();
            recent.push(self.view.snapshot().clone());
        }
        Ok(ReplayView::Jump { past, recent })
    }

    /// Goes to the beginning of a session, or at some tick not later than `from`.
    fn open(&mut self, place: usize, from: Option<u64>) -> Result<()> {
        self.load(place, from)?;
        self.advance()
    }

    fn load(&mut self, place: usize, from: Option<u64>) -> Result<()> {
        self.place = place;
        self.anchor = None;
        let Some(session) = self.sessions.get(place) else {
            self.world = None;
            return Ok(());
        };
        self.other = Other::new(self.args, &session.start)?;
        let start = self.other.as_ref().map_or(&session.start, |o| &o.start);
        self.view = View::new(head(start));
        // What is decided anew depends on all that was before.
        let from = from.filter(|_| self.other.is_none()).unwrap_or(0);
        self.world = Some(Replayed::from(self.recording, session, from)?);
        Ok(())
    }

    /// Reads the next tick; of the next session, where this one ends.
    fn advance(&mut self) -> Result<()> {
        self.pending = None;
        while let Some(world) = &mut self.world {
            match next(world) {
                Some(Ok(mut tick)) => {
                    if let Some(other) = &mut self.other {
                        other.decide(world, &mut tick);
                    }
                    self.pending = Some(tick);
                    return Ok(());
                }
                // A screen is no place to say it: it is counted, and said at the end.
                Some(Err(_)) => {
                    self.damaged.fetch_add(1, Ordering::Relaxed);
                }
                None => self.load(self.place + 1, None)?,
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Snapshot>> {
        let taken = self.take_as(true)?;
        Ok(taken.and_then(Result::ok))
    }

    /// Shows the pending tick, whole or as what curves need of it.
    fn take_as(&mut self, whole: bool) -> Result<Option<Result<Snapshot, Past>>> {
        let Some(tick) = self.pending.take() else {
            return Ok(None);
        };
        self.now_unix_ms = tick.wall_unix_ms;
        self.view.update(tick, Beside::default());
        let snapshot = self.view.snapshot();
        let shown = if whole {
            Ok(snapshot.clone())
        } else {
            Err((snapshot.wall_unix_ms, snapshot.plan.devices.clone()))
        };
        self.advance()?;
        Ok(Some(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::snapshot;
    use std::path::Path;
    use weir_core::{Config, Observation};
    use weir_store::{Recorder, Start};

    const FIRST_MS: u64 = 1_000_000;
    const TICKS: u64 = 400;

    /// Sessions a day apart.
    fn record(path: &Path, days: u64, interval_ms: u64) {
        for day in 0..days {
            let begin = FIRST_MS + day * 86_400_000;
            let start = Start {
                started_unix_ms: begin,
                writer_version: "0".into(),
                writer_pid: 1,
                interval_ms,
                policy: "max-min".into(),
                config: Config::default(),
                description: snapshot(0, 1.0).description,
            };
            let mut recorder = Recorder::open(path, &start).unwrap();
            for tick in 0..TICKS {
                let seen = snapshot(tick * interval_ms, 100.0);
                let tick = Tick {
                    wall_unix_ms: begin + tick * interval_ms,
                    lost_before: 0,
                    observation: Observation::default(),
                    plan: seen.plan,
                    outcomes: Vec::new(),
                    self_cost: None,
                };
                recorder.add(&tick).unwrap();
            }
            recorder.finish(begin + TICKS * interval_ms).unwrap();
        }
    }

    fn started(path: &Path) -> ReplayScreen {
        ReplayScreen::start(&ReplayArgs {
            file: path.to_owned(),
            top: true,
            // The speed is so low that no tick comes by itself.
            speed: Some(1e-6),
            ..ReplayArgs::default()
        })
        .unwrap()
    }

    /// What was before, and when the newest is, after the next jump or step.
    fn after(screen: &ReplayScreen, wish: Wish) -> (Option<usize>, u64) {
        screen.wish(wish);
        match screen.shown.recv().unwrap() {
            ReplayView::Tick(snapshot) => (None, snapshot.wall_unix_ms - FIRST_MS),
            ReplayView::Jump { past, recent } => {
                let newest = recent.last().unwrap();
                assert!(recent.len() <= 20, "{}", recent.len());
                let all = past.len() + recent.len();
                (Some(all), newest.wall_unix_ms - FIRST_MS)
            }
        }
    }

    #[test]
    fn one_can_go_to_any_tick() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.weir");
        record(&path, 2, 50);
        let screen = started(&path);
        let day = 86_400_000;
        let last = (TICKS - 1) * 50;
        assert_eq!(screen.span_unix_ms.1 - screen.span_unix_ms.0, day + last);
        assert_eq!(
            screen.shown.recv().map(|_| ()),
            Ok(()),
            "the first tick comes by itself"
        );
        let (back, on) = (Wish::Step { back: true }, Wish::Step { back: false });
        for (wish, wanted) in [
            (on, (None, 50)),
            (Wish::By(10_000), (Some(202), 10_050)),
            (back, (Some(201), 10_000)),
            (on, (None, 10_050)),
            (Wish::By(-60_000), (Some(1), 0)),
            (back, (Some(1), 0)),
            // A step goes no further than the session that is played …
            (Wish::By(60_000), (Some(400), last)),
            // … but step by step into the next, and back.
            (on, (None, day)),
            (back, (Some(400), last)),
            (Wish::End, (Some(400), day + last)),
            (Wish::Start, (Some(1), 0)),
        ] {
            assert_eq!(after(&screen, wish), wanted, "{wish:?}");
        }
        assert_eq!(screen.damaged(), 0);
    }

    #[test]
    fn ticks_far_apart_are_found_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.weir");
        record(&path, 1, 3000);
        let screen = started(&path);
        assert_eq!(
            screen.shown.recv().map(|_| ()),
            Ok(()),
            "the first tick comes by itself"
        );
        for (by, wanted) in [(10_000, 9_000), (-4_000, 3_000), (-1, 0), (-1, 0)] {
            assert_eq!(after(&screen, Wish::By(by)).1, wanted, "{by}");
        }
    }
}
