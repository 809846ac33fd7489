// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An event of the stream: its kind, and one line of JSON. Lists of numbers are written by hand, since they
//! are most of it; all else by serde. Memory is used again.

use serde::Serialize;
use weir_core::WorkloadId;

/// The event that is being made.
#[derive(Default)]
pub struct EventMessage {
    bytes: Vec<u8>,
    is_first: bool,
}

impl EventMessage {
    pub fn start(&mut self, kind: &str) {
        self.bytes.clear();
        self.bytes.extend_from_slice(b"event: ");
        self.bytes.extend_from_slice(kind.as_bytes());
        self.bytes.extend_from_slice(b"\ndata: {");
        self.is_first = true;
    }

    pub fn finish(&mut self) -> &[u8] {
        self.bytes.extend_from_slice(b"}\n\n");
        &self.bytes
    }

    pub fn field(&mut self, name: &str, value: impl Serialize) {
        self.name(name);
        self.value(&value);
        self.is_first = false;
    }

    /// Begins a list of numbers.
    pub fn begin(&mut self, name: &str) {
        self.name(name);
        self.bytes.push(b'[');
        self.is_first = true;
    }

    pub fn number(&mut self, value: i64) {
        self.comma();
        let mut digits = [0; NUMBER_BYTES];
        let at = write_before(&mut digits, NUMBER_BYTES, value);
        self.bytes.extend_from_slice(&digits[at..]);
    }

    /// A row of such a list: its number, which of its figures follow (a bit for each), and those.
    pub fn row(&mut self, number: u32, which: u32, figures: &[i64]) {
        // Written from its end on, at once: an event has thousands of numbers.
        let mut text = [0; 256];
        let mut at = text.len();
        for (place, figure) in figures.iter().enumerate().take(10).rev() {
            if (which >> place) & 1 == 1 {
                at = write_before(&mut text, at, *figure);
                at -= 1;
                text[at] = b',';
            }
        }
        at = write_before(&mut text, at, i64::from(which));
        at -= 1;
        text[at] = b',';
        at = write_before(&mut text, at, i64::from(number));
        self.comma();
        self.bytes.extend_from_slice(&text[at..]);
    }

    pub fn end(&mut self) {
        self.bytes.push(b']');
        self.is_first = false;
    }

    /// A list of numbers, if there are any.
    pub fn numbers(&mut self, name: &str, values: impl IntoIterator<Item = i64>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.begin(name);
            values.for_each(|value| self.number(value));
            self.end();
        }
    }

    pub fn texts<'a>(&mut self, name: &str, values: impl IntoIterator<Item = &'a str>) {
        self.begin(name);
        for value in values {
            self.comma();
            self.value(&value);
        }
        self.end();
    }

    /// A list of numbers with texts, one after the other, if there are any.
    pub fn pairs<'a>(&mut self, name: &str, pairs: impl IntoIterator<Item = (u32, &'a str)>) {
        let mut pairs = pairs.into_iter().peekable();
        if pairs.peek().is_none() {
            return;
        }
        self.begin(name);
        for (number, text) in pairs {
            self.number(i64::from(number));
            self.comma();
            self.value(&text);
        }
        self.end();
    }

    /// A list of workloads: number, name, and what stands before it; if there are any.
    pub fn names<'a>(
        &mut self,
        name: &str,
        rows: impl IntoIterator<Item = (u32, &'a WorkloadId)>,
        named: impl Fn(&WorkloadId) -> (String, String),
    ) {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return;
        }
        self.begin(name);
        for (slot, id) in rows {
            let (name, tag) = named(id);
            self.number(i64::from(slot));
            for text in [name, tag] {
                self.comma();
                self.value(&text);
            }
        }
        self.end();
    }

    fn name(&mut self, name: &str) {
        self.comma();
        self.value(&name);
        self.bytes.push(b':');
    }

    fn comma(&mut self) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.bytes.push(b',');
        }
    }

    /// JSON has no line breaks, so that it is one line of the stream.
    fn value(&mut self, value: &impl Serialize) {
        let from = self.bytes.len();
        if serde_json::to_writer(&mut self.bytes, value).is_err() {
            // Numbers, texts, and structs of them; a map with odd keys would come here.
            self.bytes.truncate(from);
            self.bytes.extend_from_slice(b"null");
        }
    }
}

/// A number's digits and its sign at most.
const NUMBER_BYTES: usize = 20;

/// Writes a number that ends before `at`; gives where it begins. There is room for [`NUMBER_BYTES`].
fn write_before(text: &mut [u8], mut at: usize, value: i64) -> usize {
    let mut left = value.unsigned_abs();
    loop {
        at -= 1;
        // One digit.
        text[at] = b'0' + u8::try_from(left % 10).unwrap_or(0);
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn data(message: &mut EventMessage) -> Value {
        let text = String::from_utf8(message.finish().to_vec()).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!((lines.len(), lines[0]), (4, "event: tick"), "{text}");
        serde_json::from_str(lines[1].strip_prefix("data: ").unwrap()).unwrap()
    }

    #[test]
    fn an_event_is_one_line_of_json() {
        let mut message = EventMessage::default();
        message.start("full");
        for _ in 0..2 {
            message.start("tick");
            message.field("now", 7);
            message.numbers("none", []);
            message.numbers("gone", [0, -1, 10, i64::MIN, i64::MAX]);
            message.texts("words", ["a\nb", "\u{2028}"]);
            message.texts("empty", []);
            message.pairs("why", [(1, "</script>"), (2, "\r\n\r\n")]);
            message.names("rows", [(3, &WorkloadId::new("/x"))], |id| {
                (id.as_str().into(), String::new())
            });
            message.field("end", Option::<u32>::None);
            let wanted = json!({
                "now": 7,
                "gone": [0, -1, 10, i64::MIN, i64::MAX],
                "words": ["a\nb", "\u{2028}"],
                "empty": [],
                "why": [1, "</script>", 2, "\r\n\r\n"],
                "rows": [3, "/x", ""],
                "end": null,
            });
            assert_eq!(data(&mut message), wanted);
        }
    }

    proptest! {
        #[test]
        fn any_row_is_read_again(number: u32, which in 0u32..256, figures: [i64; 8]) {
            let mut message = EventMessage::default();
            message.start("tick");
            message.begin("f");
            message.row(number, which, &figures);
            message.row(number, 0, &figures);
            message.end();
            let named = |place: &usize| (which >> place) & 1 == 1;
            let mut wanted = vec![i64::from(number), i64::from(which)];
            wanted.extend((0..8).filter(named).map(|place| figures[place]));
            wanted.extend([i64::from(number), 0]);
            prop_assert_eq!(data(&mut message), json!({"f": wanted}));
        }

        #[test]
        fn any_text_and_number_is_read_again(text: String, number: i64) {
            let mut message = EventMessage::default();
            message.start("tick");
            message.numbers("n", [number]);
            message.pairs("t", [(1, text.as_str())]);
            prop_assert_eq!(data(&mut message), json!({"n": [number], "t": [1, text]}));
        }
    }
}
