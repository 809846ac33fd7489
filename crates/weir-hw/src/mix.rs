// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of any mix of reads and writes, between those that were measured: straight lines
//! between neighbouring write ratios, the nearest beyond the last, and between allocating and
//! non-temporal stores by their parts.

use crate::profile::{MixFigures, Profile};

/// What a mix is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MixPoint {
    /// Part of the allocating requesters' lines that are writes.
    pub write_ratio: f64,
    /// Part of all lines that belong to requesters with non-temporal stores.
    pub non_temporal_ratio: f64,
    /// Part of the non-temporal requesters' lines that are writes.
    pub non_temporal_write_ratio: f64,
}

/// Figures of a mix; times in nanoseconds, rates in lines per nanosecond.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MixParts {
    pub media_lines_per_ns: f64,
    pub rise_ns: f64,
    pub rise_exponent: f64,
    pub burst_ns: f64,
    pub overload_loss: f64,
}

impl MixParts {
    fn of(mix: &MixFigures) -> Self {
        MixParts {
            media_lines_per_ns: mix.media_bytes_per_sec / 64e9,
            rise_ns: mix.rise_ns,
            rise_exponent: mix.rise_exponent,
            burst_ns: mix.burst_ns,
            overload_loss: mix.overload_loss_ratio,
        }
    }

    fn between(self, other: Self, part: f64) -> Self {
        let lerp = |a: f64, b: f64| a + (b - a) * part;
        MixParts {
            media_lines_per_ns: lerp(self.media_lines_per_ns, other.media_lines_per_ns),
            rise_ns: lerp(self.rise_ns, other.rise_ns),
            rise_exponent: lerp(self.rise_exponent, other.rise_exponent),
            burst_ns: lerp(self.burst_ns, other.burst_ns),
            overload_loss: lerp(self.overload_loss, other.overload_loss),
        }
    }
}

/// One measured mix, ready to be interpolated.
#[derive(Clone, Debug)]
struct Anchor {
    write_ratio: f64,
    parts: MixParts,
    in_flight: Vec<[f64; 2]>,
}

impl Anchor {
    /// How many lines are in flight for each line that the windows hold, when they hold this many.
    fn ratio(&self, lines: f64) -> f64 {
        let points = &self.in_flight;
        let after = points.partition_point(|point| point[0] <= lines);
        match (
            after.checked_sub(1).and_then(|n| points.get(n)),
            points.get(after),
        ) {
            (Some(a), Some(b)) => {
                let part = (lines - a[0]) / (b[0] - a[0]);
                (a[1] + (b[1] - a[1]) * part) / lines
            }
            (Some(end), None) | (None, Some(end)) => end[1] / end[0],
            (None, None) => 1.0,
        }
    }

    /// The least ratio between what is offered and what the windows hold: so that cores that offer
    /// more never have less in flight.
    fn growth(&self, offered_lines: f64, held_lines: f64) -> f64 {
        if self.in_flight.is_empty() {
            return 1.0;
        }
        let ends = self.ratio(offered_lines).min(self.ratio(held_lines));
        let between = |point: &&[f64; 2]| offered_lines < point[0] && point[0] < held_lines;
        let knots = self.in_flight.iter().filter(between);
        knots.map(|point| point[1] / point[0]).fold(ends, f64::min)
    }
}

/// All mixes of a profile.
#[derive(Clone, Debug)]
pub(crate) struct Mixes {
    allocating: Vec<Anchor>,
    non_temporal: Vec<Anchor>,
}

impl Mixes {
    pub(crate) fn new(profile: &Profile) -> Self {
        let of = |non_temporal| {
            let mine = profile
                .mix
                .iter()
                .filter(|m| m.non_temporal == non_temporal);
            mine.map(|mix| Anchor {
                write_ratio: mix.write_ratio,
                parts: MixParts::of(mix),
                in_flight: mix.in_flight_lines.clone(),
            })
            .collect()
        };
        Mixes {
            allocating: of(false),
            non_temporal: of(true),
        }
    }

    /// Anchors of one kind; a profile without non-temporal figures uses the others for them.
    fn kind(&self, is_non_temporal: bool) -> &[Anchor] {
        if is_non_temporal && !self.non_temporal.is_empty() {
            &self.non_temporal
        } else {
            &self.allocating
        }
    }

    /// The two neighbours of a write ratio and how far it lies between them.
    fn neighbours(anchors: &[Anchor], write_ratio: f64) -> (&Anchor, &Anchor, f64) {
        let after = anchors.partition_point(|a| a.write_ratio <= write_ratio);
        let last = anchors.len() - 1;
        let (low, high) = (&anchors[after.saturating_sub(1)], &anchors[after.min(last)]);
        let width = high.write_ratio - low.write_ratio;
        let part = if width > 0.0 {
            ((write_ratio - low.write_ratio) / width).clamp(0.0, 1.0)
        } else {
            0.0
        };
        (low, high, part)
    }

    pub(crate) fn parts(&self, mix: MixPoint) -> MixParts {
        let of = |non_temporal, ratio| {
            let (low, high, part) = Self::neighbours(self.kind(non_temporal), ratio);
            low.parts.between(high.parts, part)
        };
        let share = mix.non_temporal_ratio;
        if share <= 0.0 {
            return of(false, mix.write_ratio);
        }
        let stores = of(true, mix.non_temporal_write_ratio);
        if share >= 1.0 {
            return stores;
        }
        of(false, mix.write_ratio).between(stores, share)
    }

    /// Lines in flight for each line that a requester's windows hold, when the device is saturated,
    /// all windows together hold `held_lines` and their cores offer `offered_lines`.
    pub(crate) fn growth(
        &self,
        write_ratio: f64,
        non_temporal: bool,
        offered_lines: f64,
        held_lines: f64,
    ) -> f64 {
        let (low, high, part) = Self::neighbours(self.kind(non_temporal), write_ratio);
        let a = low.growth(offered_lines, held_lines);
        if part <= 0.0 {
            return a;
        }
        a + (high.growth(offered_lines, held_lines) - a) * part
    }
}
