// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other side of `bpf/sched/intf.h`: values of the maps that daemon and scheduler share. Each is a row of
//! 64-bit words in the machine's byte order; a test compares names and order with the header.

/// Mode of a slot: no limit.
pub(crate) const MODE_FREE: u64 = 0;
/// The workload keeps to its rate.
pub(crate) const MODE_LIMITED: u64 = 1;
/// Overload cap: the workload is throttled while the device is above its set-point, if it used more than its
/// rate.
pub(crate) const MODE_CAPPED: u64 = 2;

/// Workloads that can be limited or capped at once, and slot 0, which means none.
pub(crate) const MAX_SLOTS: u32 = 256;
/// Cgroups with an hweight in full mode, and index 0, which means none.
pub(crate) const MAX_HWEIGHTS: u32 = 4096;
/// Queues in full mode: memory nodes with CPUs.
pub(crate) const MAX_QUEUES: u64 = 16;
/// Devices that can be limited at once.
pub(crate) const MAX_DEVICES: usize = 8;
/// Memory nodes of one device; their counters are added.
pub(crate) const MAX_NODES: usize = 8;
/// Bytes of the kernel's dump at the scheduler's exit.
pub(crate) const EXIT_DUMP_LEN: usize = 32768;
/// CPUs a machine may have.
pub(crate) const MAX_CPUS: u64 = 1024;

/// A struct of 64-bit words.
macro_rules! wire {
    ($(#[$doc:meta])* $name:ident { $($field:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $name { $(pub(crate) $field: u64),+ }

        impl $name {
            #[cfg(test)]
            pub(crate) const FIELDS: &[&str] = &[$(stringify!($field)),+];

            #[allow(dead_code, reason = "each side writes some and reads others")]
            pub(crate) fn to_bytes(self) -> Vec<u8> {
                [$(self.$field.to_ne_bytes()),+].concat()
            }

            /// Words that are missing are 0.
            #[allow(dead_code, reason = "each side writes some and reads others")]
            pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
                let mut words = bytes.chunks_exact(8).map(word);
                $name { $($field: words.next().unwrap_or(0)),+ }
            }
        }
    };
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

wire!(
    /// Written before the scheduler is attached.
    Settings { tick_ns, burst_ns, debt_ns, starvation_ns, starvation_each_ns, starvation_max_ns, run_ns, heartbeat_timeout_ns, cpu_count, queue_count }
);
wire!(
    /// The daemon's heartbeat.
    Heartbeat { count, epoch, slots, devices }
);
wire!(
    /// Limit of one workload.
    WorkloadCfg { active, bytes_per_sec, intensity_bytes_per_sec, device }
);
wire!(
    /// State of one workload.
    WorkloadCtx {
        budget_bytes, part, run_ns, live_ns, billed_run_ns, interval_ns, charged_bytes, runs, parks,
        parked_ns, worst_ns, starvation_runs, preempts, waiting, is_throttled, mode,
    }
);
wire!(
    /// State of one device.
    DeviceCtx {
        last_count, is_known, carry_bytes, estimated_bytes, load_bytes_per_sec, scale, lost, overload_cap_bytes,
        overload_cap_part, capped_bytes, capped_scale, capped_ticks, overshoot_bytes, ext_bytes, ext_ns,
        ext_estimated_bytes, ext_error_bytes, ext_spread_ns, is_limiting, ext_updates,
    }
);
wire!(
    /// Our last sample of a device that the scheduler cannot read.
    DeviceSample { bytes, at_ns }
);
wire!(
    /// Statistics of the scheduler.
    SchedStats {
        ticks, tick_cost_ns, last_tick_ns, heartbeat_ns, heartbeat, is_suspended, suspensions, stalled_dispatches,
        longest_gap_ns,
    }
);

wire!(
    /// Cost of enqueueing on one CPU.
    EnqueueStats { enqueues, timed, timed_ns, worst_ns }
);

/// A device, and the bandwidth there that is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCfg {
    /// Memory nodes to add up; empty: the kernel cannot read the counters.
    pub(crate) nodes: Vec<u64>,
    pub(crate) set_point_bytes_per_sec: u64,
    pub(crate) others_bytes_per_sec: u64,
    pub(crate) carry_bytes: u64,
    /// Bytes above the set-point after which capped workloads are throttled; 0: never.
    pub(crate) overload_cap_bytes: u64,
}

