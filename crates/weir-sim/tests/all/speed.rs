// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The speed of all CPUs as a source of noise, other readings of the thesis's text, and what a run reports of
//! blocks, loops and estimates.

use weir_core::units::GIB;
use weir_sim::{ControllerKind, LimitRule, RunMetrics, Scenario, ScxReading, ScxVariant, run};

const LIMIT: &str = include_str!("../../../../scenarios/sim/thesis-limit.toml");

fn limit(machine: &str) -> Scenario {
    let text = LIMIT.replacen("[[device]]", &format!("{machine}\n[[device]]"), 1);
    Scenario::parse(&text, "test").unwrap_or_else(|e| panic!("{e}"))
}

fn varied(spread: f64, hold_ms: f64) -> Scenario {
    limit(&format!(
        "[machine]\nspeed_spread_ratio = {spread:?}\nspeed_hold_ms = {hold_ms:?}\n"
    ))
}

fn made(scenario: &Scenario, variant: &ControllerKind) -> RunMetrics {
    run(scenario, variant, 1).expect("a run")
}

const ROUND_ROBIN: ControllerKind = ControllerKind::Scx(ScxVariant::RoundRobin);

#[test]
fn a_spread_of_nothing_changes_nothing() {
    let constant = made(&limit(""), &ROUND_ROBIN);
    assert_eq!(constant, made(&varied(0.0, 50.0), &ROUND_ROBIN));
    let varying = made(&varied(0.3, 50.0), &ROUND_ROBIN);
    assert_eq!(varying, made(&varied(0.3, 50.0), &ROUND_ROBIN));
    assert_ne!(constant.series, varying.series);
}

/// Computing takes as much longer as the speed is lower, so that the mean work is that of the mean speed: 1.
#[test]
fn the_mean_speed_is_one() {
    let spinners = r#"
name = "spin"
about = "four that compute on four CPUs"
[machine]
cores = 4
threads_per_core = 1
speed_spread_ratio = 0.5
speed_hold_ms = 5.0
[[device]]
profile = "agilex-thesis"
[control]
set_point_bytes_per_sec = 1073741824.0
settle_sec = 1.0
measure_sec = 60.0
[[workload]]
name = "spin"
count = 4
role = "beside"
ops_per_cpu_sec = 1000.0
[[workload.phase]]
kind = "compute"
"#;
    let constant = spinners.replace("speed_spread_ratio = 0.5", "speed_spread_ratio = 0.0");
    let ops = |text: &str| {
        let scenario = Scenario::parse(text, "test").unwrap_or_else(|e| panic!("{e}"));
        made(&scenario, &ControllerKind::None)
            .throughput_ops_per_sec
            .expect("work")
    };
    let (varying, constant) = (ops(spinners), ops(&constant));
    assert!((constant / 4000.0 - 1.0).abs() < 1e-6, "{constant}");
    // 12 000 draws of a standard deviation of 0.29: 3 % is eleven standard errors.
    assert!((varying / constant - 1.0).abs() < 0.03, "{varying}");
    assert!(
        (varying / constant - 1.0).abs() > 1e-6,
        "the speed has varied"
    );
}

/// An error that a scheduler does not correct follows the speed; a loop follows slow changes and takes them
/// out.
#[test]
fn noise_reaches_what_nothing_holds() {
    let spread = |scenario: &Scenario, variant: &ControllerKind| {
        let runs = (1..=2).map(|seed| run(scenario, variant, seed).expect("a run"));
        runs.map(|m| m.bandwidth.stddev_bytes_per_sec / GIB)
            .sum::<f64>()
            / 2.0
    };
    let simple = ControllerKind::Cgroups {
        is_individual: false,
    };
    let (quiet, noisy) = (limit(""), varied(0.32, 5000.0));
    let [scx, loops] =
        [&ROUND_ROBIN, &simple].map(|variant| spread(&noisy, variant) - spread(&quiet, variant));
    assert!(scx > 0.1, "{scx}");
    assert!(loops < scx, "{loops} {scx}");
}

#[test]
fn speeds_that_cannot_be_are_refused() {
    for (key, value) in [
        ("speed_spread_ratio", "1.0"),
        ("speed_spread_ratio", "-0.1"),
        ("speed_spread_ratio", "nan"),
        ("speed_hold_ms", "0.0"),
    ] {
        let text = LIMIT.replacen(
            "[[device]]",
            &format!("[machine]\n{key} = {value}\n[[device]]"),
            1,
        );
        let said = Scenario::parse(&text, "test").expect_err(value).to_string();
        assert!(said.contains(key) && said.contains("allowed"), "{said}");
    }
}

