// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server: the same program, which was started by the writer. It takes its listeners and its setup from
//! its stdin, confines itself, and passes on what the writer gives it, until that ends.

use super::ServerSetup;
use super::wire::{Frame, PostResult, REPORT_BYTES, Report};
use crate::run::metrics::pages::MetricsPages;
use crate::run::page::{self, Audience, Viewers};
use crate::run::push::post::Poster;
use crate::run::push::send::Failure;
use crate::run::serve::http::access::Access;
use crate::run::serve::http::{self, Request};
use crate::run::service::log::Log;
use anyhow::{Context, Result, bail};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Resource, Rlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tracing::{debug, warn};
use weir_linux::{ServerNeeds, confine_server};

/// The word on the command line.
pub const WORD: &str = "serve-figures";
/// Metrics, and the page.
pub const LISTENERS_MAX: usize = 2;
/// A page of 5000 workloads for 16 browsers takes a tenth of it.
const MEMORY_MAX_BYTES: u64 = 1 << 30;
const SETUP_MAX_BYTES: u64 = 1 << 20;

/// Serves until the writer ends.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, the writer says that it ended.
            let _ = writeln!(io::stderr(), "weir {WORD}: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn serve() -> Result<()> {
    // What the program that started weir had open is not for this process.
    weir_linux::close_inherited();
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let mut stream = UnixStream::from(stdin);
    let (setup, listeners) =
        receive(&mut stream).context("`weir run` starts this program itself")?;
    // The writer gets them too, and ends this process when it has no more to send.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let poster = setup.push.as_ref().map(Poster::new).transpose()?;
    let needs = ServerNeeds {
        accepts: !listeners.is_empty(),
        connects_to: poster.as_ref().map(Poster::port),
    };
    // Whatever clients have it keep: the machine's memory is not theirs. A lower limit stays.
    let most = Rlimit {
        current: Some(MEMORY_MAX_BYTES),
        maximum: Some(MEMORY_MAX_BYTES),
    };
    let _ = setrlimit(Resource::Data, most);
    // This is done before there is another thread.
    let lacking = confine_server(needs);
    let log = Log::start(&setup.log, setup.log_format)?;
    for what in lacking {
        if setup.is_first {
            warn!("the process for metrics, page and push is less confined: {what}")
        } else {
            debug!("less confined: {what}")
        }
    }
    let reports = Reports::new(stream.try_clone()?);
    let server = FrameReader::start(setup, listeners, poster, reports)?;
    let read = server.read_all(&mut stream);
    log.flush();
    Ok(read?)
}

/// The setup, and the listeners that came beside it.
fn receive(stream: &mut UnixStream) -> Result<(ServerSetup, Vec<TcpListener>)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LISTENERS_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut length)];
    let got = recvmsg(&*stream, &mut slices, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes != length.len() {
        bail!("nothing was sent");
    }
    let mut listeners = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            listeners.extend(fds.map(TcpListener::from));
        }
    }
    let length = u64::from(u32::from_le_bytes(length));
    let mut json = Vec::new();
    stream
        .take(length.min(SETUP_MAX_BYTES))
        .read_to_end(&mut json)?;
    Ok((serde_json::from_slice(&json)?, listeners))
}

#[derive(Clone)]
struct Reports(Arc<Mutex<ReportStream>>);

struct ReportStream {
    stream: UnixStream,
    audience: Option<Arc<Audience>>,
    last: [u8; REPORT_BYTES],
}

impl Reports {
    fn new(stream: UnixStream) -> Reports {
        Reports(Arc::new(Mutex::new(ReportStream {
            stream,
            audience: None,
            last: Report::default().bytes(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, ReportStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is so now; nothing where that is known and not asked for.
    fn say(&self, result: Option<(u64, PostResult)>, always: bool) {
        // Under the lock: the last report is the newest.
        let mut to = self.lock();
        let viewers = to.audience.as_ref().map(|audience| audience.is_there());
        let (has_viewers, has_fresh) = viewers.unwrap_or_default();
        let report = Report {
            has_viewers,
            has_fresh,
            result,
        };
        let bytes = report.bytes();
        if always || bytes != to.last {
            to.last = bytes;
            // A writer that has gone closes what is read, too.
            let _ = to.stream.write_all(&bytes);
        }
    }
}

struct FrameReader {
    pages: Arc<MetricsPages>,
    audience: Arc<Audience>,
    batches: Option<SyncSender<(u64, Arc<[u8]>)>>,
    reports: Reports,
}

impl FrameReader {
    fn start(
        setup: ServerSetup,
        listeners: Vec<TcpListener>,
        poster: Option<Poster>,
        reports: Reports,
    ) -> Result<FrameReader> {
        let (pages, audience): (Arc<MetricsPages>, Arc<Audience>) = Default::default();
        let mut listeners = listeners.into_iter();
        let mut next = || listeners.next().context("a listener is missing");
        if let Some(offer) = setup.metrics {
            let pages = Arc::clone(&pages);
            let access = offer.token.map(|token| Access { token: Some(token) });
            let source = move |request: &Request<'_>| pages.answer(request, access.as_ref()).into();
            http::serve("weir-metrics", next()?, Arc::new(source))?;
        }
        if let Some(offer) = setup.page {
            reports.lock().audience = Some(Arc::clone(&audience));
            let told = reports.clone();
            let joined = move || told.say(None, false);
            page::serve(next()?, offer.token, Arc::clone(&audience), joined)?;
        }
        let batches = poster.map(|poster| {
            let (batches, posted) = sync_channel(1);
            let told = reports.clone();
            let thread = thread::Builder::new().name("weir-push".into());
            let spawned = thread.spawn(move || post_all(&poster, &posted, &told));
            spawned.map(|_| batches)
        });
        Ok(FrameReader {
            pages,
            audience,
            batches: batches.transpose()?,
            reports,
        })
    }

    /// Until the writer closes the stream.
    fn read_all(&self, stream: &mut UnixStream) -> io::Result<()> {
        let mut stream = io::BufReader::with_capacity(64 << 10, stream);
        while let Some(frame) = Frame::read(&mut stream)? {
            match frame {
                Frame::Metrics(dialect, text) => self.pages.put(dialect, text),
                Frame::Page(tick, full) => {
                    self.audience.send(tick.as_ref(), full.as_ref());
                    // The writer does not know whether it reached those that begin.
                    self.reports.say(None, full.is_some());
                }
                Frame::Batch(number, body) => {
                    let queued = self.batches.as_ref().map(|to| to.try_send((number, body)));
                    if !matches!(queued, Some(Ok(()))) {
                        let why = "another batch is on its way".into();
                        self.reports
                            .say(Some((number, PostResult::Later(why))), true);
                    }
                }
            }
        }
        Ok(())
    }
}

fn post_all(poster: &Poster, batches: &Receiver<(u64, Arc<[u8]>)>, reports: &Reports) {
    for (number, body) in batches {
        let result = match poster.post(&body) {
            Ok(()) => PostResult::Sent,
            Err(Failure::Later(why)) => PostResult::Later(why),
            Err(Failure::Never(why)) => PostResult::Never(why),
        };
        reports.say(Some((number, result)), true);
    }
}
