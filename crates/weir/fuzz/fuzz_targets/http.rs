// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to the server for metrics and to that for the live page, with a token and without one. What is
//! answered is well-formed, has nothing of the request in its head, and shows nothing to a request without
//! the token.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, OnceLock};
use weir::input::{Access, Audience, MetricsPages, Reply, Source, answer_to, page_reply};
use weir_store::metrics::Dialect;

/// Has no letter that another case has, and none of the alphabet of base64 that is padded.
const TOKEN: &str = "0123456789-0123456789";
/// `a:` and the token, as browsers send it.
const BASIC: &str = "YTowMTIzNDU2Nzg5LTAxMjM0NTY3ODk=";
const SECRET: &str = "weir_secret 1\n";
const STATUSES: [&str; 9] = [
    "200", "400", "401", "403", "404", "405", "421", "431", "503",
];

fn metrics(token: Option<&str>) -> Source {
    let pages = MetricsPages::default();
    pages.put(Dialect::Prometheus, SECRET.into());
    pages.put(Dialect::OpenMetrics, SECRET.into());
    let access = token.map(|token| Access {
        token: Some(token.to_owned()),
    });
    Arc::new(move |request| Reply::Whole(pages.answer(request, access.as_ref())))
}

fn page(token: Option<&str>) -> Source {
    let access = Access {
        token: token.map(str::to_owned),
    };
    Arc::new(move |request| page_reply(request, &access, &Audience::default()))
}

fn sources() -> &'static [(bool, Source); 4] {
    static SOURCES: OnceLock<[(bool, Source); 4]> = OnceLock::new();
    SOURCES.get_or_init(|| {
        [
            (false, metrics(None)),
            (true, metrics(Some(TOKEN))),
            (false, page(None)),
            (true, page(Some(TOKEN))),
        ]
    })
}

/// Whether the token stands in one line of it, in a way that may count.
fn shows_token(arrived: &[u8]) -> bool {
    let has = |wanted: &[u8]| arrived.windows(wanted.len()).any(|part| part == wanted);
    let is_named = || {
        let name = b"authorization";
        arrived
            .windows(name.len())
            .any(|part| part.eq_ignore_ascii_case(name))
    };
    // Base64 has three ways to write it: its end is the same up to the padding.
    is_named() && (has(TOKEN.as_bytes()) || has(&BASIC.as_bytes()[8..24]) || decoded_has(arrived))
}

/// Whether a word of it is base64 that ends with the token.
fn decoded_has(arrived: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    arrived
        .split(|byte| !is_word(byte))
        .any(|word| weir_fuzz::base64(word).ends_with(TOKEN.as_bytes()))
}

fn check(head: &[u8], body: &str, arrived: &[u8], is_guarded: bool) {
    let head = std::str::from_utf8(head).expect("a head is text");
    let rest = head.strip_prefix("HTTP/1.1 ").expect("a status");
    let status = rest.get(..3).expect("a status");
    assert!(STATUSES.contains(&status), "{status}");
    let lines: Vec<&str> = head
        .strip_suffix("\r\n\r\n")
        .expect("its end")
        .split("\r\n")
        .collect();
    let has_name = |line: &&str| {
        line.split_once(": ")
            .is_some_and(|(name, _)| !name.contains(' '))
    };
    assert!(lines.iter().skip(1).all(has_name), "{head}");
    let length = lines
        .iter()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.map(|length| length.parse::<usize>().expect("a number"));
    assert!(body.is_empty() || length == Some(body.len()), "{head}");
    if arrived.starts_with(b"HEAD ") {
        assert!(
            body.is_empty() || status == "400" || status == "431",
            "{head}"
        );
    }
    if is_guarded && status != "401" && status.starts_with(['2', '5']) {
        assert!(shows_token(arrived), "{head}");
    }
    assert!(
        !head.contains(SECRET.trim_end()) && !head.contains(TOKEN),
        "{head}"
    );
}

fuzz_target!(|bytes: &[u8]| {
    for (is_guarded, source) in sources() {
        // A client sends it byte by byte, or all at once: both get the same, or both wait.
        let Some((head, body)) = answer_to(bytes, source) else {
            continue;
        };
        check(&head, &body, bytes, *is_guarded);
        // Empty lines may come before it.
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let begin = bytes.iter().take_while(|byte| is_end(byte)).count();
        let end = bytes[begin..]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        if let Some(end) = end
            && bytes.len() < 8192
        {
            let whole = &bytes[..begin + end + 4];
            let (again, _) = answer_to(whole, source).expect("it is whole");
            // The page has a number of its own in each answer.
            assert_eq!(
                head.get(..15),
                again.get(..15),
                "what follows a head changes the answer"
            );
        }
    }
});
