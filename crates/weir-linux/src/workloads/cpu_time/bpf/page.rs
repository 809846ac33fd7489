// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of cgroups that the daemon and `bpf/probes/cgroup_cpu.bpf.c` share. The daemon writes ids, the
//! program the rest.

use crate::kernel::bpf::bpf_values;
use crate::kernel::skeletons::cgroup_cpu::types::{cgroup_cpu_page, cgroup_cpu_row};
use crate::kernel::skeletons::cgroup_cpu::{
    CGROUP_CPU_FOUND, CGROUP_CPU_ROWS, CGROUP_CPU_THROTTLED,
};
use weir_core::Nanos;

/// Cgroups of a page.
pub(crate) const ROWS: usize = CGROUP_CPU_ROWS as usize;

bpf_values!(cgroup_cpu_page);

/// What is known of a cgroup that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// CPU time of all its tasks so far.
    pub(crate) cpu: Nanos,
    /// For which its limit held it back; nothing where it has no cpu controller.
    pub(crate) throttled: Option<Nanos>,
}

/// Writes up to [`ROWS`] ids; what the page said before stays behind them.
pub(super) fn ask(page: &mut cgroup_cpu_page, ids: &[u64]) {
    page.count = ids.len().min(ROWS) as u64;
    for (row, id) in page.rows.iter_mut().zip(ids) {
        row.id = *id;
        // Not there, should the program not come to it.
        row.flags = 0;
    }
}

/// What the row says of the cgroup with this id; nothing if it is another one, or there is none.
pub(super) fn answer(row: &cgroup_cpu_row, id: u64) -> Option<Row> {
    if row.id != id || row.flags & CGROUP_CPU_FOUND == 0 {
        return None;
    }
    Some(Row {
        cpu: Nanos(row.cpu_ns),
        throttled: (row.flags & CGROUP_CPU_THROTTLED != 0).then_some(Nanos(row.throttled_ns)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::bpf::BpfValue;
    use proptest::prelude::*;

    fn row(id: u64, flags: u64, cpu_ns: u64, throttled_ns: u64) -> cgroup_cpu_row {
        cgroup_cpu_row {
            id,
            flags,
            cpu_ns,
            throttled_ns,
        }
    }

    #[test]
    fn a_row_is_of_the_cgroup_that_was_asked_about() {
        let mut page = cgroup_cpu_page::from_bytes(&[0xff; size_of::<cgroup_cpu_page>()]);
        ask(&mut page, &[7, 8, 9]);
        assert_eq!(page.count, 3);
        assert_eq!(answer(&page.rows[0], 7), None, "the program was not there");
        let both = CGROUP_CPU_FOUND | CGROUP_CPU_THROTTLED;
        let found = |cpu, throttled: Option<u64>| {
            Some(Row {
                cpu: Nanos(cpu),
                throttled: throttled.map(Nanos),
            })
        };
        assert_eq!(answer(&row(7, both, 50, 60), 7), found(50, Some(60)));
        assert_eq!(
            answer(&row(8, CGROUP_CPU_FOUND, 51, 61), 8),
            found(51, None)
        );
        assert_eq!(answer(&row(8, CGROUP_CPU_FOUND, 51, 61), 7), None);
    }

    #[test]
    fn a_page_holds_no_more_ids_than_it_has_rows() {
        let mut page = cgroup_cpu_page::default();
        ask(&mut page, &[1; ROWS + 1]);
        assert_eq!((page.count, page.rows[ROWS - 1].id), (ROWS as u64, 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_page(bytes in proptest::collection::vec(any::<u8>(), 0..200), place in 0..ROWS) {
            let page = cgroup_cpu_page::from_bytes(&bytes);
            prop_assert_eq!(&page.as_bytes()[..bytes.len()], &bytes[..]);
            prop_assert!(page.as_bytes()[bytes.len()..].iter().all(|byte| *byte == 0));
            let _ = answer(&page.rows[place], 7);
        }
    }
}
