// SPDX-License-Identifier: GPL-2.0-or-later
//! The whole model: what all vCPUs share, and the vCPUs.

use crate::args::Args;
use crate::ffi as q;
use crate::shared::map_words;
use crate::stream::Publisher;
use crate::vcpu::{Pace, Vcpu};
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU64;
use weir_hw::Bytes;
use weir_hw::counters::{AccessCounters, GroupRegion};
use weir_hw::ledger::Ledger;
use weir_hw::stream::Record;
use weir_hw::{CacheFilter, Device, Lookup, fills};

/// A slot that one thread writes: the vCPU's own.
struct Slot(UnsafeCell<Vcpu>);
// SAFETY: QEMU calls every callback of vCPU i on the thread of vCPU i; `start` runs while all vCPUs
// stand still.
unsafe impl Sync for Slot {}

/// Everything the callbacks need.
pub struct Model {
    ledger: Ledger<'static>,
    counters: AccessCounters<&'static [AtomicU64]>,
    bar: &'static [AtomicU64],
    publisher: Option<Publisher>,
    device: Device,
    cache: CacheFilter,
    pace: Pace,
    base_bytes: u64,
    size_bytes: u64,
    vcpus: Vec<Slot>,
    scoreboard: *mut q::Scoreboard,
}
// SAFETY: the scoreboard pointer is only used through QEMU's functions, which may be called from any
// vCPU thread.
unsafe impl Send for Model {}
// SAFETY: see above and `Slot`.
unsafe impl Sync for Model {}

