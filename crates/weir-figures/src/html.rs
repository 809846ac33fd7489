// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document as one HTML file that needs nothing else: style and pictures are inside, nothing is loaded from
//! anywhere, and a content policy says so to the browser as well. Light or dark follows the reader's own
//! setting.

use crate::canvas::{patterns, svg};
use crate::document::{Cell, CellKind, Document, Part, Table};
use crate::heat::{self, heat_key, heat_map};
use crate::ink::dark_css;
use crate::text::{escape, line};
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--muted:#57606a;--rule:#d8dee4;--soft:#f5f7f9;\
--met:#0a6640;--missed:#b3261e;--s1:#dbe6f0;--s2:#b9d0e4;--s3:#93b5d3;--s4:#6f9cc4}\
*{box-sizing:border-box}\
body{margin:0 auto;padding:2rem 1.25rem 4rem;max-width:76rem;background:var(--page);color:var(--text);\
font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.6rem;line-height:1.2;margin:0}h2{font-size:1.1rem;margin:2.5rem 0 .75rem}h3{font-size:1rem;margin:1.6rem 0 .5rem}\
p{margin:.4rem 0;max-width:60rem}.groups td.n{font-weight:400}.muted{color:var(--muted)}\
svg{display:block;width:100%;height:auto;margin:1.5rem 0 0;font-family:system-ui,sans-serif}\
.wide{overflow-x:auto}.on-phone{display:none}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.93rem}\
th,td{padding:.22rem .6rem .22rem 0;text-align:left;white-space:nowrap;vertical-align:baseline}\
thead th{border-bottom:1px solid var(--muted);white-space:normal;vertical-align:bottom}thead th,.n{font-weight:600}\
td.v,th.v{text-align:right;padding-left:.6rem}td.v{font-weight:400}td.v+td:not(.v),th.v+th:not(.v){padding-left:.8rem}\
tr.first td,tr.first th{border-top:1px solid var(--rule)}tbody tr:first-child td,tbody tr:first-child th{border-top:0}\
td.change{color:var(--muted)}td.why{white-space:normal;min-width:9rem;color:var(--muted)}\
.met{color:var(--met)}.missed{color:var(--missed);font-weight:600}\
pre{background:var(--soft);padding:.8rem 1rem;overflow-x:auto;font-size:.85rem;line-height:1.45;border-radius:4px}\
.dense{font-size:.8rem}.dense th,.dense td{padding-right:.25rem}.dense td.v,.dense th.v{padding-left:.3rem}\
summary{cursor:pointer}a{color:inherit}\
@media(max-width:44rem){body{padding:1.25rem .8rem 3rem}.wide>svg{min-width:44rem}.on-page{display:none}.on-phone{display:block}\
table{font-size:.8rem}th,td{padding-right:.4rem}td.v,th.v{padding-left:.4rem}\
.wide td:first-child,.wide th:first-child{position:sticky;left:0;background:var(--page);white-space:normal}\
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

pub fn html(document: &Document) -> String {
    let mut html = head(&line(&document.title, 200));
    let _ = writeln!(html, "<h1>{}</h1>", escape(&line(&document.title, 200)));
    for words in &document.about {
        let _ = writeln!(html, "<p>{}</p>", escape(words));
    }
    if !document.answer.is_empty() {
        html += "<div class=\"answer\">\n";
        for words in &document.answer {
            let _ = writeln!(html, "<p>{}</p>", escape(words));
        }
        html += "</div>\n";
    }
    let parts = document.sections.iter().flat_map(|section| &section.parts);
    html += &patterns(parts.flat_map(Part::pictures));
    html += "<nav aria-label=\"Contents\"><ul class=\"muted\">\n";
    for section in &document.sections {
        let (id, title) = (escape(&section.id), escape(&section.title));
        let _ = writeln!(html, "<li><a href=\"#{id}\">{title}</a></li>");
    }
    html += "</ul></nav>\n<main>\n";
    for section in &document.sections {
        let (id, title) = (escape(&section.id), escape(&section.title));
        let _ = writeln!(html, "<h2 id=\"{id}\">{title}</h2>");
        html += &of_parts(&section.parts);
    }
    html + "</main>\n</body>\n</html>\n"
}

fn of_parts(parts: &[Part]) -> String {
    parts.iter().map(of_part).collect()
}

fn of_part(part: &Part) -> String {
    match part {
        Part::Words(words) => format!("<p>{}</p>\n", escape(words)),
        // It can be scrolled, by keys too, where it is wider than the screen.
        Part::Picture(picture) => format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">{}</div>\n",
            escape(&picture.label),
            svg(picture)
        ),
        Part::Fitted([wide, narrow]) => format!(
            "<div class=\"on-page\">{}</div>\n<div class=\"on-phone\">{}</div>\n",
            svg(wide),
            svg(narrow)
        ),
        Part::List(sentences) => of_list(sentences),
        Part::Files(files) => of_files(files),
        Part::Title(title) => format!("<h3>{}</h3>\n", escape(title)),
        Part::Facts(facts) => {
            let pair = |(term, said): &(String, String)| {
                format!("<dt>{}</dt><dd>{}</dd>\n", escape(term), escape(said))
            };
            let pairs: String = facts.iter().map(pair).collect();
            format!("<dl>\n{pairs}</dl>\n")
        }
        Part::Details { summary, parts } => format!(
            "<details><summary>{}</summary>\n{}</details>\n",
            escape(summary),
            of_parts(parts)
        ),
        Part::Card(parts) => format!("<div class=\"card\">\n{}</div>\n", of_parts(parts)),
        Part::Beside(columns) => {
            let column = |parts: &Vec<Part>| format!("<div>\n{}</div>\n", of_parts(parts));
            let class = if columns.len() > 2 {
                "beside narrow"
            } else {
                "beside"
            };
            let columns: String = columns.iter().map(column).collect();
            format!("<div class=\"{class}\">\n{columns}</div>\n")
        }
        Part::Heat(map) => heat_map(map),
        Part::HeatKey(cells) => heat_key(cells),
        Part::Choice {
            id,
            title,
            parts,
            back,
        } => format!(
            "<section class=\"choice\" id=\"{}\">\n<h3>{}</h3>\n{}<p><a href=\"#{}\">Back</a></p></section>\n",
            escape(id),
            escape(title),
            of_parts(parts),
            escape(back)
        ),
        Part::Command(command) => format!("<pre>{}</pre>\n", escape(command)),
        Part::Table(table) => of_table(table),
    }
}

