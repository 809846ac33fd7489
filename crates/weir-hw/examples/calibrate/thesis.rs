// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The FPGA device of the CXL bandwidth-control thesis, of which only single figures are published:
//! which of them the profile was made to meet, and what the others come out as.

use weir_description::DescriptionError;
use weir_hw::memory_device::Profile;
use weir_hw::memory_device::{Equilibrium, LoadedDevice, Requester};

pub const GIB: f64 = 1_073_741_824.0;
/// Thesis 6.6, figure 18: CPU-seconds per GiB when the device is held at 4 GiB/s.
pub const COST_HELD: f64 = 0.35;
/// Thesis table 2: bandwidth of five readers without limits, GiB/s.
pub const UNHELD_GIB: f64 = 8.04;

/// The model's results for the thesis' experiments.
pub struct Thesis {
    /// A fio reader's own time per line.
    pub busy_ns: f64,
    /// The burst with which five readers get [`UNHELD_GIB`].
    pub burst_ns: f64,
    pub five_gib: f64,
    pub five_cost: f64,
    pub ten_gib: f64,
    /// Time of a block of 4 MiB with ten readers.
    pub ten_block_ms: f64,
    pub knee_mib: f64,
}

fn readers(cores: f64, busy_ns: f64) -> Requester {
    Requester {
        cores,
        window_lines: 38.0,
        busy_ns,
        ..Requester::default()
    }
}

fn with_burst(profile: &Profile, burst_ns: f64) -> LoadedDevice {
    let mut changed = profile.clone();
    changed
        .mix
        .iter_mut()
        .for_each(|mix| mix.burst_ns = burst_ns);
    LoadedDevice::new(&changed)
}

fn bytes_per_sec(device: &mut LoadedDevice, requester: Requester) -> f64 {
    let mut out = Equilibrium::default();
    device.solve(&[requester], &mut out);
    out.bytes_per_sec()
}

/// The own time with which a core at 4 GiB/s needs [`COST_HELD`]. Cores and own time are not both
/// free: `COST_HELD · 4` cores run on average.
fn busy_at_hold(device: &mut LoadedDevice) -> f64 {
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if bytes_per_sec(device, readers(COST_HELD * 4.0, middle)) > 4.0 * GIB {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Solves for the two unknowns and says what follows.
pub fn thesis(profile: &Profile) -> Thesis {
    let (mut low, mut high) = (1.0, 5000.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let mut device = with_burst(profile, middle);
        let busy_ns = busy_at_hold(&mut device);
        if bytes_per_sec(&mut device, readers(5.0, busy_ns)) > UNHELD_GIB * GIB {
            low = middle;
        } else {
            high = middle;
        }
    }
    of_burst(profile, 0.5 * (low + high))
}

pub fn of_burst(profile: &Profile, burst_ns: f64) -> Thesis {
    let mut device = with_burst(profile, burst_ns);
    let busy_ns = busy_at_hold(&mut device);
    let five_gib = bytes_per_sec(&mut device, readers(5.0, busy_ns)) / GIB;
    let ten_gib = bytes_per_sec(&mut device, readers(10.0, busy_ns)) / GIB;
    Thesis {
        busy_ns,
        burst_ns,
        five_gib,
        five_cost: 5.0 / five_gib,
        ten_gib,
        ten_block_ms: 10.0 * 4.0 / 1024.0 / ten_gib * 1e3,
        knee_mib: device.knee_bytes_per_sec(0.0, false) / 1_048_576.0,
    }
}

pub fn report() -> Result<(), DescriptionError> {
    let profile = Profile::named("agilex-thesis")?;
    let fitted = thesis(&profile);
    println!("\n### `agilex-thesis`\n");
    println!(
        "burst {:.1} ns meets the two figures that were fitted.\n",
        fitted.burst_ns
    );
    let t = of_burst(&profile, profile.mix[0].burst_ns);
    println!("| figure | thesis | model |\n|---|---|---|");
    println!(
        "| five readers, unthrottled, GiB/s | 8.04 (fitted) | {:.2} |",
        t.five_gib
    );
    println!("| CPU-s per GiB held at 4 GiB/s | 0.35 (fitted) | {COST_HELD} |");
    println!(
        "| CPU-s per GiB unthrottled | about 0.6 | {:.2} |",
        t.five_cost
    );
    println!(
        "| own time of a reader, ns per line | – | {:.1} |",
        t.busy_ns
    );
    println!("| ten readers, GiB/s | about 10 | {:.2} |", t.ten_gib);
    println!(
        "| block of 4 MiB, ten readers, ms | 9.0 mean, 5.07 lower quartile | {:.2} |",
        t.ten_block_ms
    );
    println!("| knee, MiB/s | about 5000 | {:.0} |", t.knee_mib);
    Ok(())
}
