// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report as one HTML file that needs nothing else: style and picture are inside, nothing is
//! loaded from anywhere, and a content policy says so to the browser as well. Light or dark follows
//! the reader's own setting.

pub(crate) mod document;
pub(crate) mod heat;

use crate::Command;
use crate::checks::{self, Check, compared, has_several_runs, in_full, verdict};
use crate::origin::{circumstances, facts};
use crate::picture::canvas::{Picture, svg};
use crate::picture::ink::dark_css;
use crate::results::Results;
use crate::run_rows::closing::closing;
use crate::run_rows::{self, Row, names, starting_ms};
use crate::text::{escape, line};
use std::fmt::Write;
use weir_scenario::ScenarioInfo;

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--muted:#57606a;--rule:#d8dee4;--soft:#f5f7f9;\
--met:#0a6640;--missed:#b3261e;--s1:#dbe6f0;--s2:#b9d0e4;--s3:#93b5d3;--s4:#6f9cc4}\
*{box-sizing:border-box}\
body{margin:0 auto;padding:2rem 1.25rem 4rem;max-width:76rem;background:var(--page);color:var(--text);\
font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.6rem;line-height:1.2;margin:0}h2{font-size:1.1rem;margin:2.5rem 0 .75rem}h3{font-size:1rem;margin:1.6rem 0 .5rem}\
p{margin:.4rem 0;max-width:60rem}.gap{margin-top:1.2rem}.muted{color:var(--muted)}\
svg{display:block;width:100%;height:auto;margin:1.5rem 0 0;font-family:system-ui,sans-serif}\
.wide{overflow-x:auto}.on-phone{display:none}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.93rem}\
th,td{padding:.22rem .6rem .22rem 0;text-align:left;white-space:nowrap;vertical-align:baseline}\
thead th{border-bottom:1px solid var(--muted);white-space:normal;vertical-align:bottom}thead th,.n{font-weight:600}\
td.v,th.v{text-align:right;padding-left:.6rem}td.v{font-weight:400}td.v+td:not(.v),th.v+th:not(.v){padding-left:.8rem}\
tr.first td{border-top:1px solid var(--rule)}tbody tr:first-child td{border-top:0}\
td.unit,td.change{color:var(--muted)}td.why{white-space:normal;min-width:9rem;color:var(--muted)}\
.facts td{white-space:normal}.facts td.n{white-space:nowrap}.sum{font-size:1.1rem;margin:.8rem 0}\
.met{color:var(--met)}.missed{color:var(--missed);font-weight:600}\
pre{background:var(--soft);padding:.8rem 1rem;overflow-x:auto;font-size:.85rem;line-height:1.45;border-radius:4px}\
.dense{font-size:.8rem}.dense th,.dense td{padding-right:.25rem}.dense td.v,.dense th.v{padding-left:.3rem}\
summary{cursor:pointer}a{color:inherit}.part{display:none}\
@media(max-width:44rem){body{padding:1.25rem .8rem 3rem}.wide>svg{min-width:44rem}.on-page{display:none}.on-phone{display:block}\
table{font-size:.8rem}th,td{padding-right:.4rem}td.v,th.v{padding-left:.4rem}.bounds td:nth-child(2){white-space:normal}\
.bounds td.why:empty{min-width:0;padding:0}\
.wide td:first-child,.wide th:first-child{position:sticky;left:0;background:var(--page);white-space:normal}\
.figures .change,.figures .subject{display:none}.part{display:table-row}.part td{padding-top:.6rem;font-weight:600}\
.figures tr.first td{border-top:0}\
.stack thead{display:none}.stack tr{display:block;padding:.5rem 0;border-top:1px solid var(--rule)}\
.stack td,.stack th{display:flex;justify-content:space-between;gap:1rem;padding:.05rem 0}.stack td:empty{display:none}\
.stack td::before,.stack th::before{content:attr(data-h);color:var(--muted);font-weight:400}.stack td.why{text-align:right}.stack tr td:not(.v){padding-left:0}\
.stack td:first-child,.stack th:first-child{position:static;font-weight:600;justify-content:flex-start}.stack td:first-child::before,.stack th:first-child::before{content:none}}\
.defs{position:absolute;width:0;height:0;margin:0}td,th,dd{unicode-bidi:isolate}\
.answer{border-left:4px solid var(--text);padding:.1rem 0 .1rem 1rem;margin:1rem 0}.answer p:first-child{font-size:1.15rem;font-weight:600}\
.answer p,dd,.why,td.n,th.n,h3,li{overflow-wrap:anywhere}\
.card{border:1px solid var(--rule);border-radius:6px;padding:.4rem 1rem 1rem;margin:1rem 0}.card h3{margin:.6rem 0}\
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.25rem 1.2rem;margin:.5rem 0;max-width:60rem}\
dt{color:var(--muted)}dd{margin:0}details{margin:.6rem 0}summary{padding:.15rem 0}\
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 2rem}.beside>div{min-width:0}\
tbody th.n{min-width:7rem;max-width:24rem;white-space:normal}nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;list-style:none;padding:0;margin:1rem 0}td.s1{background:var(--s1)}td.s2{background:var(--s2)}td.s3{background:var(--s3)}td.s4{background:var(--s4)}\
:focus-visible{outline:2px solid var(--text);outline-offset:2px}\
@media(max-width:44rem){dl{grid-template-columns:1fr;gap:0}dd{margin:0 0 .5rem}.card{padding:.2rem .7rem .7rem}}\
@media print{body{max-width:none;padding:0;font-size:11pt}.card,svg,tr{break-inside:avoid}h2,h3{break-after:avoid}.wide{overflow:visible}\
nav{display:none}td{print-color-adjust:exact}}";

