// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The texts that clients get, made once for each tick that is shown, whatever clients ask for.

use super::accept;
use crate::run::serve::http::access::Access;
use crate::run::serve::http::{Answer, Request};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_store::metrics::Dialect;

/// What there is. It holds no name of a workload, so nothing in it can be hostile.
const FRONT_PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>weir</title>\n<h1>weir ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n<p>weir keeps CXL memory fast, and shows which workload uses how much of it.\n\
     <ul>\n<li><a href=\"/metrics\">/metrics</a>: devices, cgroups, limits and weir itself, \
     for Prometheus and its kin. OpenMetrics 1.0 for clients that accept it.\n</ul></html>\n"
);

/// Each text that is offered.
pub const DIALECTS: [Dialect; 2] = [Dialect::Prometheus, Dialect::OpenMetrics];

#[derive(Default)]
pub struct MetricsPages(Mutex<[Option<Arc<str>>; 2]>);

impl MetricsPages {
    fn lock(&self) -> MutexGuard<'_, [Option<Arc<str>>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, dialect: Dialect, text: Arc<str>) {
        self.lock()[place(dialect)] = Some(text);
    }

    /// Whether there is a text of each kind.
    pub fn are_there(&self) -> bool {
        self.lock().iter().all(Option::is_some)
    }

    pub fn answer(&self, request: &Request<'_>, access: Option<&Access>) -> Answer {
        if let Some(refusal) = access.and_then(|access| access.refusal(request)) {
            return refusal;
        }
        match request.path() {
            "/metrics" => {}
            "/" => return Answer::page("text/html; charset=utf-8", FRONT_PAGE),
            _ => {
                let what = "the metrics are at /metrics, what else there is at /\n";
                return Answer::error("404 Not Found", what);
            }
        }
        let dialect = accept::dialect(request.all("accept"));
        let kind = match dialect {
            Dialect::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Dialect::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        };
        let newest = self.lock()[place(dialect)].clone();
        match newest {
            Some(text) => Answer::page(kind, text),
            None => Answer::error("503 Service Unavailable", "nothing was seen so far\n"),
        }
    }
}

fn place(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Prometheus => 0,
        Dialect::OpenMetrics => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::serve::http::tests::{status, with_request};

    fn asked(pages: &MetricsPages, path: &str, header: &str, token: Option<&str>) -> Answer {
        let access = token.map(|token| Access {
            token: Some(token.to_owned()),
        });
        let head = format!("GET {path} HTTP/1.1\r\n{header}\r\n");
        with_request(head.as_bytes(), |request| {
            pages.answer(request, access.as_ref())
        })
    }

    #[test]
    fn the_front_page_links_to_the_metrics() {
        assert!(FRONT_PAGE.contains("<a href=\"/metrics\">"));
        let pages = MetricsPages::default();
        for (path, expected) in [("/", "200"), ("/metrics", "503"), ("/else", "404")] {
            let answer = asked(&pages, path, "", None);
            assert_eq!(status(Some(&answer)), Some(expected), "{path}");
        }
        pages.put(Dialect::OpenMetrics, "open".into());
        for (header, expected) in [
            ("Accept: application/openmetrics-text\r\n", "200"),
            ("", "503"),
        ] {
            let answer = asked(&pages, "/metrics", header, None);
            assert_eq!(status(Some(&answer)), Some(expected), "{header}");
        }
    }

    #[test]
    fn metrics_with_a_token_are_for_those_that_show_it() {
        let pages = MetricsPages::default();
        pages.put(Dialect::Prometheus, "text".into());
        let token = Some("0123456789abcdef");
        for (header, expected) in [
            ("", "401"),
            ("Authorization: Bearer 0123456789abcdeF\r\n", "401"),
            ("Authorization: Bearer 0123456789abcdef\r\n", "200"),
        ] {
            for path in ["/metrics", "/"] {
                let answer = asked(&pages, path, header, token);
                assert_eq!(status(Some(&answer)), Some(expected), "{path}, {header}");
            }
        }
    }
}
