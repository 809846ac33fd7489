// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir exports, as the servers that people run know it afterwards: Prometheus by scraping,
//! VictoriaMetrics and InfluxDB by `--push`. The test queries each by its own interface, and compares the
//! answers with the lines of `--json`.

use crate::world::server::{Kind, Server, free_address};
use crate::world::{Daemon, HEAVY, LIGHT, World, long_name};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a tag must survive.
const ODD: &str = "/odd.slice/a b,c=d\"é\\";

/// One tick, from a line of `--json`.
struct Tick {
    wall_ms: i64,
    /// Time since the tick before; 0 for the first.
    dt_ns: i64,
    snapshot: Value,
}

impl Tick {
    fn device(&self, figure: &str) -> Option<f64> {
        self.snapshot["plan"]["devices"][0][figure].as_f64()
    }

    fn workload(&self, id: &str) -> Option<&Value> {
        let mut all = self.snapshot["plan"]["workloads"].as_array()?.iter();
        all.find(|workload| workload["id"] == id)
    }
}

fn stop(daemon: Daemon) -> Vec<Tick> {
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("dropped"), "{}", ended.stderr);
    let mut before = None;
    let mut ticks = Vec::new();
    for line in ended.stdout.lines() {
        let snapshot: Value = serde_json::from_str(line).unwrap();
        let at = snapshot["plan"]["at"].as_i64().unwrap();
        let dt_ns = at - before.replace(at).unwrap_or(at);
        let wall_ms = snapshot["wall_unix_ms"].as_i64().unwrap();
        ticks.push(Tick {
            wall_ms,
            dt_ns,
            snapshot,
        });
    }
    ticks
}

/// The mean over time of what is known, as a whole number.
fn mean(ticks: &[&Tick], figure: impl Fn(&Tick) -> Option<f64>) -> Option<i64> {
    let known = ticks.iter().filter_map(|tick| {
        let value = figure(tick)?;
        Some((value * tick.dt_ns as f64, tick.dt_ns))
    });
    let (sum, time) = known.fold((0.0, 0), |(sum, time), (value, dt)| {
        (sum + value, time + dt)
    });
    (time > 0).then(|| (sum / time as f64).round() as i64)
}

/// Sums in another order may differ in the last bits, and so round differently.
fn is_near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1.0 + wanted.abs() * 1e-9
}

/// A point of a series: fields by name.
struct Point {
    time_ms: i64,
    fields: BTreeMap<String, f64>,
}

/// Points by the value of a tag, in the order of time.
type Series = BTreeMap<String, Vec<Point>>;

fn from_victoria(server: &Server, table: &str, tag: &str) -> Series {
    let matching = format!("{{__name__=~\"{table}_.+\"}}");
    // What it has just taken in is shown to queries series by series, within a second or more.
    server.get("/internal/force_flush", &[]);
    let text = server.get("/api/v1/export", &[("match[]", &matching)]);
    let mut points: BTreeMap<(String, i64), BTreeMap<String, f64>> = BTreeMap::new();
    for line in text.unwrap_or_default().lines() {
        let series: Value = serde_json::from_str(line).unwrap();
        let name = series["metric"]["__name__"].as_str().unwrap();
        let field = name.strip_prefix(table).unwrap().trim_start_matches('_');
        let key = series["metric"][tag].as_str().unwrap();
        let times = series["timestamps"].as_array().unwrap().iter();
        for (time, value) in times.zip(series["values"].as_array().unwrap()) {
            let point = (key.to_owned(), time.as_i64().unwrap());
            let fields = points.entry(point).or_default();
            fields.insert(field.to_owned(), value.as_f64().unwrap());
        }
    }
    let mut all = Series::new();
    for ((key, time_ms), fields) in points {
        all.entry(key).or_default().push(Point { time_ms, fields });
    }
    all
}

fn from_influx(server: &Server, table: &str, tag: &str) -> Series {
    let query = format!("SELECT * FROM {table} GROUP BY {tag}, host");
    let text = server.get("/query", &[("db", "weir"), ("epoch", "ms"), ("q", &query)]);
    let answer: Value = serde_json::from_str(&text.unwrap_or_else(|| "{}".into())).unwrap();
    let mut all = Series::new();
    for series in answer["results"][0]["series"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let columns = series["columns"].as_array().unwrap();
        let key = series["tags"][tag].as_str().unwrap();
        assert_ne!(series["tags"]["host"], "", "{series}");
        for row in series["values"].as_array().unwrap() {
            let cells = columns.iter().zip(row.as_array().unwrap());
            let figures = cells.filter_map(|(name, cell)| {
                Some((name.as_str().unwrap().to_owned(), cell.as_f64()?))
            });
            let fields: BTreeMap<String, f64> = figures.collect();
            let time_ms = fields["time"] as i64;
            let points = all.entry(key.to_owned()).or_default();
            points.push(Point { time_ms, fields });
        }
    }
    all
}

