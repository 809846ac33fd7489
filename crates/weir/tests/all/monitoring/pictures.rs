// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A picture of a dashboard, drawn of what a server answers: panels where Grafana would have them, each with
//! its lines or figures. For the eye: `WEIR_DASHBOARD_PICTURES=FOLDER` writes them.

use super::history::{CALM, END_SECS, START_SECS};
use super::queries::{Board, Query, queries_of};
use super::{Answered, ask};
use crate::world::server::Server;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const CELL_PX: [f64; 2] = [50.0, 30.0];
const COLOURS: [&str; 8] = [
    "#3366cc", "#dc3912", "#ff9900", "#109618", "#990099", "#0099c6", "#dd4477", "#66aa00",
];

pub fn draw(server: &Server, board: &Board, dir: &Path) {
    let panels = board.json["panels"].as_array().unwrap();
    let side = |panel: &Value, name: &str| panel["gridPos"][name].as_u64().unwrap() as f64;
    let bottom = panels
        .iter()
        .map(|p| side(p, "y") + side(p, "h"))
        .fold(0.0, f64::max);
    let (width, height) = (24.0 * CELL_PX[0], bottom * CELL_PX[1]);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' font-family='sans-serif' \
         font-size='11'><rect width='100%' height='100%' fill='#f4f5f5'/>"
    );
    for panel in panels {
        let [x, y] = [side(panel, "x") * CELL_PX[0], side(panel, "y") * CELL_PX[1]];
        let [w, h] = [
            side(panel, "w") * CELL_PX[0] - 6.0,
            side(panel, "h") * CELL_PX[1] - 6.0,
        ];
        let title = escaped(panel["title"].as_str().unwrap());
        write!(svg, "<g transform='translate({x} {y})'>").unwrap();
        if panel["type"] != "row" {
            write!(
                svg,
                "<rect width='{w}' height='{h}' fill='white' stroke='#ccc'/>"
            )
            .unwrap();
        }
        write!(svg, "<text x='6' y='16' font-weight='bold'>{title}</text>").unwrap();
        svg += &inside(server, panel, w, h);
        svg += "</g>";
    }
    svg += "</svg>";
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join(format!("{}.svg", board.name)), svg).unwrap();
}

fn inside(server: &Server, panel: &Value, w: f64, h: f64) -> String {
    let unit = panel["fieldConfig"]["defaults"]["unit"]
        .as_str()
        .unwrap_or_default();
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for query in queries_of(panel) {
        // The fleet's queries take all of its hosts.
        let is_fleet = query.text.contains("=~\"$instance\"");
        let instance = if is_fleet { ".*" } else { CALM[0] };
        for series in ask(server, &query, instance).0 {
            lines.push((named(&query, &series), Answered::points(&series)));
        }
    }
    match panel["type"].as_str().unwrap() {
        "row" => String::new(),
        "timeseries" => curves(&lines, w, h, unit),
        _ => figures(&lines, h, unit),
    }
}

fn named(query: &Query, series: &Value) -> String {
    let mut name = query.legend.clone();
    for (label, value) in series["metric"].as_object().unwrap() {
        name = name.replace(&format!("{{{{{label}}}}}"), value.as_str().unwrap());
    }
    if query.legend.is_empty() {
        let labels = series["metric"].as_object().unwrap().values();
        let labels: Vec<&str> = labels.filter_map(Value::as_str).collect();
        name = labels.join(" ");
    }
    name
}

fn curves(lines: &[(String, Vec<(f64, f64)>)], w: f64, h: f64, unit: &str) -> String {
    let all = || {
        lines
            .iter()
            .flat_map(|(_, points)| points.iter().map(|p| p.1))
    };
    let top = all().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let plot_h = h - 40.0 - 13.0 * (lines.len().min(8) as f64);
    let mut svg = format!(
        "<text x='6' y='30' fill='#666'>up to {}</text>",
        shown(top, unit)
    );
    for (index, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let place = |(secs, value): &(f64, f64)| {
            let x = 6.0 + (secs - START_SECS as f64) / (END_SECS - START_SECS) as f64 * (w - 12.0);
            let y = 34.0 + plot_h * (1.0 - value / top.max(1e-12));
            format!("{x:.1},{y:.1}")
        };
        let places: Vec<String> = points.iter().map(place).collect();
        let places = places.join(" ");
        write!(
            svg,
            "<polyline fill='none' stroke='{colour}' points='{places}'/>"
        )
        .unwrap();
        if index < 8 {
            let y = h - 4.0 - 13.0 * index as f64;
            let name = escaped(name);
            write!(svg, "<text x='6' y='{y}' fill='{colour}'>{name}</text>").unwrap();
        }
    }
    svg
}

fn figures(lines: &[(String, Vec<(f64, f64)>)], h: f64, unit: &str) -> String {
    let mut svg = String::new();
    for (index, (name, points)) in lines.iter().enumerate() {
        let y = 34.0 + 13.0 * index as f64;
        if y > h {
            break;
        }
        let value = points.last().map_or(f64::NAN, |p| p.1);
        let line = format!("{} {name}", shown(value, unit));
        write!(svg, "<text x='6' y='{y}'>{}</text>", escaped(&line)).unwrap();
    }
    svg
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "binBps" => format!("{:.2} GiB/s", value / f64::from(1 << 30)),
        "percentunit" => format!("{:.1} %", value * 100.0),
        "s" if value < 1e-3 => format!("{:.0} ns", value * 1e9),
        _ => format!("{value:.3}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
