// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that posts batches: one at a time, oldest first. The server may be away, slow, wrong or
//! ill-meaning: requests have an end in time, answers are read up to a bound and shown harmless, and
//! nothing leads us elsewhere.

use super::PushFormat;
use super::queue::Queue;
use super::target::Target;
use crate::output::text;
use anyhow::Result;
use std::path::Path;
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
    format: PushFormat,
    authorization: Option<String>,
    wait: Duration,
    /// Batches dropped when the trouble began.
    in_trouble: Option<u64>,
    said_dropping: bool,
}

/// The client for this server, which trusts the authorities in the file, or those of the system.
///
/// # Errors
/// The server wants TLS, and no certificates can be read.
pub fn agent(target: &Target, authorities: Option<&Path>) -> Result<Agent> {
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
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")));
    #[cfg(feature = "tls")]
    if target.is_encrypted() {
        let tls = super::tls::tls_config(authorities)?;
        return Ok(config.tls_config(tls).https_only(true).build().new_agent());
    }
    // Without TLS nothing can be trusted, and no target is encrypted.
    #[cfg(not(feature = "tls"))]
    let _ = (target, authorities);
    Ok(config.build().new_agent())
}

impl Sender {
    /// Nothing is sent yet.
    pub fn new(agent: Agent, target: Target, format: PushFormat, token: Option<&str>) -> Sender {
        Sender {
            agent,
            target,
            format,
            authorization: token.map(|token| format.authorization(token)),
            wait: WAIT_FIRST,
            in_trouble: None,
            said_dropping: false,
        }
    }

    /// Sends until the queue is closed; then what is left, if the server takes it at once.
    pub fn run(mut self, queue: &Queue) {
        let mut from = Instant::now();
        while let Some(batch) = queue.next(from) {
            match self.post(&batch.body) {
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

    fn post(&self, body: &[u8]) -> Result<(), Failure> {
        let mut request = self.agent.post(self.target.uri());
        for (name, value) in self.format.headers() {
            request = request.header(*name, *value);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut answer = request
            .send(body)
            .map_err(|error| Failure::Later(text::harmless(&error.to_string())))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let body = answer.body_mut().with_config().limit(ANSWER_MAX_BYTES);
        // What cannot be read, or is too long, says nothing.
        let said = body.lossy_utf8(true).read_to_string().unwrap_or_default();
        Err(verdict(self.format, status, &said))
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
fn verdict(format: PushFormat, status: StatusCode, said: &str) -> Failure {
    let said = text::fit(&text::harmless(said.trim()), REASON_CELLS);
    let said = said.trim();
    let mut why = format!("the server answers {status}");
    if !said.is_empty() {
        why += &format!(": {said}");
    }
    // Remote write 1.0: what is wrong with a request stays wrong, unless there are too many of them.
    let is_final = status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS;
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if is_remote(format) => {
            Failure::Never(format!("{why}; see --push-token-file"))
        }
        _ if is_remote(format) && is_final => Failure::Never(why),
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

fn is_remote(format: PushFormat) -> bool {
    format == PushFormat::RemoteWrite
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_may_name_its_scheme() {
        for (format, token, value) in [
            (PushFormat::Influx, "abc", "Token abc"),
            (PushFormat::RemoteWrite, "abc", "Bearer abc"),
            (PushFormat::RemoteWrite, "Basic YTpi", "Basic YTpi"),
            (PushFormat::Influx, "Bearer abc", "Bearer abc"),
        ] {
            assert_eq!(format.authorization(token), value);
        }
    }

    #[test]
    fn permanent_and_temporary_refusals_differ() {
        for (status, of_lines, of_remote_write) in [
            (400, true, true),
            (413, true, true),
            (422, true, true),
            (301, false, false),
            (401, false, true),
            (404, false, true),
            (429, false, false),
            (500, false, false),
            (503, false, false),
        ] {
            for (format, never) in [
                (PushFormat::Influx, of_lines),
                (PushFormat::RemoteWrite, of_remote_write),
            ] {
                let code = StatusCode::from_u16(status).unwrap();
                let failure = verdict(format, code, "why\u{1b}[2J\n");
                let (Failure::Never(why) | Failure::Later(why)) = &failure;
                let is_never = matches!(failure, Failure::Never(_));
                assert_eq!(is_never, never, "{format:?}: {status}");
                let is_said = why.contains(&status.to_string());
                assert!(is_said && !why.contains('\u{1b}'), "{why}");
            }
        }
    }
}
