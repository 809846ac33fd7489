// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where lines are pushed to: an address that can be right, and a token from a file.

use crate::output::text;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use ureq::http::Uri;

const URL_MAX_BYTES: usize = 2048;
const TOKEN_MAX_BYTES: u64 = 4096;

/// The address that lines are posted to. What follows the `?` may hold a password and is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Uri);

/// Why a text is no such address, and what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(String);

impl Target {
    /// All of it, for the request.
    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// Whether what is sent stays on this machine, as far as the name says.
    pub fn is_loopback(&self) -> bool {
        let host = self.0.host().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let address = address.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let authority = self.0.authority().map_or("", |a| a.as_str());
        write!(f, "http://{authority}{}", self.0.path())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        const EXAMPLE: &str = "give one such as http://127.0.0.1:8428/write (VictoriaMetrics) or \
                               http://127.0.0.1:8086/write?db=weir (InfluxDB 1)";
        let wrong = |why: String| Err(TargetError(why));
        if text.len() > URL_MAX_BYTES {
            return wrong(format!("longer than {URL_MAX_BYTES} bytes: {EXAMPLE}"));
        }
        let uri: Uri = match text.parse() {
            Ok(uri) => uri,
            Err(error) => return wrong(format!("no URL ({error}): {EXAMPLE}")),
        };
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return wrong(
                    "weir speaks no TLS: push to a forwarder on this machine that does (vmagent, \
                     Telegraf, a proxy), for example http://127.0.0.1:8429/write"
                        .into(),
                );
            }
            _ => return wrong(format!("does not begin with http://: {EXAMPLE}")),
        }
        let authority = uri.authority().map_or("", |a| a.as_str());
        if uri.host().is_none_or(str::is_empty) || authority.ends_with(':') {
            return wrong(format!("names no host, or an empty port: {EXAMPLE}"));
        }
        let host = uri.host().unwrap_or_default();
        let port = authority
            .rsplit_once('@')
            .map_or(authority, |(_, rest)| rest);
        let port = port.strip_prefix(host).and_then(|p| p.strip_prefix(':'));
        if port.is_some_and(|port| port.parse::<u16>().unwrap_or(0) == 0) {
            return wrong("its port is not one of 1 to 65535".into());
        }
        if authority.contains('@') {
            return wrong(
                "has a password in it, which others could read in the list of processes: put it \
                 into a file, as NAME:PASSWORD, and give --push-token-file"
                    .into(),
            );
        }
        if uri.path() == "/" {
            return wrong(
                "has no path: lines are taken at /write by VictoriaMetrics and InfluxDB 1, at \
                 /api/v2/write?org=…&bucket=… by InfluxDB 2"
                    .into(),
            );
        }
        let mut parameters = uri.query().unwrap_or_default().split('&');
        let other = |part: &&str| {
            part.strip_prefix("precision=")
                .is_some_and(|unit| !matches!(unit, "ns" | "n"))
        };
        if let Some(part) = parameters.find(other) {
            let part = text::harmless(part);
            return wrong(format!(
                "says {part}, but weir's times are in nanoseconds: leave it out"
            ));
        }
        Ok(Target(uri))
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let text = String::deserialize(source)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The token in the file: one line of visible characters.
///
/// # Errors
/// It cannot be read, is not a plain file, or holds something else.
pub fn token(path: &Path) -> Result<String> {
    let shown = text::harmless(&path.to_string_lossy());
    let mut bytes = Vec::new();
    let mut read = || -> std::io::Result<bool> {
        // A pipe would have us wait for its writer.
        let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nonblock)
            .open(path)?;
        let is_file = file.metadata()?.is_file();
        if is_file {
            file.take(TOKEN_MAX_BYTES + 1).read_to_end(&mut bytes)?;
        }
        Ok(is_file)
    };
    if !read().with_context(|| format!("cannot read the token file {shown}"))? {
        bail!("the token file {shown} is not a plain file");
    }
    let token = bytes.trim_ascii();
    let is_token = !token.is_empty() && token.iter().all(|byte| (0x20..0x7f).contains(byte));
    if bytes.len() as u64 > TOKEN_MAX_BYTES || !is_token {
        bail!(
            "the token file {shown} must hold one line of at most {TOKEN_MAX_BYTES} visible ASCII \
             characters"
        );
    }
    // Just seen to be ASCII.
    Ok(String::from_utf8_lossy(token).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        for (url, wanted) in [
            ("127.0.0.1:8428/write", "http://127.0.0.1:8428/write"),
            ("/write", "does not begin with http://"),
            ("ftp://a/write", "does not begin with http://"),
            ("https://a/write", "no TLS"),
            ("http://", "no URL"),
            ("http://:80/write", "names no host"),
            ("http://a:/write", "empty port"),
            ("http://a:0/write", "1 to 65535"),
            ("http://a:99999/write", "1 to 65535"),
            ("http://u:p@a/write", "--push-token-file"),
            ("http://a:8428", "/api/v2/write"),
            ("http://a/write?db=x&precision=s", "precision=s"),
            ("http://a b/write", "no URL"),
        ] {
            let error = url.parse::<Target>().expect_err(url).to_string();
            assert!(error.contains(wanted), "{url}: {error}");
        }
        let long = format!("http://a/{}", "x".repeat(URL_MAX_BYTES));
        assert!(long.parse::<Target>().is_err());
    }

    #[test]
    fn passwords_are_not_shown() {
        let target: Target = "http://[::1]:8086/write?db=weir&u=a&p=secret"
            .parse()
            .unwrap();
        assert_eq!(target.to_string(), "http://[::1]:8086/write");
        assert!(!format!("{target:?}").contains("secret"));
        assert!(target.is_loopback());
        assert!(
            !"http://10.0.0.1/write"
                .parse::<Target>()
                .unwrap()
                .is_loopback()
        );
    }

    #[test]
    fn a_token_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let read = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            token(&path)
        };
        assert_eq!(read(b"  abc:d e==\n").unwrap(), "abc:d e==");
        for wrong in [&b""[..], b"\n", b"a\nX-Evil: 1", b"\xff", &[b'a'; 5000]] {
            let error = read(wrong).expect_err("taken").to_string();
            assert!(error.contains("visible ASCII"), "{error}");
        }
        assert!(token(dir.path()).is_err());
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(
            token(&pipe)
                .unwrap_err()
                .to_string()
                .contains("not a plain file")
        );
    }

    proptest! {
        #[test]
        fn no_address_panics(text in "(http://)?[ -~]{0,40}|.{0,20}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert!(target.to_string().starts_with("http://"));
                target.is_loopback();
            }
        }
    }
}
