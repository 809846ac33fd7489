// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of a machine's parts in picoseconds, the clock of the model. Latencies that people measure contain
//! the way there; here it is taken off.

use crate::machine::{CxlFigures, Machine};
use weir_hw::memory_device::Profile;

pub(crate) fn picos(ns: f64) -> u64 {
    (ns * 1000.0).round().max(0.0) as u64
}

/// Times of all parts, picoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Timings {
    pub cycle: u64,
    pub l1: u64,
    pub l2: u64,
    pub hop: u64,
    pub other_cluster: u64,
    pub lookup: u64,
    /// A line on the bus of a DRAM channel.
    pub dram_line: u64,
    /// From the channel to the CHA.
    pub dram_access: u64,
    pub turnaround: u64,
    pub upi_line: u64,
    /// The way to the other socket, its DRAM included.
    pub upi_out: u64,
    /// Saved of it by a hit in its caches.
    pub upi_saved: u64,
    /// The way to the other socket and back without memory.
    pub upi_way: u64,
    pub device: Vec<DeviceTimings>,
}

/// Times of a port and its device, picoseconds.
#[derive(Clone, Debug)]
pub(crate) struct DeviceTimings {
    pub flight: u64,
    pub header: u64,
    /// Data in the direction from the device: the profile's bound, if it is slower than the link.
    pub up_data: u64,
    /// Data in the direction to the device.
    pub down_data: u64,
    /// What the idle device takes.
    pub constant: u64,
    /// A core's idle latency, nanoseconds; spread and stalls are in proportion to it.
    pub idle_ns: f64,
    pub resend: u64,
}

/// A latency without a part of it, or its key if nothing is left.
fn left(key: &str, whole_ns: f64, part_ns: f64) -> Result<f64, (String, String)> {
    let left_ns = whole_ns - part_ns;
    let is_some = left_ns > 0.0;
    is_some
        .then_some(left_ns)
        .ok_or((key.to_owned(), whole_ns.to_string()))
}

impl DeviceTimings {
    /// Times of device `number`; before its port a request takes `way_ns`.
    fn of(number: usize, figures: &CxlFigures, way_ns: f64) -> Result<Self, (String, String)> {
        let Ok(profile) = Profile::named(&figures.profile) else {
            return Err((format!("device[{number}].profile"), figures.profile.clone()));
        };
        let link_ns = |bytes: u32| f64::from(bytes) * 1e9 / figures.link_bytes_per_sec;
        let bound_ns = |rate: Option<f64>| rate.map_or(0.0, |rate| 64e9 / rate);
        let (header_ns, data_ns) = (link_ns(figures.header_bytes), link_ns(figures.data_bytes));
        let up_ns = data_ns.max(bound_ns(profile.device.read_bytes_per_sec));
        let down_ns = data_ns.max(bound_ns(profile.device.write_bytes_per_sec));
        let on_link_ns = header_ns + up_ns;
        let idle_ns = figures.idle_ns.unwrap_or(profile.device.idle_ns);
        // A device of the other socket: the idle latency is that socket's own.
        let key = format!("device[{number}].idle_ns");
        let part_ns = way_ns + on_link_ns + 2.0 * figures.flight_ns;
        let mut constant_ns = left(&key, idle_ns, part_ns)? + figures.slower_by_ns;
        let is_idle = figures.is_always_idle;
        if is_idle {
            constant_ns += on_link_ns;
        }
        let busy = |ns: f64| if is_idle { 0 } else { picos(ns) };
        Ok(DeviceTimings {
            flight: picos(figures.flight_ns),
            header: busy(header_ns),
            up_data: busy(up_ns),
            down_data: busy(down_ns),
            constant: picos(constant_ns),
            idle_ns,
            resend: picos(figures.resend_ns),
        })
    }
}

impl Timings {
    /// Times of a machine whose figures are in range; otherwise the key of an idle latency that is too short.
    pub fn of(machine: &Machine) -> Result<Timings, (String, String)> {
        let cycle_ns = 1.0 / machine.cores.ghz;
        let l2_ns = f64::from(machine.l2.latency_cycles) * cycle_ns;
        let way_ns = l2_ns + 2.0 * machine.mesh.hop_ns + machine.cha.lookup_ns;
        let line_ns = 64e9 * f64::from(machine.dram.channels) / machine.dram.bytes_per_sec;
        let access_ns = left(
            "dram.load_to_use_ns",
            machine.dram.load_to_use_ns,
            way_ns + line_ns,
        )?;
        let (mut upi_line_ns, mut upi_out_ns, mut upi_way_ns, mut saved_ns) = (0.0, 0.0, 0.0, 0.0);
        if let Some(remote) = &machine.remote {
            upi_line_ns = 64e9 / remote.bytes_per_sec;
            let key = "remote.load_to_use_ns";
            upi_out_ns = left(key, remote.load_to_use_ns, way_ns + upi_line_ns)?;
            // What it takes more than the own DRAM is the way.
            upi_way_ns = left(key, remote.load_to_use_ns, machine.dram.load_to_use_ns)?;
            saved_ns = remote
                .cache_saves_ns
                .min(upi_out_ns - 0.5 * upi_way_ns)
                .max(0.0);
        }
        let mut device = Vec::new();
        for (number, figures) in machine.device.iter().enumerate() {
            device.push(DeviceTimings::of(number, figures, way_ns)?);
        }
        Ok(Timings {
            cycle: picos(cycle_ns),
            l1: picos(f64::from(machine.l1d.latency_cycles) * cycle_ns),
            l2: picos(l2_ns),
            hop: picos(machine.mesh.hop_ns),
            other_cluster: picos(machine.mesh.other_cluster_ns),
            lookup: picos(machine.cha.lookup_ns),
            dram_line: picos(line_ns),
            dram_access: picos(access_ns),
            turnaround: picos(machine.dram.turnaround_ns),
            upi_line: picos(upi_line_ns),
            upi_out: picos(upi_out_ns),
            upi_saved: picos(saved_ns),
            upi_way: picos(upi_way_ns),
            device,
        })
    }
}
