// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measured curves (`data/loaded-latency-asic-cxl.csv`), and how far a profile is from them.

use weir_hw::memory_device::LoadedDevice;
use weir_hw::memory_device::Profile;
use weir_hw::memory_device::mlc_sweep::{self, LoadMix};

const DATA: &str = include_str!("../../data/loaded-latency-asic-cxl.csv");
/// Runs that no figure of a profile was taken from.
const HELD_OUT: &str = include_str!("../../data/loaded-latency-asic-cxl-held-out.csv");

/// Part of a curve's peak below which latency at the measured bandwidth is compared; above it, bandwidth
/// hardly moves while latency does, and saturation is compared instead.
pub const COMPARED_BELOW: f64 = 0.97;

#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub delay: u32,
    pub latency_ns: f64,
    pub bytes_per_sec: f64,
}

/// One run of MLC: the same device, threads and mix, all delays.
#[derive(Clone, Debug)]
pub struct Curve {
    pub device: String,
    pub threads: u32,
    pub mix: LoadMix,
    /// Where the file has two runs of the same, 0 and 1 in its order.
    pub run: usize,
    pub rows: Vec<Row>,
}

impl Curve {
    pub fn name(&self) -> String {
        let run = ["a", "b"][self.run.min(1)];
        format!(
            "{} {} threads {} run {run}",
            self.device,
            self.threads,
            self.mix.name()
        )
    }

    pub fn peak(&self) -> f64 {
        self.rows
            .iter()
            .map(|row| row.bytes_per_sec)
            .fold(0.0, f64::max)
    }

    pub fn profile_name(&self) -> &'static str {
        if self.device == "cxl" {
            "asic-x16"
        } else {
            "ddr5-2ch"
        }
    }

    /// Rows with a compared latency.
    pub fn compared_rows(&self) -> impl Iterator<Item = &Row> {
        let limit = COMPARED_BELOW * self.peak();
        self.rows
            .iter()
            .filter(move |row| row.bytes_per_sec < limit)
    }

    /// Bandwidth of one loading thread, without the probe.
    pub fn per_thread(&self, row: &Row, threads: f64) -> f64 {
        (row.bytes_per_sec - 64e9 / row.latency_ns).max(0.0) / threads
    }
}

fn mix_of(workload: &str) -> LoadMix {
    match workload {
        "0" => LoadMix::Reads,
        "2" => LoadMix::TwoToOne,
        "3" => LoadMix::ThreeToOne,
        "5" => LoadMix::OneToOne,
        "6" => LoadMix::NtWrites,
        other => panic!("workload {other} is not in the file's description"),
    }
}

/// All curves that profiles are fitted to, in the order of the file.
pub fn curves() -> Vec<Curve> {
    of_file(DATA)
}

/// Curves at thread counts that no profile is fitted to: 2, 8 and 32. All of their threads load.
pub fn held_out() -> Vec<Curve> {
    of_file(HELD_OUT)
}

fn of_file(data: &str) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for line in data.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |n: usize| fields[n].parse::<f64>().expect("a number");
        let (threads, mix, delay) = (number(1) as u32, mix_of(fields[2]), number(4) as u32);
        let row = Row {
            delay,
            latency_ns: number(5),
            bytes_per_sec: number(6) * 1e6,
        };
        let same = |c: &&mut Curve| c.device == fields[0] && c.threads == threads && c.mix == mix;
        let seen = |c: &Curve| c.rows.iter().any(|r| r.delay == delay);
        let runs = curves.iter_mut().filter(same).count();
        match curves.iter_mut().filter(same).find(|c| !seen(c)) {
            Some(curve) => curve.rows.push(row),
            None => curves.push(Curve {
                device: fields[0].to_owned(),
                threads,
                mix,
                run: runs,
                rows: vec![row],
            }),
        }
    }
    curves
}

/// How many threads really loaded the device: where two runs are called the same, one may show
/// fewer loaders at the same delay. Median over the lightly loaded rows, against the same mix on
/// four threads, which agree between both devices and both runs.
pub fn active_threads(curve: &Curve, all: &[Curve]) -> f64 {
    let four = all
        .iter()
        .find(|c| c.device == curve.device && c.mix == curve.mix && c.threads == 4);
    let four = four.expect("four threads were measured for each mix");
    let mut ratios: Vec<f64> = (curve.rows.iter().zip(&four.rows))
        .filter(|(row, _)| (700..=5000).contains(&row.delay))
        .map(|(row, other)| curve.per_thread(row, 1.0) / four.per_thread(other, 4.0))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    let all_loaded = f64::from(curve.threads);
    // 46 threads on 23 cores are slower for another reason: they share cores (`smt_pace`).
    if curve.threads > 23 || median > 0.9 * all_loaded {
        all_loaded
    } else {
        median
    }
}