/// By the thesis's equation 4 an overload that slices cannot end drives limits to their floor; limits
/// computed from the used CPU time go on changing.
#[test]
fn another_reading_of_the_text_is_another_scheduler() {
    let reading = |limit_rule| {
        ControllerKind::ScxRead(
            ScxVariant::Vtime,
            ScxReading {
                limit_rule,
                ..ScxReading::default()
            },
        )
    };
    let scenario = limit("");
    let usual = made(&scenario, &ControllerKind::Scx(ScxVariant::Vtime));
    assert_eq!(usual, made(&scenario, &reading(LimitRule::OfLastLimit)));
    let limits = |m: &RunMetrics| -> Vec<f64> {
        let reader = m
            .workloads
            .iter()
            .find(|w| w.name == "fio-1")
            .expect("fio-1");
        reader.limit_cpus[200..].to_vec()
    };
    assert!(limits(&usual).iter().all(|l| *l < 0.011), "at the floor");
    let used = limits(&made(&scenario, &reading(LimitRule::OfUsage)));
    let changes = used
        .windows(2)
        .filter(|pair| (pair[0] - pair[1]).abs() > 0.05);
    assert!(changes.count() > used.len() / 4, "{used:?}");
    let free = limits(&made(&scenario, &reading(LimitRule::OfNothing)));
    assert!(free.iter().all(|l| *l > 0.3), "no product of limits");
}

#[test]
fn blocks_calls_and_writes_are_reported() {
    let scenario = limit("");
    let m = made(&scenario, &ROUND_ROBIN);
    let measured = &m.block_series[200..];
    let count: u64 = measured.iter().map(|b| b.count).sum();
    assert!(
        (count as f64 / m.limited_blocks.count() - 1.0).abs() < 0.01,
        "{count}"
    );
    let longest = measured.iter().map(|b| b.longest_ns).max().unwrap_or(0);
    let mean = measured.iter().map(|b| b.sum_ns).sum::<f64>() / count as f64;
    let reported = m.limited_readers.mean_ns.expect("blocks");
    assert!(
        longest as f64 > mean && (mean / reported - 1.0).abs() < 0.05,
        "{mean} {reported}"
    );
    // Counters are read once a millisecond at most.
    let calls = m.scheduler_calls.expect("a scheduler of BPF");
    let reads = calls.counter_reads as f64;
    assert!(calls.enqueues as f64 > reads && reads <= m.simulated_sec * 1e3 + 1.0);
    assert_eq!((m.written_bytes_per_sec, m.loop_ms.len()), (0.0, 0));
    let writes = include_str!("../../../../scenarios/sim/thesis-writes.toml");
    let writes = Scenario::parse(writes, "test").unwrap_or_else(|e| panic!("{e}"));
    let m = made(&writes, &ControllerKind::None);
    let part = m.written_bytes_per_sec / m.bandwidth.mean_bytes_per_sec;
    assert!(
        (part - 0.5).abs() < 1e-6 && m.scheduler_calls.is_none(),
        "{part}"
    );
}

#[test]
fn the_loop_tells_how_long_it_took_and_what_it_estimated() {
    let text = include_str!("../../../../scenarios/sim/thesis-estimate.toml");
    let scenario = Scenario::parse(text, "test").unwrap_or_else(|e| panic!("{e}"));
    let m = made(&scenario, &ControllerKind::Monitor);
    // One iteration each 150 ms; none is shorter than the 30.8 ms of thesis 6.8.2.
    let wanted = m.simulated_sec / 0.150;
    assert!((m.loop_ms.len() as f64 - wanted).abs() < 2.0, "{wanted}");
    assert!(m.loop_ms.iter().all(|ms| *ms >= 30.7), "{:?}", m.loop_ms);
    assert_eq!(m.estimates.len(), 2 * m.loop_ms.len());
    let late = m.estimates.iter().filter(|e| e.at_ms > 5e3);
    for e in late {
        // Samples are 200 times too low, counters put that right.
        let ratio = e.combined_bytes_per_sec / e.sampled_bytes_per_sec;
        assert!((100.0..400.0).contains(&ratio), "{e:?}");
    }
    let limiting = ControllerKind::Cgroups {
        is_individual: true,
    };
    assert!(made(&scenario, &limiting).estimates.is_empty());
}
