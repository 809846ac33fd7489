// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.6 and 6.7: what reading costs, and what others gain.

use super::context::{Compared, EvalContext, command, number, of_run, picture, text};
use super::deviations;
use super::published_figures;
use anyhow::Result;
use weir::lab::batch::Batch;
use weir_figures::{Cell, CellKind, Part, Section, Table};
use weir_report::results::Run;
use weir_report::{Bar, Bars, bars};

const COST_TITLE: &str = "6.6 CPU cost";
const GAIN_TITLE: &str = "6.7 Throughput of others";
const AIMS_TITLE: &str = "weir's controller against its aims";
/// What "a few points" is taken for: five percentage points.
const POINTS: f64 = 0.05;

/// Lowest to highest, in percent.
fn spread(ratios: &[f64]) -> String {
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:+.1} to {:+.1} %", low * 1e2, high * 1e2).replace('-', "−")
}

/// Figure 18 of the thesis.
pub fn cost(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("thesis-limit")?;
    let mut rows = Vec::new();
    let mut drawn = Vec::new();
    let base = of_run(&batch, 0, |r| r.cpu_sec_per_gib).map(|b| b[1]);
    for (i, choice) in batch.choices.iter().enumerate() {
        let ours = of_run(&batch, i, |r| r.cpu_sec_per_gib);
        let printed =
            published_figures::find("figure 18", choice.name, "cpu_sec_per_gib").map(|p| p.value);
        let mut row = vec![Cell::words(&choice.label)];
        row.extend(context.beside(&batch, i, "figure 18", "cpu_sec_per_gib", 3));
        row.push(change(ours.map(|o| o[1]), base));
        rows.push(row);
        drawn.extend(bar(&choice.label, ours, printed, choice.name == "none"));
    }
    let table = Table::new(
        "Figure 18: CPU-seconds per GiB read",
        &["", "s/GiB", "thesis, about", "", "against none"],
        rows,
    );
    let picture_of = bars(&Bars {
        title: "Figure 18: CPU time that a GiB costs".into(),
        axis: "CPU-seconds per GiB".into(),
        printed: "thesis, about (read off its text); line: range of the seeds".into(),
        bars: drawn,
    });
    let change = |r: &Compared| Some(r.mean? / base? - 1.0);
    let compared = context.compared.iter();
    let controlled = compared.filter(|c| c.printed_in == "figure 18" && c.backend != "none");
    let changes: Vec<f64> = controlled.filter_map(change).collect();
    context.show(
        COST_TITLE,
        "thesis's controllers: CPU time per GiB",
        "−40 % within 5 points",
        spread(&changes),
        !changes.is_empty() && changes.iter().all(|c| (c + 0.4).abs() <= POINTS),
    );
    let mut parts = vec![
        text(
            "CPU time of the readers ÷ what they read, stalls included. The thesis: about 0.6 without control, about 0.35 with, 40 % less.",
        ),
        Part::Table(table),
    ];
    parts.extend(deviations::of(context, "figure 18"));
    parts.extend([
        picture(picture_of),
        command("weir sim thesis-limit --backend all --seeds 3"),
    ]);
    Ok(Section::new("cost", COST_TITLE, parts))
}

