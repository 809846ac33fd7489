// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paper and ink: a picture is a list of [`Mark`]s, which become SVG for the page and a PNG for
//! everything else. Both come from the same marks, so they cannot differ.
//!
//! The font is built in (DejaVu Sans), so that the picture does not depend on the machine it is
//! drawn on. Colours are those of Okabe and Ito, which are distinct for people with any kind of colour
//! vision. The text beside them always says what they mean, too.

use crate::text::escape;
use anyhow::{Context, Result};
use std::fmt::Write;
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash,
    Transform,
};

/// A point, in units of the picture from its upper left corner.
pub type At = (f32, f32);

/// What something is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Title, names.
    Text,
    /// Everything that explains.
    Muted,
    /// Lines of the grid.
    Grid,
    /// The axes.
    Axis,
    /// The span that figures are taken from.
    Span,
    /// Bandwidth of the run without control.
    Free,
    /// Bandwidth of a run with control.
    Held,
    /// The set-point.
    SetPoint,
    /// The capacity.
    Capacity,
    /// A third curve.
    Third,
    /// A fourth curve.
    Fourth,
    /// A fifth curve.
    Fifth,
    /// Limits over time.
    Limit,
}

/// Which end of a text is at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// One thing drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Filled rectangle.
    Rect {
        /// With what.
        ink: Ink,
        /// Upper left corner.
        at: At,
        /// Width and height.
        size: At,
    },
    /// Line through points.
    Line {
        /// With what.
        ink: Ink,
        /// The points.
        points: Vec<At>,
    },
    /// Text on a base line.
    Text {
        /// With what.
        ink: Ink,
        /// Where.
        at: At,
        /// Which end is there.
        anchor: Anchor,
        /// Font size.
        size: f32,
        /// Whether it is bold.
        bold: bool,
        /// Whether it runs upwards.
        upwards: bool,
        /// The words.
        text: String,
    },
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Width and height.
    pub size: At,
    /// What it shows, for readers that do not see it.
    pub label: String,
    /// From back to front.
    pub marks: Vec<Mark>,
}

impl Ink {
    const ALL: [Ink; 13] = [
        Ink::Text,
        Ink::Muted,
        Ink::Grid,
        Ink::Axis,
        Ink::Span,
        Ink::Free,
        Ink::Held,
        Ink::SetPoint,
        Ink::Capacity,
        Ink::Third,
        Ink::Fourth,
        Ink::Fifth,
        Ink::Limit,
    ];

    /// For curves that lie in one panel, in this order.
    pub const CURVES: [Ink; 5] = [Ink::Held, Ink::Free, Ink::Third, Ink::Fourth, Ink::Fifth];

    fn class(self) -> &'static str {
        match self {
            Ink::Text => "i-text",
            Ink::Muted => "i-muted",
            Ink::Grid => "i-grid",
            Ink::Axis => "i-axis",
            Ink::Span => "i-span",
            Ink::Free => "i-free",
            Ink::Held => "i-held",
            Ink::SetPoint => "i-set-point",
            Ink::Capacity => "i-capacity",
            Ink::Third => "i-third",
            Ink::Fourth => "i-fourth",
            Ink::Fifth => "i-fifth",
            Ink::Limit => "i-limit",
        }
    }

    /// On white, and on a dark page.
    fn colours(self) -> (u32, u32) {
        match self {
            Ink::Text => (0x1b1f24, 0xe6e8eb),
            Ink::Muted => (0x57606a, 0x9aa4b0),
            Ink::Grid => (0xe4e7eb, 0x2b3138),
            Ink::Axis => (0x8b949e, 0x6b7580),
            Ink::Span => (0xf5f7f9, 0x1b2026),
            Ink::Free => (0xd55e00, 0xf08a3c),
            Ink::Held => (0x0072b2, 0x56b4e9),
            Ink::SetPoint => (0x1b1f24, 0xe6e8eb),
            Ink::Capacity => (0x57606a, 0x9aa4b0),
            Ink::Third => (0x009e73, 0x2fc79c),
            Ink::Fourth => (0xaa4499, 0xe09cc4),
            Ink::Fifth => (0xb8860b, 0xf2c14e),
            Ink::Limit => (0x009e73, 0x2fc79c),
        }
    }

    fn width(self) -> f32 {
        match self {
            Ink::Free => 1.1,
            Ink::Held => 1.5,
            Ink::SetPoint => 1.3,
            Ink::Capacity => 1.2,
            _ => 1.0,
        }
    }

    fn dashes(self) -> Option<[f32; 2]> {
        match self {
            Ink::SetPoint => Some([7.0, 4.0]),
            Ink::Capacity => Some([1.5, 3.5]),
            Ink::Limit => Some([4.0, 2.5]),
            _ => None,
        }
    }
}