impl DeviceCfg {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let known = if self.nodes.len() <= MAX_NODES {
            self.nodes.as_slice()
        } else {
            &[]
        };
        let mut words = vec![known.len() as u64];
        words.extend(known);
        words.resize(1 + MAX_NODES, 0);
        words.extend([
            self.set_point_bytes_per_sec,
            self.others_bytes_per_sec,
            self.carry_bytes,
            self.overload_cap_bytes,
        ]);
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }
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
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let kind = bytes.get(..8).map_or(0, word);
        let text = |from: usize, to: usize| {
            let bytes = bytes.get(from..to.min(bytes.len())).unwrap_or_default();
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
        };
        let (reason, message) = (text(16, 144), text(144, 656));
        let dump = text(656, 656 + EXIT_DUMP_LEN);
        let text = [reason, message]
            .into_iter()
            .filter(|t| !t.is_empty())
            .collect::<Vec<_>>();
        (kind != 0).then(|| ExitInfo {
            kind,
            text: text.join(": "),
            dump,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../../../bpf/sched/intf.h");

    /// Members of a struct of the header, in order.
    fn members(name: &str) -> Vec<String> {
        let from = HEADER.find(&format!("struct {name} {{")).unwrap();
        let body = HEADER[from..]
            .split_once('{')
            .unwrap()
            .1
            .split_once('}')
            .unwrap()
            .0;
        let field = |line: &str| {
            line.trim()
                .trim_end_matches(';')
                .rsplit(' ')
                .next()
                .map(str::to_owned)
        };
        body.lines()
            .filter(|l| l.contains(';'))
            .filter_map(field)
            .collect()
    }

    #[test]
    fn both_sides_have_the_same_words_in_the_same_order() {
        for (name, fields) in [
            ("sched_settings", Settings::FIELDS),
            ("heartbeat", Heartbeat::FIELDS),
            ("workload_cfg", WorkloadCfg::FIELDS),
            ("workload_ctx", WorkloadCtx::FIELDS),
            ("device_sample", DeviceSample::FIELDS),
            ("device_ctx", DeviceCtx::FIELDS),
            ("sched_stats", SchedStats::FIELDS),
            ("enqueue_stats", EnqueueStats::FIELDS),
            (
                "device_cfg",
                &[
                    "node_count",
                    "nodes[MAX_NODES]",
                    "set_point_bytes_per_sec",
                    "others_bytes_per_sec",
                    "carry_bytes",
                    "overload_cap_bytes",
                ],
            ),
            (
                "user_exit_info",
                &[
                    "kind",
                    "code",
                    "reason[EXIT_REASON_LEN]",
                    "message[EXIT_MSG_LEN]",
                    "dump[EXIT_DUMP_LEN]",
                ],
            ),
        ] {
            assert_eq!(members(name), fields, "struct {name}");
        }
        for (name, value) in [
            ("MODE_FREE", MODE_FREE),
            ("MODE_LIMITED", MODE_LIMITED),
            ("MODE_CAPPED", MODE_CAPPED),
            ("MAX_SLOTS", u64::from(MAX_SLOTS)),
            ("MAX_DEVICES", MAX_DEVICES as u64),
            ("MAX_HWEIGHTS", u64::from(MAX_HWEIGHTS)),
            ("MAX_QUEUES", MAX_QUEUES),
            ("MAX_NODES", MAX_NODES as u64),
            ("MAX_CPUS", MAX_CPUS),
            ("EXIT_REASON_LEN", 128),
            ("EXIT_MSG_LEN", 512),
            ("EXIT_DUMP_LEN", EXIT_DUMP_LEN as u64),
        ] {
            let line = HEADER
                .lines()
                .find(|l| l.starts_with(&format!("#define {name}\t")))
                .unwrap();
            assert_eq!(
                line.split_whitespace().last().unwrap(),
                value.to_string(),
                "{name}"
            );
        }
    }

    #[test]
    fn words_survive_the_way_there_and_back() {
        let rate = WorkloadCfg {
            active: 1,
            bytes_per_sec: u64::MAX,
            intensity_bytes_per_sec: 3,
            device: 7,
        };
        assert_eq!(WorkloadCfg::from_bytes(&rate.to_bytes()), rate);
        assert_eq!(WorkloadCfg::from_bytes(&[]), WorkloadCfg::default());
        let device = DeviceCfg {
            nodes: vec![1, 3],
            set_point_bytes_per_sec: 4,
            others_bytes_per_sec: 5,
            carry_bytes: 6,
            overload_cap_bytes: 7,
        };
        let bytes = device.to_bytes();
        assert_eq!(
            (bytes.len(), bytes[0], bytes[8], bytes[16]),
            (8 * 13, 2, 1, 3)
        );
        let many = DeviceCfg {
            nodes: vec![1; MAX_NODES + 1],
            ..DeviceCfg::default()
        };
        assert_eq!(
            many.to_bytes()[0],
            0,
            "more than can be added are not added in part"
        );
    }

    #[test]
    fn the_end_is_told_in_the_kernels_words() {
        assert_eq!(ExitInfo::from_bytes(&[0; 656]), None);
        let mut bytes = vec![0; 656];
        bytes[0] = 2;
        bytes[16..21].copy_from_slice(b"stall");
        bytes[144..148].copy_from_slice(b"10 s");
        assert_eq!(ExitInfo::from_bytes(&bytes).unwrap().text, "stall: 10 s");
        assert_eq!(ExitInfo::from_bytes(&bytes[..20]).unwrap().text, "stal");
    }
}
