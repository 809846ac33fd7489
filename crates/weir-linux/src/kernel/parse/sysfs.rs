// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of sysfs and debugfs: lists of CPUs and nodes, node sizes, and the access counters.

use super::{Malformed, decimal, lines, words};

/// Numbers a list may hold: above every `CONFIG_NR_CPUS` and `CONFIG_NODES_SHIFT` in use.
const LIST_MAX: u64 = 65_536;

/// Reads a list such as `0-3,5` (kernel, `cpumap_print_to_pagebuf`): ascending and without overlap.
///
/// # Errors
/// Anything else, and numbers of 65 536 or more. An empty list is none: it has no numbers.
pub fn list(text: &[u8]) -> Result<Vec<u32>, Malformed> {
    const WANT: Malformed = Malformed("an ascending list such as 0-3,5");
    let mut numbers: Vec<u32> = Vec::new();
    for part in text
        .trim_ascii()
        .split(|b| *b == b',')
        .filter(|p| !p.is_empty())
    {
        let dash = part.iter().position(|b| *b == b'-').unwrap_or(part.len());
        let first = decimal(part.get(..dash).unwrap_or_default()).map_err(|_| WANT)?;
        let last = match part.get(dash + 1..) {
            Some(text) => decimal(text).map_err(|_| WANT)?,
            None => first,
        };
        let after = numbers.last().map_or(0, |n| u64::from(*n) + 1);
        if first < after || last < first || last >= LIST_MAX {
            return Err(WANT);
        }
        numbers.extend((first..=last).filter_map(|n| u32::try_from(n).ok()));
    }
    Ok(numbers)
}

/// The size of a node in bytes (`nodeN/meminfo`, the line `Node N MemTotal: … kB`).
///
/// # Errors
/// No such line.
pub fn node_size(text: &[u8]) -> Result<u64, Malformed> {
    const WANT: Malformed = Malformed("a line \"Node N MemTotal: SIZE kB\"");
    node_figure(text, b"MemTotal:").ok_or(WANT)
}

/// One figure of a node, in bytes (`nodeN/meminfo`, a line `Node N NAME: … kB`; the name with its colon).
pub(crate) fn node_figure(text: &[u8], name: &[u8]) -> Option<u64> {
    let kib = lines(text).find_map(|line| {
        let mut parts = words(line).skip(2);
        (parts.next()? == name).then(|| parts.next()).flatten()
    });
    decimal(kib?).ok()?.checked_mul(1024)
}

/// Read and write counts of one group, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    pub read_bytes: u64,
    pub write_bytes: u64,
}

/// The `counters` attribute of weir's driver: per group two 64-bit numbers in the machine's byte
/// order. A part at the end that is not a whole pair is left out.
pub fn pairs(bytes: &[u8]) -> impl Iterator<Item = Pair> {
    bytes.chunks_exact(16).map(|pair| {
        let number = |at: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&pair[at..at + 8]);
            u64::from_ne_bytes(raw)
        };
        Pair {
            read_bytes: number(0),
            write_bytes: number(8),
        }
    })
}

/// The counter dump of the thesis's module (5.1.4, Listing 2): `read write`, then a line of two
/// numbers per group. Its figures are multiples of 64: bytes, not lines.
///
/// # Errors
/// Another head, a line that is not two numbers, or more than `group_count_max` lines.
pub fn counter_dump(text: &[u8], group_count_max: usize) -> Result<Vec<Pair>, Malformed> {
    const WANT: Malformed = Malformed("\"read write\", then two numbers a line");
    let mut rows = lines(text);
    if !rows
        .next()
        .is_some_and(|head| words(head).eq([&b"read"[..], b"write"]))
    {
        return Err(WANT);
    }
    let mut groups = Vec::new();
    for row in rows {
        let mut parts = words(row);
        let (Some(read), Some(write), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(WANT);
        };
        if groups.len() == group_count_max {
            return Err(Malformed("no more groups than a register map can hold"));
        }
        groups.push(Pair {
            read_bytes: decimal(read)?,
            write_bytes: decimal(write)?,
        });
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_ascending_and_bounded() {
        assert_eq!(list(b"0-3,5\n"), Ok(vec![0, 1, 2, 3, 5]));
        assert_eq!(list(b"\n"), Ok(vec![]));
        assert_eq!(list(b"65535").map(|l| l.len()), Ok(1));
        for bad in [
            "65536",
            "0-4294967295",
            "3-1",
            "1,1",
            "2,1",
            "a",
            "1-",
            "-1",
            "0-3-5",
            "0x1",
        ] {
            assert!(list(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn node_sizes_are_binary_kilobytes() {
        let text = b"Node 1 MemTotal:         524288 kB\nNode 1 MemFree:          1000 kB\n";
        assert_eq!(node_size(text), Ok(512 << 20));
        assert!(node_size(b"Node 1 MemTotal: x kB\n").is_err());
        assert!(node_size(b"MemTotal: 5 kB\n").is_err());
        assert!(node_size(b"Node 1 MemTotal: 18446744073709551615 kB\n").is_err());
    }

    #[test]
    fn pairs_are_whole_or_absent() {
        let mut bytes = Vec::new();
        for n in [1u64, 2, u64::MAX, 0] {
            bytes.extend_from_slice(&n.to_ne_bytes());
        }
        bytes.extend_from_slice(&[7; 15]);
        let seen: Vec<_> = pairs(&bytes).collect();
        assert_eq!(
            seen,
            [
                Pair {
                    read_bytes: 1,
                    write_bytes: 2
                },
                Pair {
                    read_bytes: u64::MAX,
                    write_bytes: 0
                }
            ]
        );
    }

    #[test]
    fn the_dump_of_the_thesis_is_read() {
        let text = b"read write\n7467077175424 100640100736\n714993795584 45960215552\n";
        let seen = counter_dump(text, 16).unwrap();
        assert_eq!(
            seen[0],
            Pair {
                read_bytes: 7_467_077_175_424,
                write_bytes: 100_640_100_736
            }
        );
        assert_eq!(seen.len(), 2);
        assert!(counter_dump(text, 1).is_err());
        for bad in [
            "",
            "write read\n1 2\n",
            "read write\n1\n",
            "read write\n1 2 3\n",
            "read write\n-1 2\n",
        ] {
            assert!(counter_dump(bad.as_bytes(), 16).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = (node_size(&bytes), counter_dump(&bytes, 4));
            prop_assert_eq!(pairs(&bytes).count(), bytes.len() / 16);
            if let Ok(numbers) = list(&bytes) {
                prop_assert!(numbers.is_sorted() && numbers.len() <= 65_536);
            }
        }

        #[test]
        fn near_misses_are_survived(text in "[0-9,\\- \n]{0,40}", rows in "(read write\n)?([0-9a ]{0,22}\n){0,5}") {
            let _ = (list(text.as_bytes()), counter_dump(rows.as_bytes(), 3));
        }
    }
}