/// CSS for an SVG on a dark page. On a light one the marks' own colours stand.
pub fn dark_css() -> String {
    let mut css = String::new();
    for ink in Ink::ALL {
        let (class, colour) = (ink.class(), ink.colours().1);
        let _ = write!(css, "line.{class},polyline.{class}{{stroke:#{colour:06x}}}");
        let _ = write!(css, "rect.{class},text.{class}{{fill:#{colour:06x}}}");
    }
    css
}

/// The picture as an SVG element to stand in a page (without a name space, which a page knows).
pub fn svg(picture: &Picture) -> String {
    let (width, height) = picture.size;
    let label = escape(&picture.label);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\" \
         font-family=\"DejaVu Sans, Verdana, sans-serif\">\n"
    );
    for mark in &picture.marks {
        svg += &svg_mark(mark);
    }
    svg + "</svg>\n"
}

fn svg_mark(mark: &Mark) -> String {
    match mark {
        Mark::Rect { ink, at, size } => format!(
            "<rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             fill=\"#{:06x}\"/>\n",
            ink.class(),
            at.0,
            at.1,
            size.0,
            size.1,
            ink.colours().0,
        ),
        Mark::Line { ink, points } => {
            let dashes = ink.dashes().map_or(String::new(), |[on, off]| {
                format!(" stroke-dasharray=\"{on} {off}\"")
            });
            let points: Vec<String> = points
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            format!(
                "<polyline class=\"{}\" fill=\"none\" stroke=\"#{:06x}\" stroke-width=\"{}\" \
                 stroke-linejoin=\"round\"{dashes} points=\"{}\"/>\n",
                ink.class(),
                ink.colours().0,
                ink.width(),
                points.join(" "),
            )
        }
        Mark::Text {
            ink,
            at: (x, y),
            anchor,
            size,
            bold,
            upwards,
            text,
        } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let weight = if *bold { " font-weight=\"bold\"" } else { "" };
            let rotation = match upwards {
                true => format!(" transform=\"rotate(-90 {x:.1} {y:.1})\""),
                false => String::new(),
            };
            format!(
                "<text class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" \
                 text-anchor=\"{anchor}\" fill=\"#{:06x}\"{weight}{rotation}>{}</text>\n",
                ink.class(),
                ink.colours().0,
                escape(text),
            )
        }
    }
}

/// The two faces that are built in.
pub struct Fonts {
    regular: ttf_parser::Face<'static>,
    bold: ttf_parser::Face<'static>,
}

impl Fonts {
    /// Read them.
    ///
    /// # Errors
    /// The program was built with a broken font.
    pub fn load() -> Result<Self> {
        let face = |data| ttf_parser::Face::parse(data, 0).context("the built-in font is broken");
        Ok(Fonts {
            regular: face(dejavu::sans::regular())?,
            bold: face(dejavu::sans::bold())?,
        })
    }