fn of_list(sentences: &[String]) -> String {
    let item = |sentence: &String| format!("<li>{}</li>\n", escape(sentence));
    let items: String = sentences.iter().map(item).collect();
    format!("<ul class=\"muted\">\n{items}</ul>\n")
}

fn of_files(files: &[(String, String)]) -> String {
    let link = |(file, what): &(String, String)| {
        let file = escape(file);
        format!("<a href=\"{file}\">{file}</a> ({})", escape(what))
    };
    let links: Vec<String> = files.iter().map(link).collect();
    format!(
        "<p class=\"muted\">For machines: {}.</p>\n",
        links.join(", ")
    )
}

/// Tables of more columns than this do not fit on a narrow screen.
const WIDE_FROM: usize = 4;
/// Tables of so many columns are set smaller, to fit on a page of 1280 pixels.
const DENSE_FROM: usize = 13;

fn of_table(table: &Table) -> String {
    let mut html = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(html, "<h3>{}</h3>", escape(&table.title));
    }
    // The lines of a head are for terminals, and columns without a word at the end take space for nothing.
    let has_words = |i: &usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(*i));
        !table.heads[*i].is_empty() || cells.any(|cell| !cell.text.is_empty())
    };
    let columns = (0..table.heads.len())
        .rev()
        .find(has_words)
        .map_or(0, |last| last + 1);
    let heads = table.heads[..columns]
        .iter()
        .map(|head| head.replace('\n', " "));
    let heads: Vec<String> = heads.collect();
    // Rows without a name belong to the one above, and a line divides such groups.
    let is_named = |row: &[Cell]| {
        let first = row.first();
        first.is_none_or(|cell| cell.kind != CellKind::Words || !cell.text.is_empty())
    };
    let has_groups = !table.rows.iter().all(|row| is_named(row));
    // A table that is wider than a narrow screen has its cells below each other there, each with its head.
    // Groups of rows are scrolled instead.
    let is_wide = columns > WIDE_FROM && !has_groups;
    let class = match columns {
        DENSE_FROM.. if has_groups => " class=\"groups dense\"",
        _ if has_groups => " class=\"groups\"",
        DENSE_FROM.. => " class=\"stack dense\"",
        _ if is_wide => " class=\"stack\"",
        _ => "",
    };
    let _ = write!(html, "<div class=\"wide\"><table{class}>\n<thead><tr>");
    for (i, head) in heads.iter().enumerate() {
        let kind = table.rows.first().and_then(|r| r.get(i)).map(|c| c.kind);
        let left = matches!(kind, Some(CellKind::Words | CellKind::Long));
        let class = if left { "" } else { " class=\"v\"" };
        let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(head));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        if row.len() == 1 && columns > 1 {
            let title = escape(&row[0].text);
            let _ = writeln!(html, "<tr><th colspan=\"{columns}\">{title}</th></tr>");
            continue;
        }
        let is_first = has_groups && is_named(row);
        html += if is_first {
            "<tr class=\"first\">"
        } else {
            "<tr>"
        };
        for (i, cell) in row.iter().take(columns).enumerate() {
            let head = heads.get(i).filter(|_| is_wide);
            html += &of_cell(cell, i == 0, head.map(String::as_str));
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}

