// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots and bars: everything lies inside its picture.

use super::*;
use weir_figures::{At, Ink, Mark};

fn curve(shape: Shape, points: &[(f64, f64)]) -> Curve {
    Curve {
        name: "ours".into(),
        ink: Ink::Held,
        shape,
        points: points.to_vec(),
    }
}

fn one(x: Axis, curves: Vec<Curve>) -> Plot {
    Plot {
        title: "a plot".into(),
        x,
        y: Axis::linear("y"),
        panels: vec![Panel {
            title: "panel".into(),
            curves,
        }],
        reference: Some(("set-point".into(), 4.0)),
        panels_a_row: 3,
        has_own_axes: false,
    }
}

fn lines(picture: &Picture, ink: Ink) -> Vec<&Vec<At>> {
    let of = |mark| match mark {
        &Mark::Line { ink: i, ref points } if i == ink => Some(points),
        _ => None,
    };
    picture.marks.iter().filter_map(of).collect()
}

/// Every point of every mark lies on the paper.
fn inside(picture: &Picture) {
    let (width, height) = picture.size;
    let is_in = |(x, y): At| (0.0..=width).contains(&x) && (0.0..=height).contains(&y);
    for mark in &picture.marks {
        let fits = match mark {
            Mark::Rect { at, size, .. } => is_in(*at) && is_in((at.0 + size.0, at.1 + size.1)),
            Mark::Line { points, .. } | Mark::Area { points, .. } => {
                points.iter().copied().all(is_in)
            }
            Mark::Text { at, .. } => is_in(*at),
        };
        assert!(fits, "{mark:?} on {width} × {height}");
    }
}

#[test]
fn a_gap_breaks_the_line_and_nothing_leaves_the_paper() {
    let fonts = Fonts::load().unwrap();
    let points = [
        (0.0, 1.0),
        (1.0, f64::NAN),
        (2.0, 8.0),
        (3.0, 1e300),
        (4.0, 2.0),
    ];
    let picture = plot(
        &one(Axis::linear("x"), vec![curve(Shape::Line, &points)]),
        &fonts,
    );
    inside(&picture);
    // The legend's sample, and the single points before, between and after what cannot be drawn.
    assert_eq!(lines(&picture, Ink::Held).len(), 4);
    png(&picture, &fonts).unwrap();
}

#[test]
fn a_logarithmic_axis_has_equal_steps_for_equal_factors() {
    let fonts = Fonts::load().unwrap();
    let points = [
        (-1.0, 3.0),
        (0.0, 3.0),
        (1.0, 3.0),
        (10.0, 3.0),
        (100.0, 3.0),
    ];
    let picture = plot(
        &one(Axis::log("x"), vec![curve(Shape::Line, &points)]),
        &fonts,
    );
    inside(&picture);
    let drawn = lines(&picture, Ink::Held).pop().unwrap();
    let steps: Vec<f32> = drawn.windows(2).map(|w| w[1].0 - w[0].0).collect();
    assert_eq!(steps.len(), 2, "what is not above zero has no place");
    assert!((steps[0] - steps[1]).abs() < 0.01, "{steps:?}");
}

#[test]
fn steps_stay_until_the_next_value() {
    let fonts = Fonts::load().unwrap();
    let points = [(0.0, 1.0), (1.0, 3.0)];
    let picture = plot(
        &one(Axis::linear("x"), vec![curve(Shape::Steps, &points)]),
        &fonts,
    );
    let drawn = lines(&picture, Ink::Held).pop().unwrap();
    assert_eq!(drawn.len(), 3);
    assert_eq!((drawn[1].0, drawn[1].1), (drawn[2].0, drawn[0].1));
}

#[test]
fn nothing_to_draw_is_no_panic() {
    let fonts = Fonts::load().unwrap();
    for x in [Axis::linear("x"), Axis::log("x")] {
        let mut empty = one(x, Vec::new());
        empty.reference = None;
        inside(&plot(&empty, &fonts));
        empty.panels.clear();
        inside(&plot(&empty, &fonts));
    }
    let none = Bars {
        title: "none".into(),
        axis: "s".into(),
        printed: String::new(),
        bars: Vec::new(),
    };
    inside(&bars(&none));
}

#[test]
fn bars_are_as_long_as_their_values() {
    let bar = |name: &str, value: f64| Bar {
        name: name.into(),
        value,
        range: Some((value * 0.9, value * 1.1)),
        printed: Some(value * 1.05),
        is_base: false,
    };
    let picture = bars(&Bars {
        title: "cost".into(),
        axis: "s".into(),
        printed: "printed".into(),
        bars: vec![bar("a", 1.0), bar("b", 0.5)],
    });
    inside(&picture);
    let length = |mark: &Mark| match mark {
        Mark::Rect { ink, size, .. } if *ink == Ink::Held => Some(size.0),
        _ => None,
    };
    let lengths: Vec<f32> = picture.marks.iter().filter_map(length).collect();
    assert!((lengths[0] / lengths[1] - 2.0).abs() < 1e-3, "{lengths:?}");
}

/// A stack of parts has no area where nothing is known, and all of it lies inside.
#[test]
fn a_stack_has_gaps_where_nothing_is_known() {
    use crate::picture::stack::{Layer, Moment, SpanAxis, TimeStack, stack};
    use weir_figures::Hatch;
    let layer = |values: [Option<f64>; 4]| Layer {
        name: "a part".into(),
        look: (Ink::Cxl, Hatch::Rising),
        values: values.into(),
    };
    let picture = stack(&TimeStack {
        title: "t".into(),
        x: SpanAxis {
            name: "s".into(),
            spans: vec![(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)],
        },
        y: "%".into(),
        layers: vec![layer([Some(0.5), None, Some(2.0), Some(0.25)])],
        moments: vec![Moment {
            at: 9.0,
            name: "late".into(),
        }],
    });
    inside(&picture);
    let areas = |wanted: Ink| {
        let of = |mark: &&Mark| matches!(mark, Mark::Area { ink, points, .. } if *ink == wanted && points.len() > 3);
        picture.marks.iter().filter(of).count()
    };
    // Two runs and the legend's sample; the gap, and its sample.
    assert_eq!((areas(Ink::Cxl), areas(Ink::Grid)), (3, 2));
    png(&picture, &Fonts::load().unwrap()).unwrap();
}

/// Each panel fits its own points, where that is asked for.
#[test]
fn panels_may_have_axes_of_their_own() {
    let fonts = Fonts::load().unwrap();
    let panel = |high: f64| Panel {
        title: "p".into(),
        curves: vec![curve(Shape::Dots, &[(1.0, high)])],
    };
    let mut two = one(Axis::linear("x"), Vec::new());
    two.reference = None;
    two.panels = vec![panel(1.0), panel(1000.0)];
    let heights = |plotted: &Picture| -> Vec<f32> {
        let dot = |mark: &Mark| match mark {
            Mark::Rect {
                ink: Ink::Held,
                at,
                size,
            } if size.0 == 5.0 && at.1 > 70.0 => Some(at.1),
            _ => None,
        };
        plotted.marks.iter().filter_map(dot).collect()
    };
    let shared = heights(&plot(&two, &fonts));
    two.has_own_axes = true;
    let own = plot(&two, &fonts);
    inside(&own);
    let own = heights(&own);
    assert!(shared[0] - shared[1] > 100.0, "{shared:?}");
    assert!((own[0] - own[1]).abs() < 0.1, "{own:?}");
}