    fn face(&self, bold: bool) -> &ttf_parser::Face<'static> {
        if bold { &self.bold } else { &self.regular }
    }

    /// How wide a text is at a font size.
    pub fn width(&self, text: &str, size: f32, bold: bool) -> f32 {
        let face = self.face(bold);
        let advance = |c| f32::from(face.glyph_hor_advance(glyph(face, c)).unwrap_or(0));
        text.chars().map(advance).sum::<f32>() * size / f32::from(face.units_per_em())
    }

    /// The outline of a text that begins at the origin.
    fn outline(&self, text: &str, size: f32, bold: bool) -> Option<Path> {
        let face = self.face(bold);
        let scale = size / f32::from(face.units_per_em());
        let mut pen = Pen {
            path: PathBuilder::new(),
            x: 0.0,
            scale,
        };
        for c in text.chars() {
            let id = glyph(face, c);
            face.outline_glyph(id, &mut pen);
            pen.x += f32::from(face.glyph_hor_advance(id).unwrap_or(0)) * scale;
        }
        pen.path.finish()
    }
}

/// The glyph of a character; the font's box for one it does not have.
fn glyph(face: &ttf_parser::Face, c: char) -> ttf_parser::GlyphId {
    face.glyph_index(c).unwrap_or_default()
}

/// Takes a glyph's outline (y upwards, font units) over into a path (y downwards).
struct Pen {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> At {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl ttf_parser::OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

/// The picture as a PNG on white, `scale` pixels a unit.
///
/// # Errors
/// It is too large for memory, or cannot be encoded.
pub fn png(picture: &Picture, fonts: &Fonts, scale: f32) -> Result<Vec<u8>> {
    let (width, height) = (
        (picture.size.0 * scale) as u32,
        (picture.size.1 * scale) as u32,
    );
    let mut pixels = Pixmap::new(width, height)
        .with_context(|| format!("a picture of {width} × {height} pixels cannot be made"))?;
    pixels.fill(Color::WHITE);
    for mark in &picture.marks {
        paint(
            &mut pixels,
            mark,
            fonts,
            Transform::from_scale(scale, scale),
        );
    }
    pixels.encode_png().context("the picture cannot be encoded")
}

/// Marks that tiny-skia cannot draw (no extent, not finite) leave no trace, as in an SVG.
fn paint(pixels: &mut Pixmap, mark: &Mark, fonts: &Fonts, to_pixels: Transform) {
    match mark {
        Mark::Rect { ink, at, size } => {
            if let Some(rect) = Rect::from_xywh(at.0, at.1, size.0, size.1) {
                pixels.fill_rect(rect, &colour(*ink), to_pixels, None);
            }
        }
        Mark::Line { ink, points } => {
            let mut path = PathBuilder::new();
            for (i, (x, y)) in points.iter().enumerate() {
                if i == 0 {
                    path.move_to(*x, *y)
                } else {
                    path.line_to(*x, *y)
                }
            }
            let stroke = Stroke {
                width: ink.width(),
                line_cap: LineCap::Butt,
                line_join: LineJoin::Round,
                dash: ink.dashes().and_then(|d| StrokeDash::new(d.to_vec(), 0.0)),
                ..Stroke::default()
            };
            if let Some(path) = path.finish() {
                pixels.stroke_path(&path, &colour(*ink), &stroke, to_pixels, None);
            }
        }
        Mark::Text {
            ink,
            at,
            anchor,
            size,
            bold,
            upwards,
            text,
        } => {
            let width = fonts.width(text, *size, *bold);
            let back = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => width / 2.0,
                Anchor::End => width,
            };
            let rotation = if *upwards { -90.0 } else { 0.0 };
            let place = to_pixels
                .pre_translate(at.0, at.1)
                .pre_concat(Transform::from_rotate(rotation))
                .pre_translate(-back, 0.0);
            if let Some(path) = fonts.outline(text, *size, *bold) {
                pixels.fill_path(&path, &colour(*ink), FillRule::Winding, place, None);
            }
        }
    }
}

fn colour(ink: Ink) -> Paint<'static> {
    let [_, red, green, blue] = ink.colours().0.to_be_bytes();
    let mut paint = Paint {
        anti_alias: true,
        ..Paint::default()
    };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}
