// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures as PNG. The font is built in (DejaVu Sans), so that a picture does not depend on the machine it
//! is drawn on.

use anyhow::{Context, Result};
use std::sync::OnceLock;
use tiny_skia::{
    Color, FillRule, FilterQuality, LineCap, LineJoin, Paint, Path, PathBuilder, Pattern, Pixmap,
    Rect, SpreadMode, Stroke, StrokeDash, Transform,
};
use weir_figures::{Anchor, At, Mark, Picture};
use weir_figures::{HATCH_SIDE, Hatch, Ink};

/// A built-in face, compressed, and what it is once it was needed.
struct BuiltIn {
    frame: &'static [u8],
    face: OnceLock<Vec<u8>>,
}

impl BuiltIn {
    const fn new(frame: &'static [u8]) -> BuiltIn {
        let face = OnceLock::new();
        BuiltIn { frame, face }
    }

    fn parse(&'static self) -> Result<ttf_parser::Face<'static>> {
        let data = match self.face.get() {
            Some(data) => data,
            None => {
                let data = zstd::stream::decode_all(self.frame)?;
                self.face.get_or_init(|| data)
            }
        };
        Ok(ttf_parser::Face::parse(data, 0)?)
    }
}

static REGULAR: BuiltIn = BuiltIn::new(include_bytes!(concat!(env!("OUT_DIR"), "/regular.zst")));
static BOLD: BuiltIn = BuiltIn::new(include_bytes!(concat!(env!("OUT_DIR"), "/bold.zst")));

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
        let face = |of: &'static BuiltIn| of.parse().context("the built-in font is broken");
        Ok(Fonts {
            regular: face(&REGULAR)?,
            bold: face(&BOLD)?,
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
        Mark::Area { ink, hatch, points } => fill(pixels, *ink, *hatch, points, to_pixels),
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

fn polygon(points: &[At]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (i, (x, y)) in points.iter().enumerate() {
        match i {
            0 => path.move_to(*x, *y),
            _ => path.line_to(*x, *y),
        }
    }
    path.close();
    path.finish()
}

fn fill(pixels: &mut Pixmap, ink: Ink, hatch: Hatch, points: &[At], to_pixels: Transform) {
    let Some(path) = polygon(points) else { return };
    pixels.fill_path(&path, &colour(ink), FillRule::Winding, to_pixels, None);
    let scale = to_pixels.sx;
    let Some(tile) = tile(hatch, scale) else {
        return;
    };
    let back = Transform::from_scale(1.0 / scale, 1.0 / scale);
    let mut lines = colour(Ink::Page);
    lines.shader = Pattern::new(
        tile.as_ref(),
        SpreadMode::Repeat,
        FilterQuality::Nearest,
        1.0,
        back,
    );
    pixels.fill_path(&path, &lines, FillRule::Winding, to_pixels, None);
}

/// One square of a hatch, `scale` pixels a unit; nothing for a plain area.
fn tile(hatch: Hatch, scale: f32) -> Option<Pixmap> {
    if hatch == Hatch::Plain {
        return None;
    }
    let side = (HATCH_SIDE * scale) as u32;
    let mut tile = Pixmap::new(side, side)?;
    let stroke = Stroke {
        width: hatch.width(),
        ..Stroke::default()
    };
    for [a, b, c, d] in hatch.segments() {
        let mut line = PathBuilder::new();
        line.move_to(*a, *b);
        line.line_to(*c, *d);
        if let Some(line) = line.finish() {
            let to_pixels = Transform::from_scale(scale, scale);
            tile.stroke_path(&line, &colour(Ink::Page), &stroke, to_pixels, None);
        }
    }
    Some(tile)
}
