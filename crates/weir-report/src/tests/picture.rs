// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The picture: its marks, and the pixels they become.

use super::*;
use crate::picture::layout::Width;
use weir_figures::{Anchor, At, Ink, Mark, svg};

#[test]
fn the_picture_shows_each_run_where_it_was() {
    let fonts = Fonts::load().unwrap();
    let mut results = results();
    results.runs[1].series[50].bytes_per_sec = f64::NAN;
    let picture = chart::bandwidth(&subject(), &results, &fonts, Width::Page);
    let lines = |wanted: Ink| -> Vec<&Vec<At>> {
        let points = |m| match m {
            &Mark::Line { ink, ref points } if ink == wanted => Some(points),
            _ => None,
        };
        picture.marks.iter().filter_map(points).collect()
    };
    let (free, held) = (lines(Ink::Free), lines(Ink::Held));
    assert_eq!(free.iter().map(|l| l.len()).collect::<Vec<_>>(), [100]);
    assert_eq!(
        held.iter().map(|l| l.len()).collect::<Vec<_>>(),
        [50, 49],
        "broken at the gap"
    );
    let (capacity, target) = (lines(Ink::Capacity)[0][0].1, lines(Ink::SetPoint)[0][0].1);
    assert!(
        capacity < free[0][0].1 && free[0][0].1 < target,
        "72 lies between 90.4 and 36"
    );
    let per_mib = (target - capacity) / (90.422 - 36.0);
    assert!(
        (held[0][0].1 - (target - 0.36 * per_mib)).abs() < 0.5,
        "36.36 lies above 36"
    );
    let words = svg(&picture);
    for part in [
        "capacity 90.4 MiB/s",
        "set-point 36.0 MiB/s",
        "without weir, mean 72.0 MiB/s",
    ] {
        assert!(words.contains(part), "{part}");
    }
}

#[test]
fn the_png_has_the_picture_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), &subject(), &results()).unwrap();
    let picture = tiny_skia::Pixmap::load_png(&files[2]).unwrap();
    assert_eq!((picture.width(), picture.height()), (2400, 1200));
    let count = |rgb: [u8; 3]| {
        let same = |p: &&tiny_skia::PremultipliedColorU8| [p.red(), p.green(), p.blue()] == rgb;
        picture.pixels().iter().filter(same).count()
    };
    assert!(count([0x00, 0x72, 0xb2]) > 1000, "the line with weir");
    assert!(count([0xd5, 0x5e, 0x00]) > 1000, "the line without");
    assert!(count([0x1b, 0x1f, 0x24]) > 1000, "the words");
}

#[test]
fn a_dense_series_keeps_its_extremes() {
    let fonts = Fonts::load().unwrap();
    let mut results = results();
    let flat = |i: u32| Point {
        at_ms: f64::from(i),
        bytes_per_sec: 50.0 * MIB,
    };
    results.runs[1].series = (0..200_000).map(flat).collect();
    results.runs[1].series[77_777].bytes_per_sec = 88.0 * MIB;
    let picture = chart::bandwidth(&subject(), &results, &fonts, Width::Page);
    let held = picture.marks.iter().find_map(|m| match m {
        Mark::Line {
            ink: Ink::Held,
            points,
        } => Some(points),
        _ => None,
    });
    let held = held.unwrap();
    assert!(held.len() < 3000, "{} points", held.len());
    let span = held.iter().map(|p| p.1).fold(f32::MAX, f32::min);
    assert!(
        held[0].1 - span > 100.0,
        "the one high window is still there"
    );
}

/// Ink and words of what is written above panels.
fn panel_names(picture: &Picture) -> Vec<(Ink, String)> {
    let name = |mark: &Mark| match mark {
        Mark::Text {
            ink,
            bold: true,
            text,
            ..
        } if text.contains(", mean ") => {
            let name = text.split(", mean ").next().unwrap_or_default();
            Some((*ink, name.to_owned()))
        }
        _ => None,
    };
    picture.marks.iter().filter_map(name).collect()
}

