// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of the maps that daemon and scheduler share (`bpf/sched/intf.h`), and why the scheduler left the
//! kernel.

use crate::kernel::bpf::bpf_values;
use crate::kernel::skeletons::sched;
pub(crate) use sched::types::{
    device_cfg as DeviceCfg, device_ctx as DeviceCtx, device_sample as DeviceSample,
    enqueue_stats as EnqueueStats, heartbeat as Heartbeat, sched_settings as Settings,
    sched_stats as SchedStats, user_exit_info, workload_cfg as WorkloadCfg,
    workload_ctx as WorkloadCtx,
};
pub(crate) use sched::{MAX_CPUS, MAX_QUEUES, MODE_CAPPED, MODE_FREE, MODE_LIMITED};

/// Workloads that can be limited or capped at once, and slot 0, which means none.
pub(crate) const MAX_SLOTS: u32 = sched::MAX_SLOTS as u32;
/// Cgroups with an hweight in full mode, and index 0, which means none.
pub(crate) const MAX_HWEIGHTS: u32 = sched::MAX_HWEIGHTS as u32;
/// Devices that can be limited at once.
pub(crate) const MAX_DEVICES: usize = sched::MAX_DEVICES as usize;

bpf_values!(
    DeviceCfg,
    DeviceCtx,
    DeviceSample,
    EnqueueStats,
    Heartbeat,
    Settings,
    SchedStats,
    user_exit_info,
    WorkloadCfg,
    WorkloadCtx,
);

/// A device with the counters of these memory nodes. More than can be added are not added in part: the kernel
/// then cannot read its counters.
pub(crate) fn device_of(nodes: &[u64]) -> DeviceCfg {
    let mut cfg = DeviceCfg::default();
    if let Some(places) = cfg.nodes.get_mut(..nodes.len()) {
        places.copy_from_slice(nodes);
        cfg.node_count = nodes.len() as u64;
    }
    cfg
}

/// Why the scheduler left the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExitInfo {
    pub(crate) kind: u64,
    pub(crate) text: String,
    /// The kernel's dump of all CPUs and waiting tasks.
    pub(crate) dump: String,
}

impl ExitInfo {
    /// Nothing while it is in the kernel.
    pub(crate) fn of(info: &user_exit_info) -> Option<Self> {
        let text = |text: &[i8]| {
            let bytes = text.iter().map(|c| c.cast_unsigned());
            let bytes: Vec<u8> = bytes.take_while(|b| *b != 0).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (reason, message) = (text(&info.reason), text(&info.message));
        let said = [reason, message].into_iter().filter(|t| !t.is_empty());
        (info.kind != 0).then(|| ExitInfo {
            kind: info.kind,
            text: said.collect::<Vec<_>>().join(": "),
            dump: text(&info.dump),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::bpf::BpfValue;

    #[test]
    fn words_survive_the_way_there_and_back() {
        let rate = WorkloadCfg {
            active: 1,
            bytes_per_sec: u64::MAX,
            intensity_bytes_per_sec: 3,
            device: 7,
        };
        assert_eq!(WorkloadCfg::from_bytes(rate.as_bytes()), rate);
        assert_eq!(WorkloadCfg::from_bytes(&[]), WorkloadCfg::default());
        let other = WorkloadCfg { device: 8, ..rate };
        assert_ne!(other, rate);
    }

    #[test]
    fn nodes_of_a_device_are_added_all_or_not_at_all() {
        let device = device_of(&[1, 3]);
        assert_eq!(
            (device.node_count, device.nodes[..3].to_vec()),
            (2, vec![1, 3, 0])
        );
        let places = device.nodes.len();
        assert_eq!(device_of(&vec![1; places]).node_count, places as u64);
        assert_eq!(device_of(&vec![1; places + 1]), DeviceCfg::default());
    }

    #[test]
    fn the_end_is_in_the_kernels_words() {
        let mut info = user_exit_info::default();
        assert_eq!(ExitInfo::of(&info), None);
        info.kind = 2;
        info.reason[..5].copy_from_slice(&b"stall".map(u8::cast_signed));
        assert_eq!(ExitInfo::of(&info).unwrap().text, "stall");
        info.message[..4].copy_from_slice(&b"10 s".map(u8::cast_signed));
        info.dump.fill(b'x'.cast_signed());
        let end = ExitInfo::of(&info).unwrap();
        assert_eq!((end.kind, end.text.as_str()), (2, "stall: 10 s"));
        assert_eq!(
            end.dump.len(),
            info.dump.len(),
            "a text without a NUL ends with its place"
        );
    }
}
