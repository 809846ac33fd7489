// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Heat maps as tables: each cell has its number, is coloured by how much is lost (orange) or won (blue), and
//! is hatched where that is not known. Orange and blue stay apart for people with any kind of colour vision.

use crate::text::escape;
use std::fmt::Write;

/// How much is lost or won: from `DOWN` 3 (all) over 0 (nothing) to `UP` 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heat {
    /// Lost, from 1 to 3.
    Down(u8),
    /// Nothing is lost or won.
    Even,
    /// Won, from 1 to 3.
    Up(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatCell {
    pub heat: Heat,
    /// Whether it is hatched: not known.
    pub is_hatched: bool,
    pub number: String,
    /// What explains the number.
    pub below: String,
    /// Place in the page that the cell leads to.
    pub leads_to: Option<String>,
    /// All of it in words, for readers that see no colours.
    pub says: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatRow {
    pub name: String,
    /// Its cells; nothing where there is none.
    pub cells: Vec<Option<HeatCell>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatMap {
    pub title: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    pub rows: Vec<HeatRow>,
}

/// Style of heat maps, on a light page.
pub const STYLE: &str = "\
:root{--d1:#fde3c8;--d2:#f5a55a;--d3:#b04a00;--u1:#d3e5f2;--u2:#7db4dc;--u3:#0b5a94;--d3t:#fff;--u3t:#fff;--d2t:#1b1f24;--u2t:#1b1f24;--line:#1b1f2433}\
.heat{font-size:.9rem;margin:.2rem 0 1rem}.heat caption{text-align:left;font-weight:600;padding:.3rem 0}\
.heat thead th{border:0;text-align:center;padding:.2rem .4rem;max-width:9rem;overflow-wrap:anywhere}\
.heat tbody th{font-weight:600;padding-right:.7rem;max-width:12rem;white-space:normal;vertical-align:middle}\
.heat td{padding:0;border:2px solid var(--page);text-align:center;min-width:6.6rem;background-clip:padding-box}\
.heat td>a,.heat td>span{display:block;padding:.4rem .45rem;text-decoration:none;color:inherit;line-height:1.2}\
.heat b{display:block;font-size:1.02rem}.heat small{display:block;font-size:.74rem}\
.heat td>a:hover,.heat td>a:focus-visible{outline:2px solid var(--text);outline-offset:-2px}\
.h-even{background-color:var(--soft)}.h-d1{background-color:var(--d1)}.h-d2{background-color:var(--d2);color:var(--d2t)}.h-d3{background-color:var(--d3);color:var(--d3t)}\
.h-u1{background-color:var(--u1)}.h-u2{background-color:var(--u2);color:var(--u2t)}.h-u3{background-color:var(--u3);color:var(--u3t)}\
.hatched{background-image:repeating-linear-gradient(135deg,transparent 0 6px,var(--line) 6px 7.5px)}\
.hatched b,.hatched small{width:fit-content;margin:0 auto;padding:0 .2rem;border-radius:2px;background-color:inherit}.hatched>a,.hatched>span{background-color:inherit;background-image:inherit}\
.heat.key,.key{display:flex;flex-wrap:wrap;gap:.35rem;list-style:none;padding:0;margin:.8rem 0 1.4rem;font-size:.8rem}.key li{padding:.2rem .55rem}.key .h-even{border:1px solid var(--rule)}\
.choice{display:none;border:1px solid var(--rule);border-radius:6px;padding:.4rem 1rem 1rem;margin:1rem 0;scroll-margin-top:1rem}.choice:target{display:block}\
.beside.narrow{grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:0 1.2rem}.narrow .heat td{min-width:5.2rem}\
@media(max-width:44rem){.heat td{min-width:4.9rem}.heat tbody th{max-width:6rem}.heat td>a,.heat td>span{padding:.35rem .2rem}.heat b{font-size:.9rem}.heat small{font-size:.66rem}}\
@media print{.choice{display:block;break-inside:avoid}.heat td,.key li{print-color-adjust:exact}}";

/// Colours on a dark page.
pub const DARK: &str = "\
:root{--d1:#46301c;--d2:#8a4a12;--d3:#f5964a;--u1:#1d3548;--u2:#245f8c;--u3:#7cc4f5;--d3t:#14181d;--u3t:#14181d;--d2t:#fff;--u2t:#fff;--line:#e6e8eb40}";

impl Heat {
    fn class(self) -> &'static str {
        match self {
            Heat::Down(0) | Heat::Even | Heat::Up(0) => "h-even",
            Heat::Down(1) => "h-d1",
            Heat::Down(2) => "h-d2",
            Heat::Down(_) => "h-d3",
            Heat::Up(1) => "h-u1",
            Heat::Up(2) => "h-u2",
            Heat::Up(_) => "h-u3",
        }
    }
}

fn class(cell: &HeatCell) -> String {
    let hatched = if cell.is_hatched { " hatched" } else { "" };
    format!("{}{hatched}", cell.heat.class())
}

pub fn heat_map(map: &HeatMap) -> String {
    let mut html = format!(
        "<div class=\"wide\"><table class=\"heat\">\n<caption>{}</caption>\n<thead><tr><td></td>",
        escape(&map.title)
    );
    for column in &map.columns {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(column));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in &map.rows {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&row.name));
        for cell in &row.cells {
            html += &cell.as_ref().map_or("<td></td>".into(), of_cell);
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}

fn of_cell(cell: &HeatCell) -> String {
    let inner = format!(
        "<b>{}</b><small>{}</small>",
        escape(&cell.number),
        escape(&cell.below)
    );
    let (class, says) = (class(cell), escape(&cell.says));
    match &cell.leads_to {
        Some(id) => format!(
            "<td class=\"{class}\"><a href=\"#{}\" title=\"{says}\" aria-label=\"{says}\">{inner}</a></td>",
            escape(id)
        ),
        None => format!("<td class=\"{class}\"><span title=\"{says}\">{inner}</span></td>"),
    }
}

/// What the colours mean: cells of which only colour and number are shown.
pub fn heat_key(cells: &[HeatCell]) -> String {
    let entry = |cell: &HeatCell| {
        format!(
            "<li class=\"{}\"><b>{}</b></li>\n",
            class(cell),
            escape(&cell.number)
        )
    };
    let entries: String = cells.iter().map(entry).collect();
    format!("<ul class=\"key heat\" aria-label=\"Colours\">\n{entries}</ul>\n")
}