/// The first cell of a row is its head, if it has words. `column` is the head of its column where cells of a
/// narrow screen need it.
fn of_cell(cell: &Cell, is_first: bool, column: Option<&str>) -> String {
    let column = column.filter(|head| !head.is_empty());
    let column = column.map_or(String::new(), |h| format!(" data-h=\"{}\"", escape(h)));
    let class = match cell.kind {
        CellKind::Words => "n",
        CellKind::Number => "v",
        CellKind::Faint => "v change",
        CellKind::Met => "v met",
        CellKind::Missed => "v missed",
        CellKind::Long => "why",
        CellKind::Shaded(0) => "v",
        CellKind::Shaded(1) => "v s1",
        CellKind::Shaded(2) => "v s2",
        CellKind::Shaded(3) => "v s3",
        CellKind::Shaded(_) => "v s4",
    };
    let text = escape(&cell.text);
    if is_first && cell.kind == CellKind::Words {
        format!("<th scope=\"row\" class=\"{class}\"{column}>{text}</th>")
    } else {
        format!("<td class=\"{class}\"{column}>{text}</td>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Picture;
    use crate::document::Section;

    #[test]
    fn a_document_stands_alone_and_keeps_text_text() {
        let hostile = "<script>alert(1)</script>\u{202e}";
        let cell = |kind| Cell::new(hostile, kind);
        let page = html(&Document {
            title: hostile.into(),
            about: vec![hostile.into()],
            answer: vec![hostile.into()],
            sections: vec![Section::new(
                "a\"b",
                hostile,
                vec![
                    Part::Words(hostile.into()),
                    Part::Command(hostile.into()),
                    Part::Table(Table {
                        title: hostile.into(),
                        heads: vec![hostile.into(), "n".into()],
                        rows: vec![vec![cell(CellKind::Words), cell(CellKind::Missed)]],
                    }),
                ],
            )],
        });
        assert!(!page.contains("<script") && !page.contains('\u{202e}'));
        assert!(page.contains("id=\"a&quot;b\""));
        assert!(page.contains("default-src 'none'"));
        assert!(page.contains("class=\"v missed\"") && page.ends_with("</body>\n</html>\n"));
    }

    /// On a narrow screen a wide table has its cells below each other: each says of which column it is, and a
    /// narrow table does not.
    #[test]
    fn cells_of_wide_tables_know_their_heads() {
        let table = |columns: usize| Table {
            title: String::new(),
            heads: (0..columns).map(|n| format!("\"head {n}\"")).collect(),
            rows: vec![vec![Cell::number("1"); columns]],
        };
        let page = |columns| {
            html(&Document {
                title: "t".into(),
                about: Vec::new(),
                answer: Vec::new(),
                sections: vec![Section::new("t", "t", vec![Part::Table(table(columns))])],
            })
        };
        let (narrow, wide) = (page(4), page(5));
        assert!(!narrow.contains("<table class=\"stack\">") && !narrow.contains("data-h="));
        assert!(wide.contains("<table class=\"stack\">"), "{wide}");
        assert_eq!(wide.matches("data-h=\"&quot;head ").count(), 5, "{wide}");
        // The heads go where they do not fit, and nowhere else.
        let narrow_only = wide
            .split_once("@media(max-width")
            .expect("rules for narrow screens")
            .1;
        assert!(narrow_only.contains(".stack thead{display:none}"));
    }

    /// Pictures keep a size at which they can be read, and are scrolled instead.
    #[test]
    fn pictures_of_a_document_can_be_scrolled() {
        let picture = Picture {
            size: (400.0, 100.0),
            label: "t".into(),
            marks: Vec::new(),
        };
        let page = html(&Document {
            title: "t".into(),
            about: Vec::new(),
            answer: Vec::new(),
            sections: vec![Section::new("t", "t", vec![Part::Picture(picture)])],
        });
        assert!(page.contains("><svg "), "{page}");
        assert!(page.contains(".wide>svg{min-width:44rem}"));
    }
}
