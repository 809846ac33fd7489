// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the panels of the bandwidth picture are: beside each other on a page, below each other on a phone.

use weir_figures::At;

/// Most panels beside each other.
const PANELS_A_ROW: usize = 3;
/// Height of a panel on a phone.
const PHONE_PANEL: f32 = 170.0;

/// The width that a picture is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 1200 units, for a page or a print.
    Page,
    /// 400 units, for a phone: as large there as on a page.
    Phone,
}

#[derive(Clone, Copy)]
pub struct ChartPanel {
    pub at: At,
    pub size: At,
    /// It has the bandwidth axis.
    pub first_in_row: bool,
    /// It has the names of the lines.
    pub last_in_row: bool,
    /// It has the name of the time axis.
    pub last_row: bool,
}

pub struct Layout {
    pub width: Width,
    /// Width and height of the whole picture.
    pub size: At,
    /// Left of the first panel: bandwidth axis.
    pub left: f32,
    pub panels: Vec<ChartPanel>,
}

struct Margins {
    /// Right of the last: names of the lines.
    right: f32,
    /// Above the first row: title and legend.
    top: f32,
    /// Below the last: time axis.
    bottom: f32,
    /// Space between panels; above each there is room for its name.
    gap: At,
}

impl Layout {
    /// Height of a line of the legend on a phone.
    pub const LEGEND_LINE: f32 = 19.0;

    /// The layout for some panels and lines of legend.
    pub fn of(width: Width, count: usize, legend_lines: usize) -> Self {
        let named = if count > 1 { 26.0 } else { 0.0 };
        let (left, margins, size, a_row) = match width {
            Width::Page => {
                let margins = Margins {
                    right: 168.0,
                    top: 92.0 + named,
                    bottom: 58.0,
                    gap: (26.0, 54.0),
                };
                (78.0, margins, (1200.0, 600.0), PANELS_A_ROW)
            }
            Width::Phone => {
                let margins = Margins {
                    right: 10.0,
                    top: 34.0 + named + legend_lines as f32 * Self::LEGEND_LINE,
                    bottom: 54.0,
                    gap: (0.0, 54.0),
                };
                let panels = count as f32 * (PHONE_PANEL + margins.gap.1) - margins.gap.1;
                let height = margins.top + panels + margins.bottom;
                (66.0, margins, (400.0, height), 1)
            }
        };
        Layout {
            width,
            size,
            left,
            panels: margins.panels(left, size, count, a_row),
        }
    }
}

impl Margins {
    /// Panels in rows, the last row as wide as the others.
    fn panels(&self, left: f32, size: At, count: usize, a_row: usize) -> Vec<ChartPanel> {
        let rows = count.div_ceil(a_row);
        let columns = count.div_ceil(rows);
        let gaps = (
            self.gap.0 * (columns - 1) as f32,
            self.gap.1 * (rows - 1) as f32,
        );
        let width = (size.0 - left - self.right - gaps.0) / columns as f32;
        let height = (size.1 - self.top - self.bottom - gaps.1) / rows as f32;
        let place = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            let x = left + column as f32 * (width + self.gap.0);
            let y = self.top + row as f32 * (height + self.gap.1);
            ChartPanel {
                at: (x, y),
                size: (width, height),
                first_in_row: column == 0,
                last_in_row: column + 1 == columns || i + 1 == count,
                last_row: i + columns >= count,
            }
        };
        (0..count).map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_lie_inside_and_apart() {
        for (width, count) in (1..=12).flat_map(|n| [(Width::Page, n), (Width::Phone, n)]) {
            let layout = Layout::of(width, count, 4);
            assert_eq!(layout.panels.len(), count);
            for (i, a) in layout.panels.iter().enumerate() {
                let (right, bottom) = (a.at.0 + a.size.0, a.at.1 + a.size.1);
                assert!(a.at.0 >= layout.left && right <= layout.size.0 - 9.9);
                assert!(a.at.1 > 80.0 && bottom <= layout.size.1 - 53.9);
                assert!(a.size.1 > 40.0, "{count} panels are too low");
                for b in &layout.panels[i + 1..] {
                    assert!(right < b.at.0 || b.at.1 > bottom + 40.0, "{count}");
                }
            }
        }
    }
}