/// Figure 19 of the thesis.
pub fn throughput(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("thesis-limit")?;
    let base = of_run(&batch, 0, |r| r.throughput_ops_per_sec).map(|b| b[1]);
    let mut rows = Vec::new();
    let mut drawn = Vec::new();
    let gains: Vec<f64> = (0..batch.choices.len())
        .filter(|i| batch.choices[*i].name.starts_with("thesis"))
        .filter_map(|i| Some(of_run(&batch, i, |r| r.throughput_ops_per_sec)?[1] / base? - 1.0))
        .collect();
    let near = !gains.is_empty()
        && gains
            .iter()
            .all(|g| (0.045 - POINTS..=0.067 + POINTS).contains(g));
    context.show(
        GAIN_TITLE,
        "thesis's controllers: work beside",
        "+4.5 to +6.7 % within 5 points",
        spread(&gains),
        near,
    );
    for (i, choice) in batch.choices.iter().enumerate() {
        let ours = of_run(&batch, i, |r| r.throughput_ops_per_sec);
        let printed = published_figures::find("figure 19", choice.name, "throughput_gain_percent");
        let mut row = vec![Cell::words(&choice.label), number(ours.map(|o| o[1]), 0)];
        row.extend(context.beside(&batch, i, "figure 19", "throughput_gain_percent", 1));
        rows.push(row);
        let at = printed.and_then(|p| Some(base? * (1.0 + p.value / 1e2)));
        drawn.extend(bar(&choice.label, ours, at, choice.name == "none"));
    }
    let table = Table::new(
        "Figure 19: operations per second of the work beside",
        &["", "ops/s", "gain, %", "thesis", ""],
        rows,
    );
    let picture_of = bars(&Bars {
        title: "Figure 19: what others get done".into(),
        axis: "operations per second".into(),
        printed: "the gain that the thesis prints, on our base; line: range of the seeds".into(),
        bars: drawn,
    });
    let far = deviations::of(context, "figure 19");
    let mut parts = vec![
        text(
            "The thesis lets fio read 100 GiB and counts until then; here the work beside is counted over the measured time, which is a rate as \
              well. It prints two gains. Operations are of no absolute meaning: only gains are compared.",
        ),
        Part::Table(table),
    ];
    parts.extend(far);
    parts.extend([
        picture(picture_of),
        command("weir sim thesis-limit --backend all --seeds 3"),
    ]);
    Ok(Section::new("throughput", GAIN_TITLE, parts))
}

fn bar(name: &str, ours: Option<[f64; 3]>, printed: Option<f64>, is_base: bool) -> Option<Bar> {
    let [low, value, high] = ours?;
    Some(Bar {
        name: name.into(),
        value,
        range: (high > low).then_some((low, high)),
        printed,
        is_base,
    })
}

fn change(value: Option<f64>, base: Option<f64>) -> Cell {
    let ratio = value.zip(base).map(|(v, b)| v / b - 1.0);
    Cell::new(
        ratio.map_or(String::new(), weir_figures::text::signed_percent),
        CellKind::Faint,
    )
}

/// What weir's own controller is to reach: in words, what a bound on the same figure is called, the aim, its
/// value, and whether that is enough.
struct Promise {
    what: &'static str,
    bound: &'static str,
    aim: &'static str,
    form: Form,
    of: fn(&Run, &Run) -> Option<f64>,
    is_met: fn(f64) -> bool,
}

/// How a value is shown.
#[derive(Clone, Copy)]
enum Form {
    Percent,
    Times,
}

/// What weir promises on the thesis's scenario.
const PROMISES: [Promise; 6] = [
    Promise {
        what: "RMSE of the set-point",
        bound: "device bandwidth: RMSE to set-point",
        aim: "≤ 3 % (thesis: 7.0 %)",
        form: Form::Percent,
        of: |r, _| Some(r.bandwidth.rmse_ratio),
        is_met: |v| v <= 0.03,
    },
    Promise {
        what: "bias",
        bound: "device bandwidth: bias",
        aim: "≤ 1 % (thesis: +3.5 %)",
        form: Form::Percent,
        of: |r, _| Some(r.bandwidth.bias_ratio.abs()),
        is_met: |v| v <= 0.01,
    },
    Promise {
        what: "mean access latency against none",
        bound: "device access, mean: lower by",
        aim: "−50 %",
        form: Form::Percent,
        of: |r, n| less(r.device_latency.mean_ns, n.device_latency.mean_ns),
        is_met: |v| v <= -0.5,
    },
    Promise {
        what: "CPU time per GiB against none",
        bound: "CPU time per GiB read: lower by",
        aim: "−40 % (as the thesis)",
        form: Form::Percent,
        of: |r, n| less(r.cpu_sec_per_gib, n.cpu_sec_per_gib),
        is_met: |v| v <= -0.4,
    },
    Promise {
        what: "work beside against none",
        bound: "work beside: throughput higher by",
        aim: "at least +4.5 %",
        form: Form::Percent,
        of: |r, n| less(r.throughput_ops_per_sec, n.throughput_ops_per_sec),
        is_met: |v| v >= 0.045,
    },
    Promise {
        what: "p99 of limited readers ÷ Little's bound",
        bound: "limited readers: p99 ÷ Little's bound",
        aim: "≤ 3 ×",
        form: Form::Times,
        of: |r, _| weir_report::p99_per_bound(r),
        is_met: |v| v <= 3.0,
    },
];

