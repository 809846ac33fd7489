// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that posts batches: one at a time, oldest first. The server may be away, slow, wrong or
//! ill-meaning: requests have an end in time, answers are read up to a bound and shown harmless, and
//! nothing leads us elsewhere.

use super::queue::Queue;
use super::target::Target;
use crate::output::text;
use std::time::{Duration, Instant};
use tracing::{info, warn};
use ureq::Agent;
use ureq::http::StatusCode;

/// From the first byte of a request to the last of the answer.
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
const HEAD_MAX_BYTES: usize = 16 << 10;
const ANSWER_MAX_BYTES: u64 = 4096;
const REASON_CELLS: usize = 200;
/// The wait after the first failure; it doubles up to the second.
const WAIT_FIRST: Duration = Duration::from_secs(1);
const WAIT_MOST: Duration = Duration::from_secs(60);

/// Why a batch did not arrive.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// It can be tried again.
    Later(String),
    /// This batch will never be taken.
    Never(String),
}

/// The server, and how it has behaved.
pub struct Sender {
    agent: Agent,
    target: Target,
    authorization: Option<String>,
    wait: Duration,
    /// Batches dropped when the trouble began.
    in_trouble: Option<u64>,
    said_dropping: bool,
}

impl Sender {
    /// Nothing is sent yet.
    pub fn new(target: Target, token: Option<String>) -> Sender {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A proxy in the environment, which a service inherits by chance, must not get the figures.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(PATIENCE))
            .timeout_connect(Some(CONNECT))
            // Each batch has a connection of its own: one that the server closed meanwhile is no news.
            .max_idle_connections(0)
            .max_response_header_size(HEAD_MAX_BYTES)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        Sender {
            agent: config.new_agent(),
            target,
            authorization: token.map(|token| format!("Token {token}")),
            wait: WAIT_FIRST,
            in_trouble: None,
            said_dropping: false,
        }
    }

    /// Sends until the queue is closed; then what is left, if the server takes it at once.
    pub fn run(mut self, queue: &Queue) {
        let mut from = Instant::now();
        while let Some(batch) = queue.next(from) {
            match self.post(&batch.lines) {
                Ok(()) => {
                    queue.sent(&batch);
                    self.recovered(queue);
                    from = Instant::now();
                }
                Err(Failure::Never(why)) => {
                    queue.refused(&batch);
                    self.refused(queue, &why);
                    from = Instant::now();
                }
                Err(Failure::Later(_)) if queue.is_closed() => return,
                Err(Failure::Later(why)) => {
                    self.failed(queue, &why);
                    from = Instant::now() + self.wait;
                    self.wait = (self.wait * 2).min(WAIT_MOST);
                }
            }
        }
    }

    fn post(&self, lines: &str) -> Result<(), Failure> {
        let mut request = self
            .agent
            .post(self.target.uri())
            .header("Content-Type", "text/plain; charset=utf-8");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut answer = request
            .send(lines)
            .map_err(|error| Failure::Later(text::harmless(&error.to_string())))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let body = answer.body_mut().with_config().limit(ANSWER_MAX_BYTES);
        // What cannot be read, or is too long, says nothing.
        let said = body.lossy_utf8(true).read_to_string().unwrap_or_default();
        Err(verdict(status, &said))
    }

    fn failed(&mut self, queue: &Queue, why: &str) {
        let delivery = queue.delivery();
        let dropped = delivery.dropped_batches_total;
        let target = &self.target;
        let wait = self.wait;
        queue.trouble(Some(why.to_owned()));
        match self.in_trouble {
            None => {
                self.in_trouble = Some(dropped);
                self.said_dropping = false;
                warn!(
                    "push: {target}: {why}; batches are kept, the next try is in {wait:?}, then \
                     ever later, up to {WAIT_MOST:?}"
                );
            }
            Some(before) if dropped > before && !self.said_dropping => {
                self.said_dropping = true;
                warn!(
                    "push: {target}: {why}; at most {} batches are kept: from now \
                     on the oldest are dropped",
                    delivery.waiting_batches
                );
            }
            Some(_) => {}
        }
    }

    fn refused(&mut self, queue: &Queue, why: &str) {
        self.wait = WAIT_FIRST;
        // The same every time, until something is taken.
        if self.in_trouble.is_none() {
            self.in_trouble = Some(queue.delivery().dropped_batches_total.saturating_sub(1));
            self.said_dropping = true;
            let target = &self.target;
            warn!("push: {target}: {why}; what it refuses is dropped and counted");
        }
        queue.trouble(Some(why.to_owned()));
    }

    fn recovered(&mut self, queue: &Queue) {
        self.wait = WAIT_FIRST;
        queue.trouble(None);
        if let Some(before) = self.in_trouble.take() {
            let delivery = queue.delivery();
            let lost = delivery.dropped_batches_total.saturating_sub(before);
            let target = &self.target;
            info!("push: {target} takes batches again; {lost} were dropped meanwhile");
        }
    }
}

/// What an answer other than 2xx means.
fn verdict(status: StatusCode, said: &str) -> Failure {
    let said = text::fit(&text::harmless(said.trim()), REASON_CELLS);
    let said = said.trim();
    let mut why = format!("the server answers {status}");
    if !said.is_empty() {
        why += &format!(": {said}");
    }
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNPROCESSABLE_ENTITY => Failure::Never(why),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Failure::Later(format!("{why}; see --push-token-file"))
        }
        StatusCode::NOT_FOUND => {
            Failure::Later(format!("{why}; is it the right path and database?"))
        }
        _ if status.is_redirection() => {
            Failure::Later(format!("{why}; weir does not follow: give the final URL"))
        }
        _ => Failure::Later(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_and_temporary_refusals_differ() {
        for (status, never) in [
            (400, true),
            (413, true),
            (422, true),
            (301, false),
            (401, false),
            (404, false),
            (429, false),
            (500, false),
            (503, false),
        ] {
            let failure = verdict(StatusCode::from_u16(status).unwrap(), "why\u{1b}[2J\n");
            let (Failure::Never(why) | Failure::Later(why)) = &failure;
            assert_eq!(matches!(failure, Failure::Never(_)), never, "{status}");
            assert!(
                why.contains(&status.to_string()) && !why.contains('\u{1b}'),
                "{why}"
            );
        }
    }
}
