// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What no channel of a profile can exceed, in closed form.

use crate::part::profile::{DramProfile, RefreshKind};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DramBounds {
    /// Bandwidth with a data bus that is always busy.
    pub peak_bytes_per_sec: f64,
    /// The same less the time of refreshes, in which a rank moves nothing (one rank).
    pub refreshed_peak_bytes_per_sec: f64,
    /// A new row for each burst: four activates in tFAW, one in tRRD_S, each bank one in tRC; less refreshes.
    pub random_bytes_per_sec: f64,
    /// All bursts in one bank group: one in tCCD_L.
    pub one_group_bytes_per_sec: f64,
    /// A read of a closed bank in an idle channel: tRCD + tCL + burst, nanoseconds.
    pub idle_miss_ns: f64,
    /// A read where another row is open: tRP more, nanoseconds.
    pub idle_conflict_ns: f64,
}

impl DramBounds {
    pub fn of(profile: &DramProfile) -> DramBounds {
        let (t, parts) = (&profile.timing, &profile.organisation);
        let per_sec = |bursts: f64, clocks: u64| {
            let seconds = clocks as f64 * profile.clock_ps as f64 * 1e-12;
            bursts * parts.burst_bytes as f64 / seconds
        };
        let is_refreshed = profile.refresh.kind == RefreshKind::AllBank && parts.ranks == 1;
        let kept = if is_refreshed {
            1.0 - profile.refresh.rfc_clocks as f64 / profile.refresh.refi_clocks as f64
        } else {
            1.0
        };
        let ranks = f64::from(parts.ranks);
        let peak = per_sec(1.0, t.bl_clocks);
        let rows = per_sec(4.0 * ranks, t.faw_clocks)
            .min(per_sec(ranks, t.rrd_s_clocks))
            .min(per_sec(f64::from(parts.banks()), t.rc_clocks))
            .min(peak);
        let miss = t.rcd_clocks + t.cl_clocks + t.bl_clocks;
        DramBounds {
            peak_bytes_per_sec: peak,
            refreshed_peak_bytes_per_sec: peak * kept,
            random_bytes_per_sec: rows * kept,
            one_group_bytes_per_sec: per_sec(1.0, t.ccd_l_clocks),
            idle_miss_ns: profile.ns(miss as f64),
            idle_conflict_ns: profile.ns((miss + t.rp_clocks) as f64),
        }
    }
}
