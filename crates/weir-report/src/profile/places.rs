// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets, ports and devices one by one: queues with their parts of the requests, and lines that each moves.

use super::words::{cell, known_cell, queue_words, value};
use weir_figures::text::NONE;
use weir_figures::{Cell, Part, Table};
use weir_profile::Answer;
use weir_profile::figure::places::place_words;
use weir_profile::report::{PlaceFigures, Report, shown_lines, shown_queues};

/// Rows of a table; more are in report.json.
const ROWS_MAX: usize = 400;

/// The tables; none where there is one place of each kind at most.
pub fn parts(report: &Report) -> Vec<Part> {
    let places = &report.by_place;
    let tables = [queues(places), moved(places)];
    let tables = tables.into_iter().filter(|table| !table.rows.is_empty());
    tables
        .map(|mut table| {
            table.rows.truncate(ROWS_MAX);
            Part::Table(table)
        })
        .collect()
}

fn queues(places: &[PlaceFigures]) -> Table {
    let rows = places.iter().flat_map(|place| {
        shown_queues(place).map(|queue| -> Vec<Cell> {
            let figures = &queue.figures;
            vec![
                Cell::words(place_words(place.place)),
                Cell::words(queue_words(figures.role)),
                cell(&figures.requests_per_sec),
                cell(&queue.share),
                cell(&figures.residence_ns),
                cell(&figures.waiting_ns),
                cell(&figures.pressure),
                known_cell(match &figures.residence_ns {
                    Ok(_) => &figures.residence_ns,
                    Err(_) => &figures.entries,
                }),
            ]
        })
    });
    Table::new(
        "Queues of each socket, port and device",
        &[
            "place",
            "queue",
            "requests",
            "part of those of all places",
            "residence",
            "waiting time",
            "pressure",
            "how it is known",
        ],
        rows,
    )
}

fn moved(places: &[PlaceFigures]) -> Table {
    let rows = places.iter().flat_map(|place| {
        shown_lines(place).map(|lines| -> Vec<Cell> {
            let mut way = place
                .busy
                .iter()
                .filter(|(role, _)| role.path == lines.role.path);
            let busy = way.next().map(|(_, busy)| busy);
            vec![
                Cell::words(place_words(place.place)),
                Cell::words(queue_words(lines.role)),
                cell(&lines.per_sec),
                cell(&lines.share),
                Cell::number(shown(busy)),
                known_cell(&lines.per_sec),
            ]
        })
    });
    Table::new(
        "Lines that each socket, port and device moves",
        &[
            "place",
            "lines",
            "a second",
            "part of those of all places",
            "link busy",
            "how it is known",
        ],
        rows,
    )
}

fn shown(busy: Option<&Answer>) -> String {
    match busy {
        Some(Ok(figure)) => value(figure),
        _ => NONE.into(),
    }
}