const DARK: &str = ":root{--page:#14181d;--text:#e6e8eb;--muted:#9aa4b0;--rule:#2b3138;--soft:#1b2026;\
--met:#5ec29a;--missed:#ff8a80;--s1:#22303d;--s2:#294256;--s3:#315672;--s4:#396b90}";

/// The page. Of the two pictures the browser shows the one that its window has space for.
pub fn page(
    subject: &ScenarioInfo,
    results: &Results,
    [wide, narrow]: [&Picture; 2],
    commands: &[Command],
) -> String {
    let checks = checks::checks(subject, results);
    let title = escape(&line(&results.scenario, 200));
    let mut html = head(&results.scenario);
    let _ = writeln!(
        html,
        "<h1>{title}</h1>\n<p>{}</p>\n<p class=\"sum\">{}</p>",
        escape(&line(&subject.about, 2000)),
        escape(&closing(results))
    );
    let _ = writeln!(
        html,
        "<p class=\"muted\">{}</p>",
        escape(&circumstances(subject, results))
    );
    let _ = writeln!(
        html,
        "<div class=\"on-page\">{}</div>\n<div class=\"on-phone\">{}</div>",
        svg(wide),
        svg(narrow)
    );
    if results.runs.iter().any(|r| starting_ms(r).is_some()) {
        html += "<p class=\"muted\">Until “weir begins” weir itself was starting, on CPUs some hundred times \
                 slower than a server’s, and limited nothing.</p>\n";
    }
    html += &bounds(subject, results, &checks);
    html += &figures(results);
    html += &how(subject, results, commands);
    html + "</body>\n</html>\n"
}

/// Everything up to the body: style, and the promise that nothing is loaded.
pub fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{} – weir</title>\n\
         <style>{STYLE}{}@media(prefers-color-scheme:dark){{{DARK}{}{}}}</style>\n</head>\n<body>\n",
        escape(&line(title, 200)),
        heat::STYLE,
        heat::DARK,
        dark_css(),
    )
}

fn bounds(subject: &ScenarioInfo, results: &Results, checks: &[Check]) -> String {
    let mut html = format!("<h2>Bounds: {}</h2>\n", verdict(checks));
    if checks.is_empty() {
        return html;
    }
    if let Some(runs) = compared(subject, results) {
        let _ = writeln!(html, "<p class=\"muted\">{}</p>", escape(&runs));
    }
    html += "<div class=\"wide\"><table class=\"bounds\">\n<thead><tr><th></th><th></th><th class=\"v\">measured</th>\
             <th class=\"v\">bound</th><th></th></tr></thead>\n<tbody>\n";
    let mut shown = "";
    for check in in_full(checks) {
        if has_several_runs(checks) && check.run != shown {
            shown = &check.run;
            let name = escape(shown);
            let _ = writeln!(html, "<tr><th colspan=\"5\">{name}</th></tr>");
        }
        let (class, word) = if check.passed {
            ("met", "✓ met")
        } else {
            ("missed", "✗ missed")
        };
        let why = check.measured.as_ref().err().map_or("", String::as_str);
        let _ = writeln!(
            html,
            "<tr><td class=\"{class}\">{word}</td><td>{}</td><td class=\"v\">{}</td>\
             <td class=\"v\">{}</td><td class=\"why\">{}</td></tr>",
            escape(&check.name),
            escape(&check.measured_text()),
            escape(&check.bound_text()),
            escape(why),
        );
    }
    html + "</tbody></table></div>\n"
}

