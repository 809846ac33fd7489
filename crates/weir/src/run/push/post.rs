// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One batch to the server. The server may be away, slow, wrong or ill-meaning: requests have an end in time,
//! answers are read up to a bound and shown harmless, and nothing leads us elsewhere.

use super::PushFormat;
use super::send::Failure;
use super::target::Target;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::Agent;
use ureq::http::StatusCode;
use weir_figures::text;

/// Longest time from the first byte of a request to the last of the answer.
pub const PATIENCE: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
const HEAD_MAX_BYTES: usize = 16 << 10;
const ANSWER_MAX_BYTES: u64 = 4096;
const REASON_CELLS: usize = 200;

/// Where to, as the process that posts is told.
#[derive(Clone, Serialize, Deserialize)]
pub struct PushSetup {
    url: String,
    format: PushFormat,
    token: Option<String>,
    authorities: Option<PathBuf>,
}

impl PushSetup {
    /// The setup from what the operator wants.
    pub fn new(
        target: &Target,
        format: PushFormat,
        token: Option<String>,
        authorities: Option<&Path>,
    ) -> PushSetup {
        PushSetup {
            url: target.uri().to_string(),
            format,
            token,
            authorities: authorities.map(Path::to_path_buf),
        }
    }
}

/// The client of the server.
pub struct Poster {
    agent: Agent,
    target: Target,
    format: PushFormat,
    authorization: Option<String>,
}

/// The client for this server, which trusts the authorities in the file, or those of the system.
///
/// # Errors
/// The server wants TLS, and no certificates can be read.
fn agent(target: &Target, authorities: Option<&Path>) -> Result<Agent> {
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

impl Poster {
    /// Reads what it needs of files; nothing is sent yet.
    ///
    /// # Errors
    /// The server wants TLS, and no certificates can be read.
    pub fn new(setup: &PushSetup) -> Result<Poster> {
        let target: Target = setup.url.parse()?;
        let format = setup.format;
        let authorization = setup.token.as_deref();
        Ok(Poster {
            agent: agent(&target, setup.authorities.as_deref())?,
            target,
            format,
            authorization: authorization.map(|token| format.authorization(token)),
        })
    }

    pub fn port(&self) -> u16 {
        let usual = if self.target.is_encrypted() { 443 } else { 80 };
        self.target.uri().port_u16().unwrap_or(usual)
    }

    /// Posts a batch.
    ///
    /// # Errors
    /// The server has not taken it.
    pub fn post(&self, body: &[u8]) -> Result<(), Failure> {
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
