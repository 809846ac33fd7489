// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other side of `bpf/weir_wire.h`: what daemon and scheduler tell each other. Each is a row of
//! 64-bit words in the machine's byte order; a test compares names and order with the header.

/// What a slot does to its workload: nothing.
pub(crate) const FREE: u64 = 0;
/// It keeps to its rate.
pub(crate) const LIMITED: u64 = 1;
/// It is held back while the device is beyond its set-point, if it has had more than its rate.
pub(crate) const GUARDED: u64 = 2;

/// Workloads that can be limited or guarded at once, and one that is nobody's.
pub(crate) const SLOTS: u32 = 256;
/// Cgroups with a share of the CPUs in full mode, and one that is none.
pub(crate) const SHARES: u32 = 4096;
/// Queues in full mode: memory nodes with CPUs.
pub(crate) const QUEUES: u64 = 16;
/// Devices that can be held at once.
pub(crate) const DEVICES: usize = 8;
/// Memory nodes of one device whose counters are added.
pub(crate) const NODES: usize = 8;
/// Bytes of the kernel's report on the scheduler's end.
pub(crate) const DUMP_LEN: usize = 32768;
/// CPUs a machine may have.
pub(crate) const CPUS: u64 = 1024;

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
    Settings { tick_ns, room_ns, debt_ns, turn_ns, turn_each_ns, turn_most_ns, run_ns, patience_ns, cpu_count, queue_count }
);
wire!(
    /// The daemon lives.
    Beat { count, epoch, slots, devices }
);
wire!(
    /// What one workload may do.
    Rate { active, bytes_per_sec, intensity_bytes_per_sec, device }
);
wire!(
    /// What became of one workload.
    Count {
        budget_bytes, part, run_ns, live_ns, ran_ns, interval_ns, charged_bytes, runs, parks,
        parked_ns, worst_ns, turns, cuts, waiting, gate, mode,
    }
);
wire!(
    /// One device's books.
    Meter {
        counted, is_known, carry_bytes, estimated_bytes, load_bytes_per_sec, ratio, lost, guard_bytes, guard_part,
        guarded_bytes, guard_ratio, guarded, beyond_bytes, seen_bytes, seen_ns, guessed_bytes, missed_bytes,
        spread_ns, is_limiting, looks,
    }
);
wire!(
    /// What we saw of a device whose counters the scheduler cannot read.
    Seen { bytes, at_ns }
);
wire!(
    /// The scheduler as a whole.
    Life { ticks, tick_cost_ns, ticked_ns, heard_ns, beat, open, opened, late, worst_gap_ns }
);

wire!(
    /// What queueing costs on one CPU.
    Cost { enqueues, timed, timed_ns, worst_ns }
);

/// A device and what is not ours to limit there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// Whose counters are added; empty: they cannot be read from there.
    pub(crate) nodes: Vec<u64>,
    pub(crate) set_point_bytes_per_sec: u64,
    pub(crate) others_bytes_per_sec: u64,
    pub(crate) carry_bytes: u64,
    /// What it may move beyond its set-point before guarded workloads are held back; 0: they never are.
    pub(crate) guard_bytes: u64,
}

impl Device {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let known = if self.nodes.len() <= NODES {
            self.nodes.as_slice()
        } else {
            &[]
        };
        let mut words = vec![known.len() as u64];
        words.extend(known);
        words.resize(1 + NODES, 0);
        words.extend([
            self.set_point_bytes_per_sec,
            self.others_bytes_per_sec,
            self.carry_bytes,
            self.guard_bytes,
        ]);
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }
}

/// Why the scheduler left the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) kind: u64,
    pub(crate) text: String,
    /// The kernel's report on all CPUs and the tasks that wait.
    pub(crate) dump: String,
}

impl End {
    /// Nothing while it is in the kernel.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let kind = bytes.get(..8).map_or(0, word);
        let text = |from: usize, to: usize| {
            let bytes = bytes.get(from..to.min(bytes.len())).unwrap_or_default();
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
        };
        let (reason, message) = (text(16, 144), text(144, 656));
        let dump = text(656, 656 + DUMP_LEN);
        let text = [reason, message]
            .into_iter()
            .filter(|t| !t.is_empty())
            .collect::<Vec<_>>();
        (kind != 0).then(|| End {
            kind,
            text: text.join(": "),
            dump,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../../bpf/weir_wire.h");

    /// Members of a struct of the header, in order.
    fn members(name: &str) -> Vec<String> {
        let from = HEADER.find(&format!("struct weir_{name} {{")).unwrap();
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
            ("settings", Settings::FIELDS),
            ("beat", Beat::FIELDS),
            ("rate", Rate::FIELDS),
            ("count", Count::FIELDS),
            ("seen", Seen::FIELDS),
            ("meter", Meter::FIELDS),
            ("life", Life::FIELDS),
            ("cost", Cost::FIELDS),
            (
                "device",
                &[
                    "node_count",
                    "nodes[WEIR_NODES]",
                    "set_point_bytes_per_sec",
                    "others_bytes_per_sec",
                    "carry_bytes",
                    "guard_bytes",
                ],
            ),
            (
                "end",
                &[
                    "kind",
                    "code",
                    "reason[WEIR_REASON_LEN]",
                    "message[WEIR_MESSAGE_LEN]",
                    "dump[WEIR_DUMP_LEN]",
                ],
            ),
        ] {
            assert_eq!(members(name), fields, "struct weir_{name}");
        }
        for (name, value) in [
            ("WEIR_FREE", FREE),
            ("WEIR_LIMITED", LIMITED),
            ("WEIR_GUARDED", GUARDED),
            ("WEIR_SLOTS", u64::from(SLOTS)),
            ("WEIR_DEVICES", DEVICES as u64),
            ("WEIR_SHARES", u64::from(SHARES)),
            ("WEIR_QUEUES", QUEUES),
            ("WEIR_NODES", NODES as u64),
            ("WEIR_CPUS", CPUS),
            ("WEIR_REASON_LEN", 128),
            ("WEIR_MESSAGE_LEN", 512),
            ("WEIR_DUMP_LEN", DUMP_LEN as u64),
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
        let rate = Rate {
            active: 1,
            bytes_per_sec: u64::MAX,
            intensity_bytes_per_sec: 3,
            device: 7,
        };
        assert_eq!(Rate::from_bytes(&rate.to_bytes()), rate);
        assert_eq!(Rate::from_bytes(&[]), Rate::default());
        let device = Device {
            nodes: vec![1, 3],
            set_point_bytes_per_sec: 4,
            others_bytes_per_sec: 5,
            carry_bytes: 6,
            guard_bytes: 7,
        };
        let bytes = device.to_bytes();
        assert_eq!(
            (bytes.len(), bytes[0], bytes[8], bytes[16]),
            (8 * 13, 2, 1, 3)
        );
        let many = Device {
            nodes: vec![1; NODES + 1],
            ..Device::default()
        };
        assert_eq!(
            many.to_bytes()[0],
            0,
            "more than can be added are not added in part"
        );
    }

    #[test]
    fn the_end_is_told_in_the_kernels_words() {
        assert_eq!(End::from_bytes(&[0; 656]), None);
        let mut bytes = vec![0; 656];
        bytes[0] = 2;
        bytes[16..21].copy_from_slice(b"stall");
        bytes[144..148].copy_from_slice(b"10 s");
        assert_eq!(End::from_bytes(&bytes).unwrap().text, "stall: 10 s");
        assert_eq!(End::from_bytes(&bytes[..20]).unwrap().text, "stal");
    }
}
