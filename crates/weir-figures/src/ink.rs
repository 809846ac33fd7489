// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What marks are drawn with. Colours are those of Okabe and Ito, which are distinct for people with any kind
//! of colour vision; areas have hatches too. The text beside them always says what they mean.

use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ink {
    /// Titles and names.
    Text,
    /// Text that explains.
    Muted,
    Grid,
    Axis,
    /// The span that figures are taken from.
    Span,
    /// Bandwidth of the run without control.
    Free,
    /// Bandwidth of a run with control.
    Held,
    SetPoint,
    Capacity,
    /// The moment at which weir began.
    Begin,
    Third,
    Fourth,
    Fifth,
    Sixth,
    Seventh,
    Eighth,
    Limit,
    /// The page itself: under words that stand on areas, and between areas.
    Page,
    Cxl,
    /// DRAM of the own socket.
    Dram,
    /// Caches of the own socket.
    Cache,
    Remote,
    Stores,
    /// All that has no name.
    Unknown,
    /// How full something is, from 0 to [`FULLEST`].
    Fill(u8),
}

/// The darkest of the inks that say how full something is.
pub const FULLEST: u8 = 4;

/// What is drawn over an area, so that it can be told from others without its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hatch {
    Plain,
    /// Lines that fall to the right.
    Falling,
    /// Lines that rise to the right.
    Rising,
    /// Lines from left to right.
    Level,
    Upright,
    Crossed,
    Dotted,
}

/// Side of the square that a hatch repeats, in units of the picture.
pub const HATCH_SIDE: f32 = 8.0;

/// A line from here to there.
pub type Segment = [f32; 4];

impl Hatch {
    /// Its word, for names of patterns.
    pub fn word(self) -> &'static str {
        match self {
            Hatch::Plain => "plain",
            Hatch::Falling => "falling",
            Hatch::Rising => "rising",
            Hatch::Level => "level",
            Hatch::Upright => "upright",
            Hatch::Crossed => "crossed",
            Hatch::Dotted => "dotted",
        }
    }

    /// The lines of one square.
    pub fn segments(self) -> &'static [Segment] {
        match self {
            Hatch::Plain => &[],
            Hatch::Falling => &[
                [-1.0, 7.0, 1.0, 9.0],
                [-1.0, -1.0, 9.0, 9.0],
                [7.0, -1.0, 9.0, 1.0],
            ],
            Hatch::Rising => &[
                [-1.0, 1.0, 1.0, -1.0],
                [-1.0, 9.0, 9.0, -1.0],
                [7.0, 9.0, 9.0, 7.0],
            ],
            Hatch::Level => &[[0.0, 4.0, 8.0, 4.0]],
            Hatch::Upright => &[[4.0, 0.0, 4.0, 8.0]],
            Hatch::Crossed => &[[0.0, 4.0, 8.0, 4.0], [4.0, 0.0, 4.0, 8.0]],
            Hatch::Dotted => &[[1.0, 2.0, 3.0, 2.0], [5.0, 6.0, 7.0, 6.0]],
        }
    }

    pub fn width(self) -> f32 {
        match self {
            Hatch::Dotted => 2.0,
            _ => 1.3,
        }
    }
}

impl Ink {
    const ALL: [Ink; 29] = [
        Ink::Text,
        Ink::Muted,
        Ink::Grid,
        Ink::Axis,
        Ink::Span,
        Ink::Free,
        Ink::Held,
        Ink::SetPoint,
        Ink::Capacity,
        Ink::Begin,
        Ink::Third,
        Ink::Fourth,
        Ink::Fifth,
        Ink::Sixth,
        Ink::Seventh,
        Ink::Eighth,
        Ink::Limit,
        Ink::Page,
        Ink::Cxl,
        Ink::Dram,
        Ink::Cache,
        Ink::Remote,
        Ink::Stores,
        Ink::Unknown,
        Ink::Fill(0),
        Ink::Fill(1),
        Ink::Fill(2),
        Ink::Fill(3),
        Ink::Fill(FULLEST),
    ];