/// Beside a light reader.
const NEIGHBOUR: Promise = Promise {
    what: "p99 of a light reader against none",
    bound: "light reader, p99: lower by",
    aim: "−40 %",
    form: Form::Percent,
    of: |r, n| less(r.light_reader.p99_ns, n.light_reader.p99_ns),
    is_met: |v| v <= -0.4,
};

/// What issue and README promise of weir's controller, against what came out: one row each.
pub fn promises(context: &mut EvalContext) -> Result<Section> {
    let limit = context.all("thesis-limit")?;
    let neighbours = [
        context.all("neighbour")?,
        context.all("neighbour-realtime")?,
    ];
    let all = PROMISES.iter().map(|promise| (promise, &limit));
    let beside = neighbours.iter().map(|batch| (&NEIGHBOUR, batch));
    let mut rows = Vec::new();
    for (promise, batch) in all.chain(beside) {
        rows.push(kept(context, promise, batch));
    }
    let table = Table::new(
        "weir's controller (back end cpu-max), mean of the seeds",
        &["", "aim", "scenario", "measured", ""],
        rows,
    );
    let parts = vec![
        text(
            "What weir's own controller is to reach on the thesis's scenario and beside a light reader, and what it reaches. Missed ones are shown as such.",
        ),
        Part::Table(table),
        super::sensitivity::reasons(),
        super::sensitivity::crowd(context)?,
        context.bandwidth(&neighbours[0])?,
        command("weir sim neighbour --backend all --seeds 3"),
    ];
    Ok(Section::new("aims", AIMS_TITLE, parts))
}

fn less(with: Option<f64>, without: Option<f64>) -> Option<f64> {
    Some(with? / without? - 1.0)
}

fn position(batch: &Batch, name: &str) -> Option<usize> {
    batch.choices.iter().position(|c| c.name == name)
}

/// The promise against what came out, as a row; leaves it for the summary.
fn kept(context: &mut EvalContext, promise: &Promise, batch: &Batch) -> Vec<Cell> {
    let pairs = position(batch, "cpu-max").zip(position(batch, "none"));
    let values: Vec<f64> = pairs.map_or(Vec::new(), |(with, without)| {
        let both = batch.of(with).zip(batch.of(without));
        both.filter_map(|(w, n)| (promise.of)(&w.run, &n.run))
            .collect()
    });
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let measured = mean.map_or("–".into(), |m| match promise.form {
        Form::Percent => format!("{:.1} %", m * 1e2).replace('-', "−"),
        Form::Times => format!("{m:.1} ×"),
    });
    let is_met = mean.is_some_and(promise.is_met);
    let scenario = &batch.scenario.name;
    context.aim(scenario, promise.bound);
    context.show(
        AIMS_TITLE,
        format!("weir: {} ({scenario})", promise.what),
        promise.aim,
        &measured,
        is_met,
    );
    let (kind, word) = if is_met {
        (CellKind::Met, "✓ met")
    } else {
        (CellKind::Missed, "✗ missed")
    };
    vec![
        Cell::words(promise.what),
        Cell::words(promise.aim),
        Cell::words(scenario),
        Cell::number(measured),
        Cell::new(word, kind),
    ]
}
