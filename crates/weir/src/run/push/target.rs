// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where figures are pushed to: an address that can be right.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;
use ureq::http::Uri;
use weir_figures::text;

const URL_MAX_BYTES: usize = 2048;

/// The address that figures are posted to. What follows the `?` may hold a password and is not shown.
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

    /// Whether what is sent is encrypted on its way.
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme_str() == Some("https")
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
        let scheme = self.0.scheme_str().unwrap_or("http");
        write!(f, "{scheme}://{authority}{}", self.0.path())
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
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => {
                return wrong(
                    "this weir was built without TLS (feature tls): push to a forwarder on this machine that \
                     speaks it (vmagent, Telegraf, a proxy), for example http://127.0.0.1:8429/write"
                        .into(),
                );
            }
            _ => {
                return wrong(format!(
                    "begins neither with http:// nor with https://: {EXAMPLE}"
                ));
            }
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
                 /api/v2/write?org=…&bucket=… by InfluxDB 2; remote write at \
                 /api/v1/write"
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        for (url, wanted) in [
            ("127.0.0.1:8428/write", "http://127.0.0.1:8428/write"),
            ("/write", "begins neither with http://"),
            ("ftp://a/write", "begins neither with http://"),
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
    fn encryption_is_taken_where_it_is_built_in() {
        let parsed = "https://a/write".parse::<Target>();
        assert_eq!(parsed.is_ok(), cfg!(feature = "tls"), "{parsed:?}");
        match parsed {
            Ok(target) => {
                assert!(target.is_encrypted());
                assert_eq!(target.to_string(), "https://a/write");
            }
            Err(error) => assert!(error.to_string().contains("without TLS"), "{error}"),
        }
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

    proptest! {
        #[test]
        fn no_address_panics(text in "(https?://)?[ -~]{0,40}|.{0,20}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert!(target.to_string().starts_with("http"));
                target.is_loopback();
            }
        }
    }
}