/// A field's name, and what it should be.
type Figure = (&'static str, Option<i64>);

/// Each point must be the mean of the ticks since the point before, and all ticks must be in one.
fn are_means(points: &[Point], ticks: &[Tick], figures: &dyn Fn(&[&Tick]) -> Vec<Figure>) {
    let mut after = i64::MIN;
    let mut covered = 0;
    for point in points {
        let within = |tick: &&Tick| tick.wall_ms > after && tick.wall_ms <= point.time_ms;
        let span: Vec<&Tick> = ticks.iter().filter(within).collect();
        after = point.time_ms;
        covered += span.len();
        for (name, wanted) in figures(&span) {
            let found = point.fields.get(name).copied();
            let same = match (found, wanted) {
                (Some(found), Some(wanted)) => is_near(found, wanted as f64),
                (None, None) => true,
                _ => false,
            };
            assert!(
                same,
                "{name} at {}: {found:?}, not {wanted:?}",
                point.time_ms
            );
        }
    }
    assert_eq!(covered, ticks.len());
}

fn span_ns(ticks: &[&Tick]) -> Option<i64> {
    Some(ticks.iter().map(|tick| tick.dt_ns).sum())
}

fn device_figures(ticks: &[&Tick]) -> Vec<Figure> {
    let of = |figure: &'static str| mean(ticks, move |tick| tick.device(figure));
    vec![
        ("read_bytes_per_sec", of("read_bytes_per_sec")),
        ("write_bytes_per_sec", of("write_bytes_per_sec")),
        ("set_point_bytes_per_sec", Some(300 << 20)),
        ("span_ns", span_ns(ticks)),
    ]
}

fn workload_figures(id: &str, ticks: &[&Tick]) -> Vec<Figure> {
    let bandwidth = |tick: &Tick| {
        let bandwidth = &tick.workload(id)?["bandwidth"];
        let known = bandwidth["provenance"] != "unknown";
        known.then(|| bandwidth["bytes_per_sec"].as_f64()).flatten()
    };
    let cpu = |tick: &Tick| Some(tick.workload(id)?["cpu_cpus"].as_f64()? * 1e6);
    let last = ticks.iter().rev().find_map(|tick| tick.workload(id));
    let limit = last.and_then(|workload| workload["limit_cpus"].as_f64());
    vec![
        ("bytes_per_sec", mean(ticks, bandwidth)),
        ("cpu_microcpus", mean(ticks, cpu)),
        (
            "limit_microcpus",
            limit.map(|cpus| (cpus * 1e6).round() as i64),
        ),
        ("span_ns", span_ns(ticks)),
    ]
}

/// weir's own spelling: a backslash in a name is one of those that introduce a byte.
fn odd_id(ticks: &[Tick]) -> String {
    let workloads = &ticks.last().unwrap().snapshot["plan"]["workloads"];
    let mut ids = workloads
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["id"].as_str().unwrap());
    let id = ids.find(|id| id.starts_with("/odd.slice/")).unwrap();
    assert!(id.contains("a b,c=d\"é\\"), "{id}");
    id.to_owned()
}

fn pushed(server: &Server, path: &str, read: fn(&Server, &str, &str) -> Series) {
    let long = long_name();
    let world = World::with(&[ODD, &long]);
    // As weir writes it, here and in JSON.
    let long = long.replace('\n', "\\012");
    let url = format!("http://{}{path}", server.address);
    let daemon = world.start(&[
        "run",
        "--limit",
        "--set-point",
        "300MiB/s",
        "--json",
        "--push",
        &url,
        "--push-interval",
        "1s",
    ]);
    world.wait("three points are there", || {
        read(server, "weir_device", "device")
            .get("0")
            .is_some_and(|points| points.len() >= 3)
    });
    let ticks = stop(daemon);
    let mut devices = Series::new();
    let last_ms = ticks.last().unwrap().wall_ms;
    world.wait("the last point is there", || {
        devices = read(server, "weir_device", "device");
        let last = devices.get("0").and_then(|points| points.last());
        last.is_some_and(|point| point.time_ms >= last_ms)
    });
    are_means(&devices["0"], &ticks, &device_figures);
    let workloads = read(server, "weir_workload", "workload");
    let odd = odd_id(&ticks);
    for id in [HEAVY[0], HEAVY[1], HEAVY[2], LIGHT, &odd, &long] {
        // A tag cannot end in a backslash.
        let ending = id.strip_suffix('\\').map(|start| format!("{start}\\134"));
        let points = workloads.get(ending.as_deref().unwrap_or(id));
        let points = points.unwrap_or_else(|| panic!("{id}: {:?}", workloads.keys()));
        are_means(points, &ticks, &|span| workload_figures(id, span));
    }
    let limits: usize = read(server, "weir_action", "workload")
        .values()
        .map(Vec::len)
        .sum();
    let decided: usize = ticks
        .iter()
        .map(|tick| tick.snapshot["plan"]["actions"].as_array().unwrap().len())
        .sum();
    assert!(limits > 0);
    assert_eq!(limits, decided);
}

