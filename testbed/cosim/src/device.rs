// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device: one thread owns the block and does everything that moves its clocks.
//!
//! ```text
//!  device model ── access trace ──►┐
//!                             ├─► Device::serve ── taps, bus ──► block
//!  guest ── register access ─►┘        (one thread)
//! ```
//!
//! *Order.* Before a register is read or written, every access is counted that was in the trace when the
//! request was taken up. So a register shows all that a vCPU did before it read, and all that any vCPU
//! did before the guest could know of it.
//!
//! *Time.* The counters' clock has no pace: it runs as fast as accesses come, up to one read and one
//! write a channel and clock, and [`IDLE_CLOCKS`] a pause while none come. What registers say in clocks
//! is therefore no time of the guest; queue fill is that of the emulated device, as each access met it.

use crate::library::{Access, Block, Width};
use anyhow::{Context, Result, bail, ensure};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use weir_hw::access_counters::regmap;
use weir_ipc::CosimSummary;
use weir_ipc::access_trace::AccessTrace;

/// Accesses counted before requests are checked again.
const BATCH: usize = 4096;
/// Pause while there is nothing to do.
const PAUSE: Duration = Duration::from_millis(1);
/// Clocks that pass in it: a window of DevLoad as it is after reset.
const IDLE_CLOCKS: u64 = 256;

/// A register access of the guest.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub address: u32,
    pub width: Width,
    /// What to store; a load without.
    pub store: Option<u64>,
}

/// A request, and where its answer goes. A store is answered with 0.
pub type PendingRequest = (Request, Sender<u64>);

/// What firmware does to a device before its first use.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub group_count: u32,
    pub group_bytes: u64,
    /// Host-physical address of the first.
    pub base_bytes: u64,
    /// The register `devload_thresholds`.
    pub devload_thresholds: u64,
}

/// The block and what it is fed with.
pub struct Device<'a> {
    block: Block,
    trace: AccessTrace<'a>,
    batch: Vec<Access>,
    summary: CosimSummary,
}

impl<'a> Device<'a> {
    /// Bring a block up and set it up as firmware would.
    ///
    /// # Errors
    /// The block is not of this register map, or has other groups than the machine.
    pub fn new(mut block: Block, trace: AccessTrace<'a>, setup: &Setup) -> Result<Self> {
        come_up(&mut block)?;
        set_up(&mut block, setup)?;
        Ok(Device {
            block,
            trace,
            batch: Vec::with_capacity(BATCH),
            summary: CosimSummary::default(),
        })
    }