/// Errors of a profile on one curve; parts, not percent.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub curve: String,
    pub active_threads: f64,
    /// Latency at the measured bandwidth, below 97 % of the peak.
    pub mean: f64,
    pub worst: f64,
    pub worst_delay: u32,
    /// At delay 0: latency and bandwidth, signed.
    pub saturation_latency: f64,
    pub saturation_bandwidth: f64,
    /// Per delay, all rows: mean and worst, latency and bandwidth.
    pub delay_latency: [f64; 2],
    pub delay_bandwidth: [f64; 2],
}

fn mean_and_worst(errors: &[(f64, u32)]) -> (f64, f64, u32) {
    let mean = errors.iter().map(|e| e.0.abs()).sum::<f64>() / errors.len().max(1) as f64;
    let worst = errors.iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    worst.map_or((mean, 0.0, 0), |w| (mean, w.0, w.1))
}

pub fn assess(profile: &Profile, curve: &Curve, active_threads: f64) -> Verdict {
    let mut device = LoadedDevice::new(profile);
    let (ratio, stores) = (curve.mix.write_ratio(), curve.mix.is_non_temporal());
    let mut at_bandwidth = Vec::new();
    for row in curve.compared_rows() {
        let requesters = mlc_sweep::requesters(profile, active_threads, curve.mix, row.delay);
        let offered = device.offered(&requesters);
        let open = device.latency_at_ns(row.bytes_per_sec, ratio, stores, offered);
        let latency_ns = open.min(device.full_at_ns(&requesters, row.bytes_per_sec));
        let fullness = device.fullness(&requesters, row.bytes_per_sec, latency_ns);
        let factor = mlc_sweep::probe_factor(profile, active_threads, curve.mix, fullness);
        at_bandwidth.push((latency_ns * factor / row.latency_ns - 1.0, row.delay));
    }
    let delays: Vec<u32> = curve.rows.iter().map(|row| row.delay).collect();
    let points = mlc_sweep::curve(profile, active_threads, curve.mix, &delays);
    let of = |error: fn(&mlc_sweep::SweepPoint, &Row) -> f64| -> Vec<(f64, u32)> {
        let pairs = points.iter().zip(&curve.rows);
        pairs.map(|(p, r)| (error(p, r), r.delay)).collect()
    };
    let latency = of(|p, r| p.latency_ns / r.latency_ns - 1.0);
    let bandwidth = of(|p, r| p.bandwidth_bytes_per_sec / r.bytes_per_sec - 1.0);
    let (mean, worst, worst_delay) = mean_and_worst(&at_bandwidth);
    let (latency_mean, latency_worst, _) = mean_and_worst(&latency);
    let (bandwidth_mean, bandwidth_worst, _) = mean_and_worst(&bandwidth);
    Verdict {
        curve: curve.name(),
        active_threads,
        mean,
        worst,
        worst_delay,
        saturation_latency: latency[0].0,
        saturation_bandwidth: bandwidth[0].0,
        delay_latency: [latency_mean, latency_worst],
        delay_bandwidth: [bandwidth_mean, bandwidth_worst],
    }
}

impl Verdict {
    pub fn head() -> &'static str {
        "| curve | active threads | mean % | worst % (delay) | saturated latency % | saturated bandwidth % | per delay: latency mean, worst % | bandwidth mean, worst % |\n\
         |---|---|---|---|---|---|---|---|"
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let p = |part: f64| part * 100.0;
        write!(
            f,
            "| {} | {:.1} | {:.1} | {:+.1} ({}) | {:+.1} | {:+.1} | {:.1}, {:+.1} | {:.1}, {:+.1} |",
            self.curve,
            self.active_threads,
            p(self.mean),
            p(self.worst),
            self.worst_delay,
            p(self.saturation_latency),
            p(self.saturation_bandwidth),
            p(self.delay_latency[0]),
            p(self.delay_latency[1]),
            p(self.delay_bandwidth[0]),
            p(self.delay_bandwidth[1]),
        )
    }
}