#[test]
fn another_seed_without_control_is_not_drawn_as_control() {
    let fonts = Fonts::load().unwrap();
    let mut results = results();
    for run in super::results().runs {
        results.runs.push(Run { seed: 8, ..run });
    }
    let picture = chart::bandwidth(&subject(), &results, &fonts, Width::Page);
    let names = ["max-min, seed 7", "max-min, seed 8"];
    let wanted = names.map(|name| (Ink::Held, name.to_owned()));
    assert_eq!(panel_names(&picture), wanted);
    results.runs.retain(|run| run.policy == "none");
    let picture = chart::bandwidth(&subject(), &results, &fonts, Width::Page);
    let names = ["none, seed 7", "none, seed 8"];
    let wanted = names.map(|name| (Ink::Free, name.to_owned()));
    assert_eq!(panel_names(&picture), wanted);
    let held = |mark: &Mark| matches!(mark, Mark::Line { ink: Ink::Held, .. });
    assert!(!picture.marks.iter().any(held), "nothing was controlled");
}

/// Three runs as `make run` has them: weir starts while the second one goes on already.
fn live() -> Results {
    let mut results = results();
    let mut full = run("max-min", 36.1, 10_000.0);
    full.backend = "sched-ext-full".into();
    full.start_ms = Some(0.0);
    results.runs[1].start_ms = Some(4000.0);
    results.runs.push(full);
    results
}

#[test]
fn weir_begins_where_its_first_tick_was() {
    let fonts = Fonts::load().unwrap();
    for width in [Width::Page, Width::Phone] {
        let picture = chart::bandwidth(&subject(), &live(), &fonts, width);
        let begun = |mark: &Mark| match mark {
            Mark::Line {
                ink: Ink::Begin,
                points,
            } => Some(points[0].0),
            _ => None,
        };
        let begun: Vec<f32> = picture.marks.iter().filter_map(begun).collect();
        let held = |mark: &Mark| match mark {
            Mark::Line {
                ink: Ink::Held,
                points,
            } => Some(points[40].0),
            _ => None,
        };
        let at_4_sec = picture.marks.iter().find_map(held).unwrap();
        assert_eq!(begun.len(), 1, "the other began before");
        assert!((begun[0] - at_4_sec).abs() < 0.1);
        assert!(svg(&picture).contains("weir begins, 4.00 s"));
    }
}

#[test]
fn no_word_of_it_leaves_a_phone() {
    let fonts = Fonts::load().unwrap();
    let mut results = live();
    results.scenario = "a scenario whose name is as long as names are".into();
    let picture = chart::bandwidth(&subject(), &results, &fonts, Width::Phone);
    assert_eq!(picture.size.0, 400.0);
    for mark in &picture.marks {
        let Mark::Text {
            at,
            anchor,
            size,
            bold,
            upwards,
            text,
            ..
        } = mark
        else {
            continue;
        };
        if *upwards {
            assert!(at.0 >= 0.9 * size, "{text} is higher than its place");
            continue;
        }
        let width = fonts.width(text, *size, *bold);
        let left = match anchor {
            Anchor::Start => at.0,
            Anchor::Middle => at.0 - width / 2.0,
            Anchor::End => at.0 - width,
        };
        assert!(left >= 0.0 && left + width <= 400.0, "{text}");
    }
    for name in ["capacity 90.4 MiB/s", "set-point 36.0 MiB/s"] {
        assert!(svg(&picture).contains(name), "{name}");
    }
}

#[test]
fn runs_that_are_not_drawn_are_counted() {
    let fonts = Fonts::load().unwrap();
    let mut results = results();
    for seed in 8..30 {
        let held = super::results().runs.remove(1);
        results.runs.push(Run { seed, ..held });
    }
    let picture = chart::bandwidth(&subject(), &results, &fonts, Width::Page);
    assert!(
        picture
            .label
            .contains("(12 of 23 panels; the table has all runs)"),
        "{}",
        picture.label
    );
}

/// Distance of two colours as points of red, green and blue, 0 to 441.
fn distance((one, other): (u32, u32)) -> f64 {
    let part = |colour: u32, shift: u32| f64::from(colour >> shift & 255);
    let square = |shift| (part(one, shift) - part(other, shift)).powi(2);
    [0, 8, 16].map(square).iter().sum::<f64>().sqrt()
}

#[test]
fn curves_of_one_panel_are_told_apart_on_light_and_dark_pages() {
    for (n, ink) in Ink::CURVES.iter().enumerate() {
        for other in &Ink::CURVES[..n] {
            let ((light, dark), (light2, dark2)) = (ink.colours(), other.colours());
            for pair in [(light, light2), (dark, dark2)] {
                assert!(distance(pair) > 70.0, "{ink:?} and {other:?}: {pair:06x?}");
            }
        }
    }
}