    /// Inks for curves that lie in one panel, in this order.
    pub const CURVES: [Ink; 8] = [
        Ink::Held,
        Ink::Free,
        Ink::Third,
        Ink::Fourth,
        Ink::Fifth,
        Ink::Sixth,
        Ink::Seventh,
        Ink::Eighth,
    ];

    /// Its class in a page.
    pub fn class(self) -> &'static str {
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
            Ink::Begin => "i-begin",
            Ink::Third => "i-third",
            Ink::Fourth => "i-fourth",
            Ink::Fifth => "i-fifth",
            Ink::Sixth => "i-sixth",
            Ink::Seventh => "i-seventh",
            Ink::Eighth => "i-eighth",
            Ink::Limit => "i-limit",
            Ink::Page => "i-page",
            Ink::Cxl => "i-cxl",
            Ink::Dram => "i-dram",
            Ink::Cache => "i-cache",
            Ink::Remote => "i-remote",
            Ink::Stores => "i-stores",
            Ink::Unknown => "i-unknown",
            Ink::Fill(0) => "i-fill-0",
            Ink::Fill(1) => "i-fill-1",
            Ink::Fill(2) => "i-fill-2",
            Ink::Fill(3) => "i-fill-3",
            Ink::Fill(_) => "i-fill-4",
        }
    }

    /// On white, and on a dark page.
    pub fn colours(self) -> (u32, u32) {
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
            Ink::Begin => (0x005a8d, 0x56b4e9),
            Ink::Third => (0x009e73, 0x2fc79c),
            Ink::Fourth => (0xaa4499, 0xe09cc4),
            Ink::Fifth => (0x968a00, 0xf0dc5a),
            Ink::Sixth => (0x1b1f24, 0xe6e8eb),
            Ink::Seventh => (0x8b949e, 0x7d8894),
            Ink::Eighth => (0x56b4e9, 0x2f6fe0),
            Ink::Limit => (0x009e73, 0x2fc79c),
            Ink::Page => (0xffffff, 0x14181d),
            Ink::Cxl => (0xd55e00, 0xf08a3c),
            Ink::Dram => (0x0072b2, 0x56b4e9),
            Ink::Cache => (0x009e73, 0x2fc79c),
            Ink::Remote => (0xaa4499, 0xe09cc4),
            Ink::Stores => (0xb8860b, 0xf2c14e),
            Ink::Unknown => (0x8b949e, 0x6b7580),
            Ink::Fill(0) => (0xf5f7f9, 0x1b2026),
            Ink::Fill(1) => (0xdbe6f0, 0x22303d),
            Ink::Fill(2) => (0xb9d0e4, 0x294256),
            Ink::Fill(3) => (0x93b5d3, 0x315672),
            Ink::Fill(_) => (0x6f9cc4, 0x396b90),
        }
    }

    pub fn width(self) -> f32 {
        match self {
            Ink::Free => 1.1,
            Ink::Held => 1.5,
            Ink::SetPoint => 1.3,
            Ink::Capacity => 1.2,
            _ => 1.0,
        }
    }

    /// Lengths of its dashes and gaps.
    pub fn dashes(self) -> Option<[f32; 2]> {
        match self {
            Ink::SetPoint => Some([7.0, 4.0]),
            Ink::Capacity => Some([1.5, 3.5]),
            Ink::Begin => Some([5.0, 3.0]),
            Ink::Limit => Some([4.0, 2.5]),
            Ink::Seventh => Some([8.0, 3.0]),
            Ink::Eighth => Some([3.0, 2.0]),
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
        let _ = write!(
            css,
            "rect.{class},text.{class},path.{class}{{fill:#{colour:06x}}}"
        );
    }
    let page = Ink::Page.colours().1;
    let _ = write!(css, "path.hatch{{stroke:#{page:06x}}}");
    css
}