/// With more runs than this the table shows no changes: it would be wider than a page.
const CHANGES_RUNS_MAX: usize = 4;

fn figures(results: &Results) -> String {
    let (rows, gaps) = run_rows::rows(results);
    let names = names(results);
    let bases = run_rows::bases(&results.runs);
    let has_changes = names.len() <= CHANGES_RUNS_MAX;
    let mut html = String::from(
        "<h2>Figures</h2>\n<div class=\"wide\"><table class=\"figures\">\n<thead><tr>\
         <th class=\"subject\"></th><th></th><th></th>",
    );
    for (i, name) in names.iter().enumerate() {
        // Where there is little space, the back end stands below the policy.
        let name = escape(name).replace('/', "/<wbr>");
        let _ = write!(html, "<th class=\"v\">{name}</th>");
        if let Some(base) = bases[i].filter(|_| has_changes) {
            let base = escape(&names[base]);
            let _ = write!(html, "<th class=\"v change\">vs {base}</th>");
        }
    }
    html += "</tr></thead>\n<tbody>\n";
    let mut last = "";
    for row in &rows {
        html += &figure(row, row.subject != last, has_changes.then_some(&bases));
        last = row.subject;
    }
    html += "</tbody></table></div>\n";
    if !gaps.is_empty() {
        html += "<p class=\"gap\">Not known (–):</p>\n<ul class=\"muted\">\n";
        for gap in gaps {
            let sentence = format!("{}: {}: {}", gap.run, gap.rows, gap.reason);
            let _ = writeln!(html, "<li>{}</li>", escape(&sentence));
        }
        html += "</ul>\n";
    }
    html + &caveats(results)
}

fn figure(row: &Row, is_first: bool, changes: Option<&Vec<Option<usize>>>) -> String {
    let subject = if is_first { row.subject } else { "" };
    let class = if is_first { " class=\"first\"" } else { "" };
    let mut html = String::new();
    if is_first {
        // Takes the place of the first column on narrow screens.
        let subject = escape(subject);
        let _ = writeln!(
            html,
            "<tr class=\"part\"><td colspan=\"9\">{subject}</td></tr>"
        );
    }
    let _ = write!(
        html,
        "<tr{class}><td class=\"n subject\">{}</td><td>{}</td><td class=\"unit\">{}</td>",
        escape(subject),
        escape(&row.marked_name()),
        escape(row.unit),
    );
    for (i, value) in row.cells.iter().enumerate() {
        let _ = write!(
            html,
            "<td class=\"v\">{}</td>",
            escape(run_rows::cell(value))
        );
        if changes.is_some_and(|bases| bases[i].is_some()) {
            let change = row.changes.get(i).and_then(|c| c.as_deref());
            let change = escape(change.unwrap_or(""));
            let _ = write!(html, "<td class=\"v change\">{change}</td>");
        }
    }
    html + "</tr>\n"
}

/// What is not to be trusted, and why.
fn caveats(results: &Results) -> String {
    let caveats = run_rows::caveats(results);
    if caveats.is_empty() {
        return String::new();
    }
    let mut html = String::from("<p class=\"gap\">Not to be trusted (*):</p>\n<ul>\n");
    for (figures, why) in caveats {
        let (figures, why) = (escape(&figures), escape(&why));
        let _ = writeln!(
            html,
            "<li>{figures}: <span class=\"muted\">{why}</span></li>"
        );
    }
    html + "</ul>\n"
}

fn how(subject: &ScenarioInfo, results: &Results, commands: &[Command]) -> String {
    let mut html = String::from("<h2>How this was made</h2>\n");
    let facts = facts(results);
    if !facts.is_empty() {
        html += "<table class=\"facts\">\n<tbody>\n";
        for (name, value) in facts {
            let _ = writeln!(
                html,
                "<tr><td class=\"n\">{name}</td><td>{}</td></tr>",
                escape(&value)
            );
        }
        html += "</tbody></table>\n";
    }
    for command in commands {
        let _ = writeln!(
            html,
            "<p class=\"gap\">{}</p>\n<pre>{}</pre>",
            escape(&command.what),
            escape(&command.line)
        );
    }
    let _ = writeln!(
        html,
        "<details><summary>Scenario</summary>\n<pre>{}</pre></details>",
        escape(&subject.toml)
    );
    html += "<p class=\"muted\">For machines: <a href=\"summary.json\">summary.json</a> (all figures), \
             <a href=\"series.csv\">series.csv</a> (bandwidth over time), \
             <a href=\"bandwidth.png\">bandwidth.png</a> (the picture).</p>\n";
    html
}
