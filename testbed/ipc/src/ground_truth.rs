// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ground truth of the emulated device: each line that it moved is counted here. Estimates are compared
//! with these counts. The device model writes, the harness reads, through one shared file; the guest never
//! sees it.
//!
//! All cells are 64-bit, only ever added to, and read without a lock: a reader may see one line
//! counted in one cell and not yet in the next, never a torn number.
//!
//! *Owners*: each 4 KiB page of device memory can be given a number 1–255, that of the workload with its data
//! there; 0 is none. The harness fills the map from the guest's own page tables, so the truth
//! per workload does not depend on anything weir measures.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies the file ("WEIRLEDG").
const MAGIC: u64 = u64::from_le_bytes(*b"WEIRLEDG");
/// Raised when cells move.
const VERSION: u64 = 2;

/// Sub-buckets per octave of the latency histogram: 6 % wide each.
const SUB_BUCKETS: u64 = 16;
/// Latencies from 0 to 2^30 ns.
pub const BUCKET_COUNT: usize = 31 * SUB_BUCKETS as usize;
/// Owner numbers fit a byte.
pub const OWNER_COUNT: usize = 256;
/// Pages of the owner map.
pub const PAGE_BYTES: u64 = 4096;

const HEADER_WORDS: usize = 16;
const TALLY_WORDS: usize = 4;
const VCPU_WORDS: usize = 8;

/// Shape of a ground-truth file: decides where the cells are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruthLayout {
    pub group_count: usize,
    /// vCPUs of the guest.
    pub vcpu_count: usize,
    pub memory_bytes: u64,
}

impl TruthLayout {
    pub fn words(&self) -> usize {
        self.owner_map_at() + self.owner_map_words()
    }

    fn owners_at(&self) -> usize {
        HEADER_WORDS + self.group_count * TALLY_WORDS
    }

    fn vcpus_at(&self) -> usize {
        self.owners_at() + OWNER_COUNT * TALLY_WORDS
    }

    fn buckets_at(&self) -> usize {
        self.vcpus_at() + self.vcpu_count * VCPU_WORDS
    }

    fn owner_map_at(&self) -> usize {
        self.buckets_at() + BUCKET_COUNT
    }

    fn owner_map_words(&self) -> usize {
        (self.memory_bytes / PAGE_BYTES).div_ceil(8) as usize
    }
}

/// Counts of a group or an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    pub read_lines: u64,
    pub write_lines: u64,
    /// Sum of the latency of the reads, model nanoseconds.
    pub read_latency_sum_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpuCounts {
    pub instructions: u64,
    /// Model time it waited for the device.
    pub stall_ns: u64,
    pub accesses: u64,
    /// The address of the block that it last began when it came to the end of a window.
    pub pc: u64,
}

/// A ground-truth file over shared words.
#[derive(Clone, Copy)]
pub struct GroundTruth<'a> {
    words: &'a [AtomicU64],
    layout: TruthLayout,
}

impl<'a> GroundTruth<'a> {
    /// Lays out empty counts with this layout; nothing if there are too few words.
    pub fn create(words: &'a [AtomicU64], layout: TruthLayout) -> Option<Self> {
        if words.len() < layout.words() {
            return None;
        }
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        let header = [
            VERSION,
            layout.group_count as u64,
            layout.vcpu_count as u64,
            layout.memory_bytes,
        ];
        for (word, value) in words[1..].iter().zip(header) {
            word.store(value, Ordering::Relaxed);
        }
        words[0].store(MAGIC, Ordering::Release);
        Some(GroundTruth { words, layout })
    }

    /// Opens a ground-truth file; nothing if this is none, or has another version.
    pub fn open(words: &'a [AtomicU64]) -> Option<Self> {
        let get = |i: usize| words.get(i).map(|w| w.load(Ordering::Acquire));
        if get(0)? != MAGIC || get(1)? != VERSION {
            return None;
        }
        let layout = TruthLayout {
            group_count: usize::try_from(get(2)?).ok().filter(|n| *n <= 1 << 16)?,
            vcpu_count: usize::try_from(get(3)?).ok().filter(|n| *n <= 1 << 12)?,
            memory_bytes: get(4).filter(|n| *n <= 1 << 44)?,
        };
        (words.len() >= layout.words()).then_some(GroundTruth { words, layout })
    }

    pub fn layout(&self) -> TruthLayout {
        self.layout
    }

    /// Whether the model shall count and delay. Off at power-on, so that the guest boots fast.
    pub fn is_on(&self) -> bool {
        self.words[5].load(Ordering::Relaxed) != 0
    }

    pub fn switch(&self, on: bool) {
        self.words[5].store(u64::from(on), Ordering::Release);
    }

    /// Whether memory accesses are examined and instructions take their time: the device model follows the
    /// switch.
    pub fn is_running(&self) -> bool {
        self.words[6].load(Ordering::Acquire) != 0
    }

    /// The device model's answer to the switch.
    pub fn set_running(&self, running: bool) {
        self.words[6].store(u64::from(running), Ordering::Release);
    }

