// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measurement on the running machine: a thread that measures (the calling one), threads that load, and
//! the device's own counters where it has some.

use super::placement::Placement;
use super::search::Point;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_bench::chase::BATCH_LOADS;
use weir_bench::{Buffer, LINE_BYTES, Loaders, Mix, Ring, Timing, cpu};
use weir_core::seam::observation::GroupReading;
use weir_linux::Traffic;

/// A point is known well enough.
const ERROR_WANTED: f64 = 0.01;
/// One part in so many of a point's time passes before it counts.
const SETTLE_PART: u64 = 8;
/// No point is shorter than this part of its time, however small its error: bandwidth needs time as well.
const LEAST_PART: u64 = 3;
const SEED: u64 = 1;

pub struct Measurement {
    ring: Ring,
    loaders: Loaders,
    traffic: Option<Traffic>,
    site: Placement,
    stop: Arc<AtomicUsize>,
    batches: u64,
}

struct Mark {
    at_ns: u64,
    counted_bytes: Option<u64>,
    own_bytes: u64,
}

impl Measurement {
    /// Takes memory and starts threads, which stand still.
    ///
    /// # Errors
    /// Memory is not there, or a CPU.
    pub fn ready(
        site: &Placement,
        mix: Mix,
        traffic: Traffic,
        stop: Arc<AtomicUsize>,
    ) -> Result<Measurement> {
        cpu::pin(site.probe_cpu)?;
        let ring = ring(site.ring_bytes, site.node)?;
        let bytes = usize::try_from(site.thread_bytes)?;
        Ok(Measurement {
            loaders: Loaders::start(&site.load_cpus, bytes, site.node, mix)?,
            traffic: traffic.is_counted().then_some(traffic),
            ring,
            site: site.clone(),
            stop,
            batches: 0,
        })
    }

    /// Whether a signal has come that ends it.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
    }

    pub fn is_counted(&self) -> bool {
        self.traffic.is_some()
    }

    /// Measures with this delay of the threads, or with all of them standing still, for at most `span_ns`;
    /// nothing if it was stopped before anything was known.
    ///
    /// # Errors
    /// The counters cannot be read any more.
    pub fn measure(&mut self, delay: Option<u64>, span_ns: u64) -> Result<Option<Point>> {
        self.loaders.set_delay(delay);
        let settled = cpu::now_ns() + span_ns / SETTLE_PART;
        while cpu::now_ns() < settled && !self.is_stopped() {
            self.batch();
        }
        let start = self.mark()?;
        let mut timings = Vec::new();
        let latency = loop {
            timings.push(self.batch());
            let passed = cpu::now_ns() - start.at_ns;
            let is_over = passed >= span_ns || self.is_stopped();
            if !is_over && (passed < span_ns / LEAST_PART || !timings.len().is_multiple_of(16)) {
                continue;
            }
            let latency = Timing::of(&timings);
            let is_known = latency.is_some_and(|l| l.error_ratio <= ERROR_WANTED);
            if is_known || self.is_stopped() || is_over && latency.is_some() {
                break latency;
            }
        };
        let end = self.mark()?;
        Ok(latency.map(|latency| Point {
            delay,
            bytes_per_sec: rate(&start, &end),
            latency,
        }))
    }

    /// Bandwidth of others while our threads are idle; nothing without counters.
    ///
    /// # Errors
    /// The counters cannot be read any more.
    pub fn others(&mut self, span_ns: u64) -> Result<Option<f64>> {
        if self.traffic.is_none() {
            return Ok(None);
        }
        self.loaders.set_delay(None);
        // A thread ends its chunk first; a tenth of the time is plenty.
        self.sleep(span_ns / 10);
        let start = self.mark()?;
        self.sleep(span_ns);
        let end = self.mark()?;
        Ok(Some(rate(&start, &end)))
    }

    fn sleep(&self, span_ns: u64) {
        let end = cpu::now_ns() + span_ns;
        while cpu::now_ns() < end && !self.is_stopped() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    fn batch(&mut self) -> f64 {
        self.batches += 1;
        self.ring.batch_ns()
    }

    fn mark(&mut self) -> Result<Mark> {
        let device = self.site.device.id;
        let line = LINE_BYTES as u64;
        let own_bytes = self.loaders.moved_bytes() + self.batches * u64::from(BATCH_LOADS) * line;
        let mut mark = Mark {
            at_ns: cpu::now_ns(),
            counted_bytes: None,
            own_bytes,
        };
        let Some(traffic) = &mut self.traffic else {
            return Ok(mark);
        };
        let groups = traffic.read();
        let mut sum = 0_u64;
        for group in groups.iter().filter(|g| g.id.device == device) {
            let (bytes, at_ns) = group_bytes(group)?;
            sum = sum.wrapping_add(bytes);
            mark.at_ns = at_ns;
        }
        mark.counted_bytes = Some(sum);
        Ok(mark)
    }
}

/// Bytes of a group, and when they were read.
fn group_bytes(group: &GroupReading) -> Result<(u64, u64)> {
    let one = |reading: &weir_core::Reading<weir_core::Bytes>| {
        let value = reading.value.clone();
        value.map_err(|why| anyhow::anyhow!("{}: its counters: {why}", group.id))
    };
    let (read, written) = (one(&group.read_bytes)?, one(&group.write_bytes)?);
    Ok((read.0.wrapping_add(written.0), group.read_bytes.at.0))
}

/// Bytes per second between two marks: as counted, or else by the threads' own accesses.
fn rate(start: &Mark, end: &Mark) -> f64 {
    let bytes = match (start.counted_bytes, end.counted_bytes) {
        (Some(a), Some(b)) => b.wrapping_sub(a),
        _ => end.own_bytes.saturating_sub(start.own_bytes),
    };
    bytes as f64 * 1e9 / end.at_ns.saturating_sub(start.at_ns).max(1) as f64
}

fn ring(bytes: u64, node: u32) -> Result<Ring> {
    let buffer = Buffer::on_node(usize::try_from(bytes)?, node)?;
    Ok(Ring::new(buffer, SEED))
}

/// Latency of a node without any load, for comparison.
///
/// # Errors
/// There is no memory.
pub fn idle_latency(bytes: u64, node: u32, cpu: u32, span_ns: u64) -> Result<Timing> {
    cpu::pin(cpu)?;
    let mut ring = ring(bytes, node)?;
    let (mut timings, end) = (Vec::new(), cpu::now_ns() + span_ns);
    while cpu::now_ns() < end || timings.len() < weir_bench::stats::BATCHES_MIN {
        timings.push(ring.batch_ns());
    }
    Timing::of(&timings).context("too few timings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_bytes_come_before_requested_bytes() {
        let mark = |at_ns, counted_bytes, own_bytes| Mark {
            at_ns,
            counted_bytes,
            own_bytes,
        };
        let (a, b) = (
            mark(0, Some(u64::MAX - 99), 0),
            mark(1_000_000_000, Some(100), 7),
        );
        assert_eq!(rate(&a, &b), 200.0, "over the end of 64 bits");
        assert_eq!(rate(&mark(0, None, 10), &mark(500_000_000, None, 20)), 20.0);
        assert_eq!(rate(&b, &b), 0.0);
    }
}
