// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which requests may read. On loopback without a token: those that name this machine (a page of another site
//! can have its own name resolve to 127.0.0.1, but its browser still says that name), and no page of another
//! site. Elsewhere: those that have the token.

use super::{Answer, Request};
use crate::run::push;
use anyhow::{Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::net::IpAddr;
use std::path::Path;

/// A token of fewer characters can be guessed.
const TOKEN_CHARS_MIN: usize = 16;

/// The token for what is offered, out of this file.
///
/// # Errors
/// It cannot be read, or is short.
pub fn token(path: &Path, of: &str) -> Result<String> {
    let token = push::token(path)?;
    if token.chars().count() < TOKEN_CHARS_MIN {
        bail!(
            "the token for {of} has fewer than {TOKEN_CHARS_MIN} characters and could be guessed: `openssl rand \
             -hex 16` makes one"
        );
    }
    Ok(token)
}

/// What a request must show to read.
pub struct Access {
    /// What is to be shown; nothing on loopback, if nothing is wanted.
    pub token: Option<String>,
}

impl Access {
    /// Nothing if the request may read.
    pub fn refusal(&self, request: &Request<'_>) -> Option<Answer> {
        let host = request.only("host");
        match &self.token {
            Some(token) if !shows(request, token) => {
                let answer = Answer::error("401 Unauthorized", "the token is needed\n");
                let ask =
                    "Basic realm=\"weir: any name, and the token as password\", charset=\"UTF-8\"";
                return Some(answer.with("WWW-Authenticate", ask));
            }
            None if !host.is_some_and(is_this_machine) => {
                let why = "ask for localhost, or give weir --page-token-file\n";
                return Some(Answer::error("421 Misdirected Request", why));
            }
            _ => {}
        }
        let is_foreign = is_of_another_site(request, host.unwrap_or_default());
        (is_foreign && request.path() != "/")
            .then(|| Answer::error("403 Forbidden", "not for pages of other sites\n"))
    }
}

/// A browser says so of what a page loads. Links from other sites to the page itself are well.
fn is_of_another_site(request: &Request<'_>, host: &str) -> bool {
    let of_other = |site: &str| !matches!(site, "same-origin" | "none");
    let origin = |origin: &str| {
        let named = origin.split_once("://").map(|(_, host)| host);
        named != Some(host)
    };
    request.header("sec-fetch-site").is_some_and(of_other)
        || request.header("origin").is_some_and(origin)
}

/// `localhost` or a loopback address, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

/// Whether a request shows the token: as `Bearer TOKEN`, or as the password of any name, which is what
/// browsers ask for.
fn shows(request: &Request<'_>, token: &str) -> bool {
    let Some(value) = request.only("authorization") else {
        return false;
    };
    let (scheme, rest) = value.split_once(' ').unwrap_or_default();
    let shown = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => rest.trim().as_bytes().to_vec(),
        "basic" => {
            let decoded = STANDARD.decode(rest.trim()).unwrap_or_default();
            let colon = decoded.iter().position(|byte| *byte == b':');
            colon.map_or_else(Vec::new, |at| decoded[at + 1..].to_vec())
        }
        _ => return false,
    };
    is_same(&shown, token.as_bytes())
}

/// Takes as long for a token that begins right as for one that does not.
fn is_same(shown: &[u8], token: &[u8]) -> bool {
    let differ = shown.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    shown.len() == token.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::serve::http::tests::{status as status_of, with_request};
    use proptest::prelude::*;

    const TOKEN: &str = "correct-horse-battery";

    /// The status of the refusal, for a request with these headers.
    fn status(token: Option<&str>, path: &str, headers: &str) -> Option<String> {
        let access = Access {
            token: token.map(str::to_owned),
        };
        let head = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
        let refusal = with_request(head.as_bytes(), |request| access.refusal(request));
        status_of(refusal.as_ref()).map(str::to_owned)
    }

    #[test]
    fn a_name_that_is_not_this_machines_is_refused_on_loopback() {
        for host in [
            "localhost",
            "LOCALHOST:9780",
            "127.0.0.1",
            "127.3.4.5:1",
            "[::1]:9780",
            "[::ffff:127.0.0.1]",
        ] {
            assert_eq!(
                status(None, "/", &format!("Host: {host}\r\n")),
                None,
                "{host}"
            );
        }
        for headers in [
            "Host: rebound.example:9780\r\n",
            "Host: localhost.example\r\n",
            "Host: 10.0.0.1\r\n",
            "Host: 127.0.0.1.example:80\r\n",
            "Host: [::2]\r\n",
            "Host: \r\n",
            "",
            "Host: localhost\r\nHost: rebound.example\r\n",
        ] {
            assert_eq!(
                status(None, "/", headers).as_deref(),
                Some("421"),
                "{headers}"
            );
        }
    }

    #[test]
    fn pages_of_other_sites_may_link_and_not_load() {
        let other = "Host: localhost:1\r\nSec-Fetch-Site: cross-site\r\n";
        assert_eq!(status(None, "/", other), None);
        assert_eq!(status(None, "/events", other).as_deref(), Some("403"));
        let origin = "Host: localhost:1\r\nOrigin: http://localhost:2\r\n";
        assert_eq!(status(None, "/events", origin).as_deref(), Some("403"));
        let own =
            "Host: localhost:1\r\nOrigin: http://localhost:1\r\nSec-Fetch-Site: same-origin\r\n";
        assert_eq!(status(None, "/events", own), None);
    }

    #[test]
    fn with_a_token_only_the_token_opens() {
        let basic = |text: &str| format!("Authorization: Basic {}\r\n", STANDARD.encode(text));
        for headers in [
            format!("Authorization: Bearer {TOKEN}\r\n"),
            format!("authorization: bearer {TOKEN}\r\n"),
            basic(&format!("any:{TOKEN}")),
            basic(&format!(":{TOKEN}")),
        ] {
            assert_eq!(status(Some(TOKEN), "/", &headers), None, "{headers}");
        }
        for headers in [
            String::new(),
            "Host: localhost\r\n".into(),
            "Authorization: Bearer \r\n".into(),
            format!("Authorization: Bearer {}\r\n", &TOKEN[1..]),
            format!("Authorization: Bearer {TOKEN}x\r\n"),
            format!("Authorization: {TOKEN}\r\n"),
            format!("Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer {TOKEN}\r\n"),
            basic(TOKEN),
            basic(&format!("{TOKEN}:")),
            "Authorization: Basic ?\r\n".into(),
        ] {
            let status = status(Some(TOKEN), "/", &headers);
            assert_eq!(status.as_deref(), Some("401"), "{headers}");
        }
    }

    proptest! {
        #[test]
        fn no_header_panics(value in "[ -~]{0,60}", name in "(host|authorization|origin)") {
            status(Some(TOKEN), "/events", &format!("{name}: {value}\r\n"));
            status(None, "/events", &format!("{name}: {value}\r\n"));
        }
    }
}