    /// Serves until all requesters are gone, or `stop` is set.
    ///
    /// # Errors
    /// Accesses were lost, the trace is broken, or the block does not answer: the counters are wrong from
    /// then on, so there is no device any more.
    pub fn serve(
        mut self,
        requests: &Receiver<PendingRequest>,
        stop: &AtomicBool,
    ) -> Result<CosimSummary> {
        while !stop.load(Ordering::Relaxed) {
            let took = self.take(BATCH)?;
            let pause = if took > 0 { Duration::ZERO } else { PAUSE };
            match requests.recv_timeout(pause) {
                Ok((request, to)) => {
                    let answer = self.answer(request)?;
                    // The requester may be gone.
                    let _ = to.send(answer);
                }
                Err(RecvTimeoutError::Timeout) if took > 0 => {}
                Err(RecvTimeoutError::Timeout) => self.block.idle(IDLE_CLOCKS),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.drain()?;
        self.summary.clocks = self.block.clocks();
        self.summary.waits = self.trace.waits();
        Ok(self.summary)
    }

    fn answer(&mut self, request: Request) -> Result<u64> {
        self.drain()?;
        let started = Instant::now();
        let Request { address, width, .. } = request;
        let answer = match request.store {
            Some(value) => self.block.store_at(address, width, value).map(|()| 0)?,
            None => self.block.load_at(address, width)?,
        };
        self.summary.register_accesses += 1;
        self.summary.registers_sec += started.elapsed().as_secs_f64();
        Ok(answer)
    }

    /// Count all that is in the trace now.
    fn drain(&mut self) -> Result<()> {
        for ring in 0..self.trace.layout().ring_count {
            let until = self.trace.pushed(ring);
            while self.trace.taken(ring) < until {
                self.take_from(ring, BATCH)?;
                self.count();
            }
        }
        self.complain_of_losses()
    }

    /// Count at most `most` accesses; returns how many.
    fn take(&mut self, most: usize) -> Result<usize> {
        let rings = self.trace.layout().ring_count;
        for ring in 0..rings {
            self.take_from(ring, (most / rings).max(1))?;
        }
        self.complain_of_losses()?;
        Ok(self.count())
    }

    fn take_from(&mut self, ring: usize, most: usize) -> Result<usize> {
        let batch = &mut self.batch;
        let took = self.trace.take(ring, most, |r| batch.push(Access::from(r)));
        took.context("the access trace is broken")
    }

    fn count(&mut self) -> usize {
        let count = self.batch.len();
        if count > 0 {
            let started = Instant::now();
            self.block.count(&self.batch);
            self.batch.clear();
            self.summary.accesses += count as u64;
            self.summary.counting_sec += started.elapsed().as_secs_f64();
        }
        count
    }

    fn complain_of_losses(&mut self) -> Result<()> {
        let lost = self.trace.lost();
        ensure!(
            lost == 0,
            "{lost} accesses were lost, so the counters are wrong: no device any more"
        );
        Ok(())
    }
}

fn narrow(block: &mut Block, register: u64) -> Result<u32> {
    Ok(block.load_at(offset(register)?, Width::Narrow)? as u32)
}

/// A register of the map; all lie in a BAR of 20 bits.
fn offset(register: u64) -> Result<u32> {
    u32::try_from(register).with_context(|| format!("no register at {register:#x}"))
}

/// Wait for the magic number, which a block shows once its counters are zero, and believe no other map.
fn come_up(block: &mut Block) -> Result<()> {
    let polls = 4 * regmap::GROUP_COUNT_MAX;
    let mut magic = 0;
    for _ in 0..polls {
        magic = narrow(block, regmap::MAGIC_REG)?;
        if magic == regmap::MAGIC_VALUE {
            break;
        }
    }
    if magic != regmap::MAGIC_VALUE {
        bail!("the block does not come up: its magic number is {magic:#x}");
    }
    let version = narrow(block, regmap::VERSION_REG)?;
    ensure!(
        version == regmap::VERSION_VALUE,
        "the block has version {version} of the register map, this program knows {}: build it again with rtl/build-model",
        regmap::VERSION_VALUE
    );
    Ok(())
}

fn set_up(block: &mut Block, setup: &Setup) -> Result<()> {
    let group_count = narrow(block, regmap::GROUP_COUNT_REG)?;
    let table = block.load_at(offset(regmap::GROUP_TABLE_OFFSET_BYTES_REG)?, Width::Wide)?;
    let size = table.saturating_add(regmap::GROUP_SIZE_BYTES_REG);
    let group_bytes = block.load_at(offset(size)?, Width::Wide)?;
    ensure!(
        group_count == setup.group_count && group_bytes == setup.group_bytes,
        "the block has {group_count} groups of {group_bytes} bytes, the machine {} of {}: \
         rtl/build-model GROUPS CHANNELS GROUP_BYTES_LOG2 builds another",
        setup.group_count,
        setup.group_bytes
    );
    let features = narrow(block, regmap::FEATURES_REG)?;
    ensure!(
        features & regmap::FEATURE_MAP != 0,
        "the block has no base register (features {features:#x})"
    );
    block.store_at(
        offset(regmap::HOST_BASE_BYTES_REG)?,
        Width::Wide,
        setup.base_bytes,
    )?;
    if features & regmap::FEATURE_DEVLOAD != 0 {
        block.store_at(
            offset(regmap::DEVLOAD_THRESHOLDS_REG)?,
            Width::Wide,
            setup.devload_thresholds,
        )?;
    }
    Ok(())
}