impl Model {
    /// Map the shared files and build the models.
    pub fn new(args: &Args, vcpu_count: usize) -> Result<Self, String> {
        let ledger = Ledger::open(map_words(&args.ledger)?)
            .ok_or_else(|| format!("{} is not a ledger of this version", args.ledger))?;
        let shape = ledger.shape();
        let size_bytes: u64 = args.group_sizes_bytes.iter().sum();
        if shape.group_count != args.group_sizes_bytes.len()
            || shape.vcpu_count < vcpu_count
            || shape.memory_bytes < size_bytes
        {
            return Err(format!(
                "{}: made for another machine: {shape:?}",
                args.ledger
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
        let publisher = match &args.stream {
            Some(path) => Some(Publisher::open(path, vcpu_count)?),
            None => None,
        };
        // Clocks lie between `max_lag` behind and `slack` ahead of the wall, stalls come on top.
        let horizon_ns = 4 * args.max_lag_ns + args.slack_ns;
        // SAFETY: plain allocation by QEMU, of one u64 per vCPU.
        let scoreboard = unsafe { q::qemu_plugin_scoreboard_new(8) };
        Ok(Model {
            ledger,
            counters,
            bar,
            publisher,
            device: Device::new(args.profile, horizon_ns),
            cache: CacheFilter::new(args.cache_lines),
            pace: Pace {
                instruction_ps: args.instruction_ps,
                slack_ns: args.slack_ns,
                max_lag_ns: args.max_lag_ns,
            },
            base_bytes: args.base_bytes,
            size_bytes,
            vcpus: (0..vcpu_count)
                .map(|_| Slot(UnsafeCell::new(Vcpu::new(args.window_lines))))
                .collect(),
            scoreboard,
        })
    }

    /// The books.
    pub fn ledger(&self) -> &Ledger<'static> {
        &self.ledger
    }

    /// The scoreboard cell that counts instructions since the last look at the wall.
    pub fn quantum_entry(&self) -> q::Cell {
        q::Cell {
            score: self.scoreboard,
            offset: 0,
        }
    }

    /// Instructions that take half the slack: the wall is looked at that often.
    pub fn quantum_instructions(&self) -> u64 {
        (self.pace.slack_ns * 500 / self.pace.instruction_ps).max(1)
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

    /// vCPU `index` changes its address translation.
    pub fn flush_tlb(&self, index: usize) {
        if let Some(vcpu) = self.vcpu(index) {
            vcpu.tlb.flush();
        }
    }

    /// All vCPUs stand still and the model begins.
    pub fn start(&self) {
        for (index, slot) in self.vcpus.iter().enumerate() {
            // SAFETY: QEMU runs this with every vCPU stopped.
            unsafe { (*slot.0.get()).restart() };
            self.set_quantum(index, 0);
        }
        self.cache.clear();
        self.ledger.set_running(true);
    }

    /// vCPU `index` comes out of HLT.
    pub fn resume(&self, index: usize) {
        if let Some(vcpu) = self.vcpu(index) {
            vcpu.resume();
        }
    }

    /// vCPU `index` has run a quantum.
    pub fn quantum(&self, index: usize) {
        let Some(vcpu) = self.vcpu(index) else { return };
        let quantum = self.get_quantum(index);
        self.set_quantum(index, 0);
        if self.ledger.is_on() {
            vcpu.sync(quantum, &self.pace);
            self.ledger.set_vcpu(index, vcpu.tally);
        } else {
            vcpu.restart();
        }
    }

    /// vCPU `index` touches device memory; if the access is awaited, it does nothing until it has the line.
    pub fn access(&self, index: usize, address: u64, is_store: bool, is_awaited: bool) {
        let Some(vcpu) = self.vcpu(index) else { return };
        let line = address / 64;
        // A load of the line touched just before changes nothing; a store may make it dirty.
        if vcpu.is_last_line(line) && !is_store || !self.ledger.is_on() {
            return;
        }
        vcpu.tally.accesses += 1;
        let Lookup::Miss { write_back_line } = self.cache.access(line, is_store) else {
            return;
        };
        fills::count(&self.bar, index, is_store);
        let quantum = self.get_quantum(index);
        let (latency, look_at_wall) = vcpu.read_line(&self.device, quantum, &self.pace, is_awaited);
        self.publish(index, line, false, latency);
        self.count(address, false, |group, owner| {
            self.ledger.count_read(group, owner, latency);
        });
        if let Some(dirty) = write_back_line {
            // Posted: it takes the device's time, not the core's.
            let clock = vcpu.clock_ns(quantum, &self.pace);
            let done = self.device.access(clock);
            self.publish(index, dirty, true, done - clock);
            self.count(dirty * 64, true, |group, owner| {
                self.ledger.count_write(group, owner)
            });
        }
        if look_at_wall {
            self.quantum(index);
        }
    }

    /// Before it is counted: so who is fed by the stream is never behind the counters that the guest sees.
    fn publish(&self, index: usize, line: u64, is_write: bool, latency: u64) {
        if let Some(publisher) = &self.publisher {
            let before = self.device.lines_before(latency);
            let record = Record {
                line,
                is_write,
                queue_fill: u8::try_from(before).unwrap_or(u8::MAX),
            };
            publisher.publish(index, record);
        }
    }

    fn count(&self, address: u64, is_write: bool, book: impl Fn(usize, u8)) {
        if let Some(group) = self.counters.count(address, is_write) {
            book(
                group as usize,
                self.ledger.owner_of(address - self.base_bytes),
            );
        }
    }

    #[allow(clippy::mut_from_ref)]
    fn vcpu(&self, index: usize) -> Option<&mut Vcpu> {
        // SAFETY: each vCPU's thread asks for its own slot only, one callback at a time.
        self.vcpus
            .get(index)
            .map(|slot| unsafe { &mut *slot.0.get() })
    }

    fn get_quantum(&self, index: usize) -> u64 {
        // SAFETY: see `quantum_cell`.
        unsafe { *self.quantum_cell(index) }
    }

    fn set_quantum(&self, index: usize, value: u64) {
        // SAFETY: see `quantum_cell`.
        unsafe { *self.quantum_cell(index) = value }
    }

    /// The cell of one vCPU: one u64, alive as long as the plugin, written by translated code on the
    /// vCPU's own thread only.
    fn quantum_cell(&self, index: usize) -> *mut u64 {
        // SAFETY: the scoreboard has an entry for every vCPU.
        unsafe { q::qemu_plugin_scoreboard_find(self.scoreboard, index as u32).cast() }
    }
}
