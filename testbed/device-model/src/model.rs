// SPDX-License-Identifier: GPL-2.0-or-later
//! The whole model: what all vCPUs share, and the vCPUs.

use crate::args::Args;
use crate::clock::Clock;
use crate::shared::map_words;
use crate::trace_publisher::TracePublisher;
use crate::vcpu::{Read, Vcpu};
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU64;
use weir_hw::Bytes;
use weir_hw::access_counters::{AccessCounters, GroupRegion};
use weir_hw::{CacheFilter, Lookup, QueueModel};
use weir_ipc::access_trace::TraceRecord;
use weir_ipc::core_fills;
use weir_ipc::ground_truth::GroundTruth;

/// A slot that one thread writes: the vCPU's own.
struct Slot(UnsafeCell<Vcpu>);
// SAFETY: all vCPUs share one thread; `start` runs while they stand still.
unsafe impl Sync for Slot {}

pub struct Model {
    ground_truth: GroundTruth<'static>,
    counters: AccessCounters<&'static [AtomicU64]>,
    bar: &'static [AtomicU64],
    publisher: Option<TracePublisher>,
    device: QueueModel,
    cache: CacheFilter,
    base_bytes: u64,
    size_bytes: u64,
    vcpus: Vec<Slot>,
}

impl Model {
    /// Map the shared files and build the models.
    pub fn new(args: &Args, vcpu_count: usize) -> Result<Self, String> {
        let ground_truth = GroundTruth::open(map_words(&args.ground_truth)?).ok_or_else(|| {
            format!(
                "{} is not a ground-truth file of this version",
                args.ground_truth
            )
        })?;
        let layout = ground_truth.layout();
        let size_bytes: u64 = args.group_sizes_bytes.iter().sum();
        if layout.group_count != args.group_sizes_bytes.len()
            || layout.vcpu_count < vcpu_count
            || layout.memory_bytes < size_bytes
        {
            return Err(format!(
                "{}: made for another machine: {layout:?}",
                args.ground_truth
            ));
        }
        let mut base = args.base_bytes;
        let mut regions = Vec::new();
        for &size in &args.group_sizes_bytes {
            regions.push(GroupRegion {
                base,
                size: Bytes(size),
            });
            base += size;
        }
        let bar = map_words(&args.bar)?;
        let counters =
            AccessCounters::over(bar, &regions).map_err(|e| format!("{}: {e}", args.bar))?;
        let publisher = match &args.trace {
            Some(path) => Some(TracePublisher::open(path, vcpu_count)?),
            None => None,
        };
        // Clocks differ by a window, and by what one vCPU at most waits for the lines of all.
        let stall_ns = args.profile.idle_ns
            + args.profile.service_ns * (vcpu_count * args.window_lines) as u64;
        let horizon_ns = 4 * (args.window_ns + stall_ns);
        Ok(Model {
            ground_truth,
            counters,
            bar,
            publisher,
            device: QueueModel::new(args.profile, horizon_ns),
            cache: CacheFilter::new(args.cache_lines),
            base_bytes: args.base_bytes,
            size_bytes,
            vcpus: (0..vcpu_count)
                .map(|_| Slot(UnsafeCell::new(Vcpu::new(args.window_lines))))
                .collect(),
        })
    }

    pub fn ground_truth(&self) -> &GroundTruth<'static> {
        &self.ground_truth
    }

    /// The physical address behind `vaddr` if it is the device's.
    pub fn device_address(
        &self,
        index: usize,
        vaddr: u64,
        walk: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        let address = self.vcpu(index)?.tlb.translate(vaddr, walk)?;
        (address.wrapping_sub(self.base_bytes) < self.size_bytes).then_some(address)
    }

    pub fn flush_tlb(&self, index: usize) {
        if let Some(vcpu) = self.vcpu(index) {
            vcpu.tlb.flush();
        }
    }

    /// All vCPUs stand still and the model begins, or goes on: what it has not seen meanwhile are changes of
    /// address translations. The cache keeps its lines, as it does while the model is off.
    pub fn start(&self, is_first: bool) {
        for slot in &self.vcpus {
            // SAFETY: QEMU runs this with every vCPU stopped.
            unsafe { (*slot.0.get()).tlb.flush() };
        }
        if is_first {
            self.cache.clear();
        }
        self.ground_truth.set_running(true);
    }

    /// It sees nothing from here on.
    pub fn pause(&self) {
        self.ground_truth.set_running(false);
    }

    /// What the vCPUs have done so far goes to the ground truth.
    pub fn publish_vcpus(&self, clock: &Clock) {
        for index in 0..clock.vcpu_count() {
            let Some(vcpu) = self.vcpu(index) else {
                continue;
            };
            vcpu.tally.instructions = clock.instructions(index);
            vcpu.tally.pc = clock.pc(index);
            self.ground_truth.set_vcpu(index, vcpu.tally);
        }
    }

    /// vCPU `index` touches device memory; if the access is awaited, it does nothing until it has the line.
    pub fn access(
        &self,
        clock: &Clock,
        index: usize,
        address: u64,
        is_store: bool,
        is_awaited: bool,
    ) {
        let Some(vcpu) = self.vcpu(index) else { return };
        let line = address / 64;
        // A load of the line touched just before changes nothing; a store may make it dirty.
        if vcpu.is_last_line(line) && !is_store || !self.ground_truth.is_on() {
            return;
        }
        vcpu.tally.accesses += 1;
        let Lookup::Miss { write_back_line } = self.cache.access(line, is_store) else {
            return;
        };
        core_fills::count(&self.bar, index, is_store);
        let Read {
            latency_ns,
            stall_ns,
        } = vcpu.read_line(&self.device, clock.vcpu_ns(index), is_awaited);
        if stall_ns > 0 {
            clock.stall(index, stall_ns);
        }
        self.publish(index, line, false, latency_ns);
        self.count(address, false, |group, owner| {
            self.ground_truth.count_read(group, owner, latency_ns);
        });
        if let Some(dirty) = write_back_line {
            // Posted: it takes the device's time, not the core's.
            let now_ns = clock.vcpu_ns(index);
            let done = self.device.access(now_ns);
            self.publish(index, dirty, true, done - now_ns);
            self.count(dirty * 64, true, |group, owner| {
                self.ground_truth.count_write(group, owner)
            });
        }
    }

    /// Before it is counted: so the trace's consumer is never behind the counters that the guest sees.
    fn publish(&self, index: usize, line: u64, is_write: bool, latency: u64) {
        if let Some(publisher) = &self.publisher {
            let before = self.device.lines_before(latency);
            let record = TraceRecord {
                line,
                is_write,
                queue_fill: u8::try_from(before).unwrap_or(u8::MAX),
            };
            publisher.publish(index, record);
        }
    }

    fn count(&self, address: u64, is_write: bool, add: impl Fn(usize, u8)) {
        if let Some(group) = self.counters.count(address, is_write) {
            add(
                group as usize,
                self.ground_truth.owner_of(address - self.base_bytes),
            );
        }
    }

    #[allow(clippy::mut_from_ref)]
    fn vcpu(&self, index: usize) -> Option<&mut Vcpu> {
        // SAFETY: one thread, one callback at a time.
        self.vcpus
            .get(index)
            .map(|slot| unsafe { &mut *slot.0.get() })
    }
}
