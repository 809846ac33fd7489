// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `build.rs` makes of the programs in `bpf/`, a module each:
//!
//! - a skeleton (libbpf-cargo): maps and programs are members, so that a wrong name does not compile;
//! - `types`: the program's structs as its compiler laid them out (BTF), so that no size or offset differs;
//! - the numbers of its headers.

macro_rules! skeletons {
    ($($name:ident),+) => {$(
        #[allow(
            clippy::all,
            clippy::expect_used,
            clippy::panic,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            dead_code,
            non_camel_case_types,
            unused_imports,
            unused_parens,
            reason = "generated"
        )]
        pub(crate) mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    )+};
}
skeletons!(
    sched,
    task_counts,
    set_counts,
    samples,
    task_iter,
    cgroup_cpu
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::bpf::open;

    /// To open an object takes no rights: libbpf finds each map and program of the skeleton by its name.
    #[test]
    fn every_skeleton_opens_and_its_settings_can_be_set() {
        let sched = open::<sched::SchedSkelBuilder>().unwrap();
        assert!(sched.maps.rodata_data.is_some());
        let counts = open::<task_counts::TaskCountsSkelBuilder>().unwrap();
        assert!(counts.maps.rodata_data.is_some());
        let sets = open::<set_counts::SetCountsSkelBuilder>().unwrap();
        assert!(sets.maps.bss_data.is_some());
        let samples = open::<samples::SamplesSkelBuilder>().unwrap();
        assert!(samples.maps.rodata_data.is_some());
        open::<task_iter::TaskIterSkelBuilder>().unwrap();
        open::<cgroup_cpu::CgroupCpuSkelBuilder>().unwrap();
    }

    #[test]
    fn values_of_maps_are_as_large_as_their_structs() {
        let sched = open::<sched::SchedSkelBuilder>().unwrap();
        let end = sched.maps.exit_info.value_size() as usize;
        assert_eq!(end, size_of::<sched::types::user_exit_info>());
        let cfg = sched.maps.device_cfgs.value_size() as usize;
        assert_eq!(cfg, size_of::<sched::types::device_cfg>());
        let page = open::<cgroup_cpu::CgroupCpuSkelBuilder>().unwrap();
        let page = page.maps.cgroup_cpu_page.value_size() as usize;
        assert_eq!(page, size_of::<cgroup_cpu::types::cgroup_cpu_page>());
    }

    #[test]
    fn numbers_of_headers_are_constants_whatever_their_form() {
        assert_eq!(cgroup_cpu::CGROUP_CPU_ROWS, 1024);
        assert_eq!(sched::SCX_DSQ_LOCAL_ON, 3 << 62);
        assert_eq!(task_iter::TASK_ROW_PAGES_UNKNOWN, u64::MAX);
        assert_eq!(sched::WEIR_SLICE_NS, 4_000_000);
    }
}
