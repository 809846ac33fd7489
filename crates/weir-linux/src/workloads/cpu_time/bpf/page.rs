// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other side of `bpf/probes/cgroup_cpu_intf.h`: a page of cgroups, in the machine's byte order. The
//! daemon writes ids, the program the rest.

use weir_core::Nanos;

/// Cgroups of a page.
pub(crate) const ROWS: usize = 1024;
const WORD: usize = 8;
/// Bytes of a row: id, flags, CPU time, throttled time.
const ROW: usize = 4 * WORD;
/// Bytes of a page: how many rows are in use, and all of them.
pub(super) const PAGE: usize = WORD + ROWS * ROW;

const THERE: u64 = 1;
const THROTTLED: u64 = 2;

/// What is known of a cgroup that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Of all its tasks so far.
    pub(crate) cpu: Nanos,
    /// For which its limit held it back; nothing where it has no cpu controller.
    pub(crate) throttled: Option<Nanos>,
}

/// Writes up to [`ROWS`] ids; what the page said before stays behind them.
pub(super) fn ask(page: &mut [u8], ids: &[u64]) {
    let mut put = |at: usize, word: u64| {
        if let Some(place) = page.get_mut(at..at + WORD) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
    };
    put(0, ids.len() as u64);
    for (row, id) in ids.iter().enumerate() {
        let at = WORD + row * ROW;
        put(at, *id);
        // Not there, should the program not come to it.
        put(at + WORD, 0);
    }
}

/// What it says of the row with this number, which was asked about this cgroup.
pub(super) fn answer(page: &[u8], row: usize, id: u64) -> Option<Row> {
    let word = |place: usize| {
        let at = WORD + row * ROW + place * WORD;
        let bytes = page.get(at..at + WORD).and_then(|b| b.try_into().ok());
        bytes.map(u64::from_ne_bytes)
    };
    let flags = word(1)?;
    if word(0)? != id || flags & THERE == 0 {
        return None;
    }
    let throttled = Nanos(word(3)?);
    Some(Row {
        cpu: Nanos(word(2)?),
        throttled: (flags & THROTTLED != 0).then_some(throttled),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = include_str!("../../../../../../bpf/probes/cgroup_cpu_intf.h");

    #[test]
    fn both_sides_have_the_same_words_in_the_same_order() {
        let members = |name: &str| -> Vec<String> {
            let body = HEADER.split_once(&format!("struct {name} {{")).unwrap().1;
            let body = body.split_once("};").unwrap().0;
            let lines = body.lines().filter_map(|l| l.trim().strip_suffix(';'));
            lines.map(ToOwned::to_owned).collect()
        };
        let words = |names: [&str; 4]| names.map(|n| format!("__u64 {n}")).to_vec();
        assert_eq!(
            members("cgroup_cpu_row"),
            words(["id", "flags", "cpu_ns", "throttled_ns"])
        );
        assert_eq!(
            members("cgroup_cpu_page"),
            ["__u64 count", "struct cgroup_cpu_row rows[CGROUP_CPU_ROWS]"]
        );
        for (name, value) in [
            ("ROWS", ROWS as u64),
            ("FOUND", THERE),
            ("THROTTLED", THROTTLED),
        ] {
            let line = format!("#define CGROUP_CPU_{name}\t{value}");
            assert!(HEADER.lines().any(|l| l == line), "{line}");
        }
    }

    fn put(page: &mut [u8], row: usize, words: [u64; 4]) {
        let at = WORD + row * ROW;
        for (place, word) in words.into_iter().enumerate() {
            page[at + place * WORD..][..WORD].copy_from_slice(&word.to_ne_bytes());
        }
    }

    #[test]
    fn a_row_is_of_the_cgroup_that_was_asked_about() {
        let mut page = vec![0xff; PAGE];
        ask(&mut page, &[7, 8, 9]);
        assert_eq!(page[..WORD], 3u64.to_ne_bytes());
        assert_eq!(answer(&page, 0, 7), None, "the program was not there");
        put(&mut page, 0, [7, THERE | THROTTLED, 50, 60]);
        put(&mut page, 1, [8, THERE, 51, 61]);
        let row = |cpu, throttled: Option<u64>| {
            Some(Row {
                cpu: Nanos(cpu),
                throttled: throttled.map(Nanos),
            })
        };
        assert_eq!(answer(&page, 0, 7), row(50, Some(60)));
        assert_eq!(answer(&page, 1, 8), row(51, None));
        assert_eq!(answer(&page, 1, 7), None);
        assert_eq!(answer(&page, ROWS, 7), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_page(bytes in proptest::collection::vec(any::<u8>(), 0..200), row in 0usize..2000) {
            let _ = answer(&bytes, row, 7);
            let mut short = bytes.clone();
            ask(&mut short, &[1; 20]);
            prop_assert_eq!(short.len(), bytes.len());
        }
    }
}
