// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the frames of the screen come from: a thread that plays a recording, or one that counts here and
//! another that makes figures of what it counts, so that the counters' turns wait for no figure.

use super::frame::{LiveFrame, moment};
use super::player::WindowPlayer;
use crate::recordings::replay_screen::Wish;
use crate::run::screens::latest_windows::{LatestWindows, WINDOWS_TOGETHER};
use crate::run::screens::waits_in::WaitsPublisher;
use anyhow::{Context, Result, anyhow};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;
use std::time::Duration;
use weir_core::{Nanos, Window};
use weir_linux::Roots;
use weir_linux::windows::{Asked, WindowRecorder};
use weir_profile::WindowFile;
use weir_profile::window_file::Header;

/// What comes from a thread.
enum News {
    Frame(Box<LiveFrame>),
    /// There is nothing left to count for.
    Over,
}

/// The screen has gone.
pub struct FeedError;

pub struct FeedSender(SyncSender<News>);

impl FeedSender {
    /// Waits until the screen has taken the last one.
    ///
    /// # Errors
    /// The screen has gone.
    pub fn frame(&self, frame: LiveFrame) -> Result<(), FeedError> {
        let sent = self.0.send(News::Frame(Box::new(frame)));
        sent.map_err(|_| FeedError)
    }
}

pub struct LiveFeed {
    news: Receiver<News>,
    /// Requests to move within a recording; none where windows are counted live.
    wishes: Option<Sender<Wish>>,
    /// All that was counted is shown.
    pub is_over: bool,
}

/// What is counted, and what its figures are compared with.
pub struct LiveCounting {
    pub asked: fn(&[String], Option<u32>) -> Asked,
    pub cgroups: Vec<String>,
    pub pid: Option<u32>,
    /// Length of a window.
    pub interval: Duration,
    pub idle: Option<WindowFile>,
    /// Only workloads with this in their name.
    pub workload: Option<String>,
    /// Figures only when so many windows are there.
    pub windows_least: usize,
}

impl LiveFeed {
    /// Plays a recording.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn recorded(player: WindowPlayer) -> Result<LiveFeed> {
        let (send, news) = sync_channel(1);
        let (wishes, requests) = channel();
        let play = move || {
            // The screen has gone: that is the end.
            let _ = player.run(&requests, &FeedSender(send));
        };
        spawn("weir-live-play", play)?;
        Ok(LiveFeed {
            news,
            wishes: Some(wishes),
            is_over: false,
        })
    }

    /// Counts on this machine.
    ///
    /// # Errors
    /// Nothing can be counted here, what is asked for is not there, or the kernel refuses it.
    pub fn counted(roots: &Roots, counting: LiveCounting) -> Result<LiveFeed> {
        let (opened_send, opened) = sync_channel(1);
        let (windows_send, windows) = channel();
        let (own, for_top) = (roots.clone(), roots.clone());
        let asked = (counting.asked)(&counting.cgroups, counting.pid);
        let interval = counting.interval;
        // The recorder is made inside of its thread: it need not be able to travel.
        spawn("weir-live-count", move || {
            count(&own, asked, interval, &opened_send, &windows_send);
        })?;
        let header = opened.recv().context("the counting thread has ended")??;
        let (send, news) = sync_channel(1);
        spawn("weir-live", move || {
            let publisher = WaitsPublisher::new(&for_top, interval);
            // The same as in `recorded`.
            let _ = figures(header, &windows, &counting, publisher, &FeedSender(send));
        })?;
        Ok(LiveFeed {
            news,
            wishes: None,
            is_over: false,
        })
    }

    /// Whether keys can move through it.
    pub fn is_recorded(&self) -> bool {
        self.wishes.is_some()
    }

    pub fn wish(&self, wish: Wish) {
        if let Some(wishes) = &self.wishes {
            // After a fault of the other side the screen stays as it is.
            let _ = wishes.send(wish);
        }
    }

    /// The next frame, if there is one.
    ///
    /// # Errors
    /// The thread has failed.
    pub fn poll(&mut self) -> Result<Option<LiveFrame>> {
        if self.is_over {
            return Ok(None);
        }
        match self.news.try_recv() {
            Ok(news) => Ok(self.take(news)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(anyhow!("the profiling thread has ended")),
        }
    }

    /// Waits for the next frame; nothing where none comes.
    pub fn wait(&mut self) -> Option<LiveFrame> {
        let news = self.news.recv().ok()?;
        self.take(news)
    }

    fn take(&mut self, news: News) -> Option<LiveFrame> {
        match news {
            News::Frame(frame) => Some(*frame),
            News::Over => {
                self.is_over = true;
                None
            }
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).context("cannot start a thread")
}

/// Window after window, until there is nothing left to count for, or no reader.
fn count(
    roots: &Roots,
    asked: Asked,
    interval: Duration,
    opened: &SyncSender<Result<Header>>,
    windows: &Sender<Window>,
) {
    let begin = || -> Result<(WindowRecorder, Header)> {
        let mut recorder = WindowRecorder::open(roots, asked)?;
        let header = Header {
            family: recorder.family().map(str::to_owned),
            capacities: recorder.capacities().into_iter().collect(),
            sockets: recorder.sockets(),
            ..Header::new("weir profile live")
        };
        recorder.start()?;
        Ok((recorder, header))
    };
    let mut recorder = match begin() {
        Ok((recorder, header)) => {
            // The other side waits for exactly this message.
            let _ = opened.send(Ok(header));
            recorder
        }
        Err(why) => {
            let _ = opened.send(Err(why));
            return;
        }
    };
    let length = Nanos(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
    while !recorder.is_over() {
        let window = recorder.window(length, &|| false);
        if windows.send(window).is_err() {
            return;
        }
    }
}

/// Figures of the last windows. What came while they were made is taken in at once.
fn figures(
    header: Header,
    windows: &Receiver<Window>,
    counting: &LiveCounting,
    mut publisher: WaitsPublisher,
    send: &FeedSender,
) -> Result<(), FeedError> {
    let mut latest = LatestWindows::new(header);
    let mut shown = 0;
    loop {
        let next = windows.recv();
        let is_over = next.is_err();
        for window in next.into_iter().chain(windows.try_iter()) {
            latest.add(window);
        }
        let is_new = latest.seen > shown;
        if is_new && (is_over || latest.seen >= counting.windows_least) {
            shown = latest.seen;
            let place = format!(
                "counting for {} · the last {} windows",
                moment(latest.to()),
                latest.seen.min(WINDOWS_TOGETHER)
            );
            let (idle, workload) = (counting.idle.as_ref(), counting.workload.as_deref());
            send.frame(LiveFrame::new(&latest.file(), idle, workload, place))?;
        }
        publisher.follow(&latest);
        if is_over {
            return send.0.send(News::Over).map_err(|_| FeedError);
        }
    }
}
