// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page as one file of HTML: style and script are in it, and nothing is loaded from anywhere. The policy
//! that goes with it allows what has the nonce of this answer, and events of the same server.

use crate::run::serve::http::Answer;
use rustix::rand::{GetRandomFlags, getrandom};

const HTML: &str = include_str!("assets/page.html");
const STYLE: &[&str] = &[
    include_str!("assets/page.css"),
    include_str!("assets/parts.css"),
];
const SCRIPT: &[&str] = &[
    include_str!("assets/words.js"),
    include_str!("assets/state.js"),
    include_str!("assets/devices.js"),
    include_str!("assets/tree.js"),
    include_str!("assets/workloads.js"),
    include_str!("assets/limits.js"),
    include_str!("assets/page.js"),
];

pub fn document() -> Answer {
    let Some(nonce) = nonce() else {
        return Answer::error(
            "503 Service Unavailable",
            "no random numbers are to be had\n",
        );
    };
    let html = HTML
        .replace("{nonce}", &nonce)
        .replace("/* style */", &STYLE.concat())
        .replace("/* script */", &SCRIPT.concat());
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    guarded(Answer::page("text/html; charset=utf-8", html)).with("Content-Security-Policy", policy)
}

/// The answer with what keeps other sites out, and copies.
pub fn guarded(answer: Answer) -> Answer {
    answer
        .with("Cache-Control", "no-store")
        .with("X-Content-Type-Options", "nosniff")
        .with("Referrer-Policy", "no-referrer")
        .with("Cross-Origin-Resource-Policy", "same-origin")
        .with("Cross-Origin-Opener-Policy", "same-origin")
}

/// 128 random bits, in hexadecimal.
fn nonce() -> Option<String> {
    let mut bytes = [0u8; 16];
    let count = getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
    let text = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    (count == bytes.len()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::serve::http::tests::text_of;

    /// What the nonce allows is ours: no other place in the page has script or style.
    #[test]
    fn each_answer_has_a_nonce_of_its_own_and_nothing_is_loaded() {
        let (one, other) = (text_of(&document()), text_of(&document()));
        let nonce = |text: &str| {
            let (_, rest) = text.split_once("script-src 'nonce-").unwrap();
            rest.split('\'').next().unwrap().to_owned()
        };
        assert_eq!(nonce(&one).len(), 32);
        assert_ne!(nonce(&one), nonce(&other));
        assert_eq!(
            one.matches(&format!("nonce=\"{}\"", nonce(&one))).count(),
            2
        );
        for mark in ["<script", "<style", "</script", "</style"] {
            assert_eq!(one.matches(mark).count(), 1, "{mark}");
        }
        // A pattern of the page itself.
        let own = one.matches("url(#hatch)").count();
        assert_eq!(one.matches("url(").count(), own);
        for word in [
            "{nonce}",
            "/* script */",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            " style=\"",
            " onclick",
            "https://",
            "@import",
        ] {
            assert!(!one.contains(word), "{word}");
        }
    }
}