#[test]
fn victoria_metrics_knows_what_was_pushed() {
    if let Some(server) = Server::start(Kind::VictoriaMetrics) {
        pushed(&server, "/write", from_victoria);
    }
}

#[test]
fn influxdb_knows_what_was_pushed() {
    let Some(server) = Server::start(Kind::InfluxDb) else {
        return;
    };
    let made = server.post("/query", &[("q", "CREATE DATABASE weir")]);
    assert!(made.is_some(), "{}", server.log());
    pushed(&server, "/write?db=weir", from_influx);
}

/// Samples of one series by the time of their scrape.
fn scraped(server: &Server, selector: &str) -> BTreeMap<i64, f64> {
    let query = format!("{selector}[5m]");
    let text = server.get("/api/v1/query", &[("query", &query)]);
    let answer: Value = serde_json::from_str(&text.unwrap_or_else(|| "{}".into())).unwrap();
    let result = answer["data"]["result"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(result.len() <= 1, "{selector}: {result:?}");
    let samples = result.iter().flat_map(|s| s["values"].as_array().unwrap());
    samples
        .map(|sample| {
            let time_ms = (sample[0].as_f64().unwrap() * 1e3).round() as i64;
            (time_ms, sample[1].as_str().unwrap().parse().unwrap())
        })
        .collect()
}

#[test]
fn prometheus_knows_what_it_scraped() {
    let target = free_address();
    let Some(server) = Server::start(Kind::Prometheus { target }) else {
        return;
    };
    let world = World::new();
    let address = format!("--metrics={target}");
    let daemon = world.start(&[
        "run",
        "--limit",
        "--set-point",
        "300MiB/s",
        "--json",
        &address,
    ]);
    let heavy = format!("{{cgroup=\"{}\"}}", HEAVY[0]);
    let limit = format!("weir_cgroup_limit_cpus{heavy}");
    world.wait("a limit was scraped five times", || {
        scraped(&server, &limit).len() >= 5
    });
    let get = |selector: &str| scraped(&server, selector);
    let limits = get(&limit);
    let counts = get("weir_ticks_total");
    let bytes = get(&format!(
        "weir_cgroup_cxl_bytes_total{{cgroup=\"{}\",source=\"apportioned\"}}",
        HEAVY[0]
    ));
    let reads = get("weir_cxl_read_bytes_total{device=\"cxl0\",group=\"0\",node=\"1\"}");
    // Last: so it knows all moments of the others.
    let when = get("weir_last_tick_timestamp_seconds");
    let ticks = stop(daemon);

    let scraped = Scraped {
        when,
        limits,
        counts,
        bytes,
        reads,
    };
    scraped.is_what_ticks_say(&ticks);
}

/// Samples of some series by the time of their scrape.
struct Scraped {
    when: BTreeMap<i64, f64>,
    limits: BTreeMap<i64, f64>,
    counts: BTreeMap<i64, f64>,
    bytes: BTreeMap<i64, f64>,
    reads: BTreeMap<i64, f64>,
}

impl Scraped {
    fn is_what_ticks_say(&self, ticks: &[Tick]) {
        let Scraped {
            when,
            limits,
            counts,
            bytes,
            reads,
        } = self;
        // A scrape says of which tick it is; all its samples have its time.
        let place = |time: &i64| {
            let wall_ms = (when[time] * 1e3).round() as i64;
            ticks
                .iter()
                .position(|tick| tick.wall_ms == wall_ms)
                .unwrap()
        };
        for (time, found) in limits {
            let verdict = ticks[place(time)].workload(HEAVY[0]).unwrap();
            let wanted = verdict["limit_cpus"].as_f64().unwrap();
            assert!(
                (found - wanted).abs() < 1e-9,
                "{found} at {time}, not {wanted}"
            );
        }
        for (time, found) in counts {
            assert_eq!(*found, (place(time) + 1) as f64);
        }
        let (first, last) = (bytes.keys().min().unwrap(), bytes.keys().max().unwrap());
        let between = &ticks[place(first) + 1..=place(last)];
        assert!(between.len() > 10, "{} ticks", between.len());
        let sum = |figure: &dyn Fn(&Tick) -> f64| -> f64 {
            between
                .iter()
                .map(|tick| figure(tick) * tick.dt_ns as f64 / 1e9)
                .sum()
        };
        let wanted = sum(&|tick| {
            tick.workload(HEAVY[0]).unwrap()["bandwidth"]["bytes_per_sec"]
                .as_f64()
                .unwrap()
        });
        assert!(
            is_near(bytes[last] - bytes[first], wanted),
            "{bytes:?}, not {wanted}"
        );
        // The counters are read at times of their own, a little before those of ticks.
        let wanted = sum(&|tick| tick.device("read_bytes_per_sec").unwrap());
        let found = reads[last] - reads[first];
        assert!((found / wanted - 1.0).abs() < 0.05, "{found}, not {wanted}");
    }
}
