// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of any mix of reads and writes, between those that were measured: straight lines
//! between neighbouring write ratios, the nearest outside their range, and between allocating and
//! non-temporal stores by their parts.

use crate::memory_device::profile::{MixFigures, Profile};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MixPoint {
    /// Part of the allocating requesters' lines that are writes.
    pub write_ratio: f64,
    /// Part of all lines that belong to requesters with non-temporal stores.
    pub non_temporal_ratio: f64,
    /// Part of the non-temporal requesters' lines that are writes.
    pub non_temporal_write_ratio: f64,
}

/// A mix that moved less than this between guess and solution is not evaluated again.
const TOLERANCE: f64 = 1e-4;

impl MixPoint {
    /// The mix of requesters of one kind.
    pub(crate) fn single_kind(write_ratio: f64, is_non_temporal: bool) -> Self {
        MixPoint {
            write_ratio,
            non_temporal_ratio: f64::from(u8::from(is_non_temporal)),
            non_temporal_write_ratio: write_ratio,
        }
    }

    /// Whether it is another mix, by more than the tolerance.
    pub(crate) fn differs_from(self, other: MixPoint) -> bool {
        let differ = |a: f64, b: f64| (a - b).abs() > TOLERANCE;
        differ(self.write_ratio, other.write_ratio)
            || differ(self.non_temporal_ratio, other.non_temporal_ratio)
            || differ(
                self.non_temporal_write_ratio,
                other.non_temporal_write_ratio,
            )
    }
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
    /// Lines a core reads at once.
    read_window: f64,
    /// 1 / lines that all share, 0 where they share none.
    per_shared: f64,
    early_ns: f64,
}

/// Least part of an allocating store's traffic that is reads: it reads the line first.
const READ_LEAST: f64 = 0.5;

#[derive(Clone, Debug)]
pub(crate) struct Mixes {
    allocating: Vec<Anchor>,
    non_temporal: Vec<Anchor>,
    window_lines: f64,
    /// No mix has a window of its own.
    is_one_window: bool,
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
                read_window: mix
                    .read_window_lines
                    .unwrap_or(profile.host.window_lines * (1.0 - mix.write_ratio).max(READ_LEAST)),
                per_shared: mix.shared_lines.map_or(0.0, |lines| 1.0 / lines),
                early_ns: mix.early_ns,
            })
            .collect()
        };
        Mixes {
            allocating: of(false),
            non_temporal: of(true),
            window_lines: profile.host.window_lines,
            is_one_window: profile
                .mix
                .iter()
                .all(|mix| mix.read_window_lines.is_none()),
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

    /// Lines that a core with a whole window can have out: those it reads, and with them those it writes
    /// back, which wait at the device. Of non-temporal stores all that the shared queue takes.
    pub(crate) fn window_lines(&self, write_ratio: f64, is_non_temporal: bool) -> f64 {
        if is_non_temporal {
            let shared = self.shared_lines(MixPoint {
                non_temporal_ratio: 1.0,
                non_temporal_write_ratio: write_ratio,
                ..MixPoint::default()
            });
            return if shared.is_finite() {
                shared
            } else {
                self.window_lines
            };
        }
        if self.is_one_window {
            return self.window_lines;
        }
        let (low, high, part) = Self::neighbours(&self.allocating, write_ratio);
        let reads = low.read_window + (high.read_window - low.read_window) * part;
        reads / (1.0 - write_ratio).max(READ_LEAST)
    }

    /// How much before a load's line a place in the window is free again.
    pub(crate) fn early_ns(&self, write_ratio: f64, is_non_temporal: bool) -> f64 {
        let (low, high, part) = Self::neighbours(self.kind(is_non_temporal), write_ratio);
        low.early_ns + (high.early_ns - low.early_ns) * part
    }

    /// Lines that all cores together can have out; infinite where nothing is shared.
    pub(crate) fn shared_lines(&self, mix: MixPoint) -> f64 {
        let of = |non_temporal, ratio| {
            let (low, high, part) = Self::neighbours(self.kind(non_temporal), ratio);
            low.per_shared + (high.per_shared - low.per_shared) * part
        };
        let share = mix.non_temporal_ratio.clamp(0.0, 1.0);
        let loads = of(false, mix.write_ratio) * (1.0 - share);
        1.0 / (loads + of(true, mix.non_temporal_write_ratio) * share)
    }
}