    /// Whether the guest shall go on as it booted, for what matters to no question: an instruction takes a
    /// nanosecond, and no memory access is examined.
    pub fn is_hurried(&self) -> bool {
        self.words[10].load(Ordering::Relaxed) != 0
    }

    /// Lets the guest go on as it booted, or as before.
    pub fn hurry(&self, on: bool) {
        self.words[10].store(u64::from(on), Ordering::Release);
    }

    /// Until when the guest may run, nanoseconds since its power-on.
    pub fn until_ns(&self) -> u64 {
        self.until_word().load(Ordering::Acquire)
    }

    /// Grants the guest time until then.
    pub fn grant_until(&self, ns: u64) {
        self.until_word().store(ns, Ordering::Release);
    }

    /// The word behind [`GroundTruth::until_ns`]: the device model sleeps on it.
    pub fn until_word(&self) -> &'a AtomicU64 {
        &self.words[7]
    }

    /// Where the guest's time stands, or stood last: once it is what was granted, all that the guest did
    /// until then is in the ground truth.
    pub fn stopped_at_ns(&self) -> u64 {
        self.stopped_at_word().load(Ordering::Acquire)
    }

    /// The device model reports that the guest's time stands.
    pub fn set_stopped_at(&self, ns: u64) {
        self.stopped_at_word().store(ns, Ordering::Release);
    }

    /// The word behind [`GroundTruth::stopped_at_ns`]: the harness sleeps on it.
    pub fn stopped_at_word(&self) -> &'a AtomicU64 {
        &self.words[8]
    }

    /// Where the guest's time is, roughly: it goes on meanwhile.
    pub fn now_ns(&self) -> u64 {
        self.words[9].load(Ordering::Relaxed)
    }

    /// Reports where the guest's time is.
    pub fn set_now(&self, ns: u64) {
        self.words[9].store(ns, Ordering::Relaxed);
    }

    /// A read of one line by `owner` in `group`, that took `latency_ns`.
    pub fn count_read(&self, group: usize, owner: u8, latency_ns: u64) {
        for at in [self.group_at(group), self.owner_at(owner)] {
            self.add(at, 1);
            self.add(at + 2, latency_ns);
        }
        self.add(self.layout.buckets_at() + bucket_of(latency_ns), 1);
    }

    pub fn count_write(&self, group: usize, owner: u8) {
        self.add(self.group_at(group) + 1, 1);
        self.add(self.owner_at(owner) + 1, 1);
    }

    /// Publishes the counts of a vCPU so far.
    pub fn set_vcpu(&self, vcpu: usize, tally: VcpuCounts) {
        let at = self.layout.vcpus_at() + vcpu * VCPU_WORDS;
        let cells = [tally.instructions, tally.stall_ns, tally.accesses, tally.pc];
        for (word, value) in self.words[at..].iter().zip(cells) {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub fn group(&self, group: usize) -> LineCounts {
        self.tally(self.group_at(group))
    }

    pub fn owner(&self, owner: u8) -> LineCounts {
        self.tally(self.owner_at(owner))
    }

    pub fn vcpu(&self, vcpu: usize) -> VcpuCounts {
        let at = self.layout.vcpus_at() + vcpu * VCPU_WORDS;
        VcpuCounts {
            instructions: self.get(at),
            stall_ns: self.get(at + 1),
            accesses: self.get(at + 2),
            pc: self.get(at + 3),
        }
    }

    /// Counts of the latency histogram; bucket `i` holds latencies around [`bucket_middle_ns`]`(i)`.
    pub fn latency_buckets(&self) -> Vec<u64> {
        let at = self.layout.buckets_at();
        self.words[at..at + BUCKET_COUNT]
            .iter()
            .map(|w| w.load(Ordering::Relaxed))
            .collect()
    }

    /// Owner of the page at `offset_bytes` into device memory; 0 outside the map.
    pub fn owner_of(&self, offset_bytes: u64) -> u8 {
        let page = offset_bytes / PAGE_BYTES;
        let word = self.layout.owner_map_at() + (page / 8) as usize;
        match self.words.get(word) {
            Some(w) => (w.load(Ordering::Relaxed) >> (page % 8 * 8)) as u8,
            None => 0,
        }
    }

    /// Sets the owner of a page. Pages outside the map are ignored.
    pub fn set_owner(&self, offset_bytes: u64, owner: u8) {
        let page = offset_bytes / PAGE_BYTES;
        if offset_bytes >= self.layout.memory_bytes {
            return;
        }
        let word = &self.words[self.layout.owner_map_at() + (page / 8) as usize];
        let shift = page % 8 * 8;
        let old = word.load(Ordering::Relaxed);
        word.store(
            old & !(0xff << shift) | u64::from(owner) << shift,
            Ordering::Relaxed,
        );
    }

    fn group_at(&self, group: usize) -> usize {
        HEADER_WORDS + group * TALLY_WORDS
    }

    fn owner_at(&self, owner: u8) -> usize {
        self.layout.owners_at() + usize::from(owner) * TALLY_WORDS
    }

    fn tally(&self, at: usize) -> LineCounts {
        LineCounts {
            read_lines: self.get(at),
            write_lines: self.get(at + 1),
            read_latency_sum_ns: self.get(at + 2),
        }
    }

    fn get(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    fn add(&self, at: usize, amount: u64) {
        self.words[at].fetch_add(amount, Ordering::Relaxed);
    }
}

/// The bucket of a latency: exact below 16 ns, then 16 per octave.
fn bucket_of(latency_ns: u64) -> usize {
    let value = latency_ns.min((1 << 30) - 1);
    if value < SUB_BUCKETS {
        return value as usize;
    }
    let octave = u64::from(63 - value.leading_zeros());
    let sub = (value >> (octave - 4)) & (SUB_BUCKETS - 1);
    ((octave - 3) * SUB_BUCKETS + sub) as usize
}

/// The middle of a bucket, nanoseconds.
pub fn bucket_middle_ns(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < SUB_BUCKETS {
        return bucket as f64;
    }
    let octave = bucket / SUB_BUCKETS + 3;
    let width = (1u64 << (octave - 4)) as f64;
    (1u64 << octave) as f64 + (bucket % SUB_BUCKETS) as f64 * width + width / 2.0
}

/// The latency below which a fraction `q` (0–1) of the counted lines lies; nothing if none were.
pub fn quantile_ns(buckets: &[u64], q: f64) -> Option<f64> {
    let total: u64 = buckets.iter().sum();
    let rank = (q.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
    let mut below = 0;
    for (i, count) in buckets.iter().enumerate() {
        below += count;
        if *count > 0 && below >= rank {
            return Some(bucket_middle_ns(i));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TruthLayout = TruthLayout {
        group_count: 2,
        vcpu_count: 3,
        memory_bytes: 1 << 20,
    };

    fn words() -> Vec<AtomicU64> {
        (0..SHAPE.words()).map(|_| AtomicU64::new(7)).collect()
    }

    #[test]
    fn counts_are_read_back_by_a_second_opener() {
        let words = words();
        let ground_truth = GroundTruth::create(&words, SHAPE).expect("it fits");
        ground_truth.set_owner(8192, 9);
        ground_truth.set_owner(12288, 200);
        ground_truth.count_read(1, ground_truth.owner_of(8192 + 64), 5000);
        ground_truth.count_write(1, ground_truth.owner_of(8192));
        let vcpu = VcpuCounts {
            instructions: 1,
            stall_ns: 2,
            accesses: 3,
            pc: 4,
        };
        ground_truth.set_vcpu(2, vcpu);
        let seen = GroundTruth::open(&words).expect("it is a ground-truth file");
        assert_eq!(seen.layout(), SHAPE);
        let tally = LineCounts {
            read_lines: 1,
            write_lines: 1,
            read_latency_sum_ns: 5000,
        };
        assert_eq!(seen.group(1), tally);
        assert_eq!(seen.group(0), LineCounts::default());
        assert_eq!(seen.owner(9), tally);
        assert_eq!(seen.owner_of(12288), 200);
        assert_eq!(seen.owner_of(1 << 40), 0, "no owner outside the map");
        assert_eq!(seen.vcpu(2), vcpu);
        assert_eq!(seen.vcpu(1), VcpuCounts::default());
    }

    #[test]
    fn other_files_are_refused() {
        let words = words();
        assert!(GroundTruth::open(&words).is_none());
        assert!(GroundTruth::open(&[]).is_none());
        assert!(
            GroundTruth::create(&words[1..], SHAPE).is_none(),
            "one word short"
        );
        GroundTruth::create(&words, SHAPE).expect("it fits");
        words[2].store(u64::MAX, Ordering::Relaxed);
        assert!(
            GroundTruth::open(&words).is_none(),
            "more groups than words"
        );
    }

    #[test]
    fn buckets_are_monotonic_and_six_percent_wide() {
        let mut last = 0;
        for ns in (0..1_000_000u64).chain([1 << 29, (1 << 30) - 1, u64::MAX]) {
            let bucket = bucket_of(ns);
            assert!(bucket >= last && bucket < BUCKET_COUNT, "{ns}");
            last = bucket;
            if (16..1 << 30).contains(&ns) {
                let error = (bucket_middle_ns(bucket) / ns as f64 - 1.0).abs();
                assert!(
                    error < 0.0626,
                    "{ns} is put at {}",
                    bucket_middle_ns(bucket)
                );
            }
        }
    }

    #[test]
    fn quantiles_come_from_the_right_side() {
        let mut buckets = vec![0; BUCKET_COUNT];
        assert_eq!(quantile_ns(&buckets, 0.5), None);
        buckets[3] = 99;
        buckets[10] = 1;
        assert_eq!(quantile_ns(&buckets, 0.5), Some(3.0));
        assert_eq!(quantile_ns(&buckets, 0.99), Some(3.0));
        assert_eq!(quantile_ns(&buckets, 1.0), Some(10.0));
    }
}
