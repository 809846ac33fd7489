// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/iomem`: owners of host-physical addresses (kernel, `r_show` in `kernel/resource.c`). A line is
//! `START-END : NAME`, indented below what it lies in; START and END are hexadecimal and both inside.

use super::lines;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IomemRange {
    pub(crate) start: u64,
    pub(crate) size_bytes: u64,
    pub(crate) name: String,
}

/// All lines that are understood. A process without the right to see addresses reads 0 in each line; those
/// are left out.
pub(crate) fn ranges(text: &[u8]) -> impl Iterator<Item = IomemRange> {
    lines(text).filter_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let (addresses, name) = line.trim_start().split_once(" : ")?;
        let (start, end) = addresses.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok().filter(|end| *end > 0)?;
        Some(IomemRange {
            start,
            size_bytes: end.checked_sub(start)?.checked_add(1)?,
            name: name.trim_end().to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_ranges_with_names() {
        let text = b"00001000-0009ffff : System RAM\n2080000000-247fffffff : CXL Window 0\n  \
            2080000000-227fffffff : region0\nzz\n1-0 : x\n00000000-00000000 : hidden\n";
        let seen: Vec<_> = ranges(text)
            .map(|r| (r.start, r.size_bytes, r.name))
            .collect();
        assert_eq!(
            seen,
            [
                (0x1000, 0x9f000, "System RAM".to_owned()),
                (0x20_8000_0000, 0x4_0000_0000, "CXL Window 0".to_owned()),
                (0x20_8000_0000, 0x2_0000_0000, "region0".to_owned()),
            ]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "( {0,4}[0-9a-f]{0,17}-[0-9a-f]{0,17} : .{0,9}\n){0,4}") {
            prop_assert!(ranges(&bytes).all(|r| r.size_bytes > 0));
            prop_assert!(ranges(text.as_bytes()).all(|r| r.size_bytes > 0));
        }
    }
}
