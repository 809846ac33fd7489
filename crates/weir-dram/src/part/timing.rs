// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distances between the first clocks of two commands, made of a profile's timings.
//!
//! JEDEC measures from the clock in which the part has a command whole. A command that holds the bus for two
//! clocks is whole one clock later, so a distance grows by that of the first command and shrinks by that of
//! the second (Ramulator 2.1, `DRAMStandard.to_config`).

use crate::part::profile::DramProfile;

/// A point or distance in time, clocks of the command bus.
pub type Clock = u64;

/// Distances between two commands, clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandGaps {
    pub(crate) activate_to_column: Clock,
    pub(crate) activate_to_precharge: Clock,
    pub(crate) activate_to_activate: Clock,
    pub(crate) activate_to_refresh: Clock,
    pub(crate) activate_other_group: Clock,
    pub(crate) activate_same_group: Clock,
    pub(crate) four_activates: Clock,
    pub(crate) precharge_to_activate: Clock,
    pub(crate) precharge_to_precharge: Clock,
    pub(crate) precharge_to_refresh: Clock,
    pub(crate) read_to_read: [Clock; 2],
    pub(crate) write_to_write: [Clock; 2],
    pub(crate) write_to_read: [Clock; 2],
    pub(crate) read_to_write: Clock,
    pub(crate) read_to_read_other_rank: Clock,
    pub(crate) read_to_write_other_rank: Clock,
    pub(crate) write_to_read_other_rank: Clock,
    pub(crate) write_to_write_other_rank: Clock,
    pub(crate) read_to_precharge: Clock,
    pub(crate) write_to_precharge: Clock,
    /// Column command with auto-precharge to activate and to refresh, reads and writes.
    pub(crate) auto_to_activate: [Clock; 2],
    pub(crate) auto_to_refresh: [Clock; 2],
    pub(crate) refresh_to_activate: Clock,
    pub(crate) same_bank_refresh_to_activate: Clock,
    /// First clock of a column command to its last data, reads and writes.
    pub(crate) to_last_data: [Clock; 2],
    pub(crate) activate_bus: Clock,
    pub(crate) column_bus: Clock,
}

impl CommandGaps {
    /// Index 0 of a pair is the other bank group, 1 the same; of reads and writes 0 is the read.
    pub(crate) fn of(profile: &DramProfile) -> CommandGaps {
        let t = &profile.timing;
        let late_act = t.activate_bus_clocks - 1;
        let late_col = t.column_bus_clocks - 1;
        let written = t.cwl_clocks + t.bl_clocks;
        let read_close = t.rtp_clocks + late_col;
        let write_close = written + t.wr_clocks + late_col;
        let after = |close: Clock| (close + t.rp_clocks).saturating_sub(late_act);
        let ccd_s_write = t.ccd_s_write_clocks.unwrap_or(t.ccd_s_clocks);
        let ccd_l_write = t.ccd_l_write_clocks.unwrap_or(t.ccd_l_clocks);
        let same_bank = profile.refresh.rfc_same_bank_clocks.unwrap_or(0);
        CommandGaps {
            activate_to_column: (t.rcd_clocks + late_act).saturating_sub(late_col),
            activate_to_precharge: t.ras_clocks + late_act,
            activate_to_activate: t.rc_clocks,
            activate_to_refresh: t.rc_clocks + late_act,
            activate_other_group: t.rrd_s_clocks,
            activate_same_group: t.rrd_l_clocks,
            four_activates: t.faw_clocks,
            precharge_to_activate: t.rp_clocks.saturating_sub(late_act),
            precharge_to_precharge: t.ppd_clocks,
            precharge_to_refresh: t.rp_clocks,
            read_to_read: [t.ccd_s_clocks, t.ccd_l_clocks],
            write_to_write: [ccd_s_write, ccd_l_write],
            write_to_read: [written + t.wtr_s_clocks, written + t.wtr_l_clocks],
            read_to_write: t.rtw_clocks,
            read_to_read_other_rank: t.bl_clocks + t.cs_clocks,
            // Ramulator 2.1 has bl + cs here, with which the data of the write meet those of the read.
            read_to_write_other_rank: (t.cl_clocks + t.bl_clocks + t.cs_clocks)
                .saturating_sub(t.cwl_clocks),
            write_to_read_other_rank: (written + t.cs_clocks).saturating_sub(t.cl_clocks),
            write_to_write_other_rank: t.bl_clocks,
            read_to_precharge: read_close,
            write_to_precharge: write_close,
            auto_to_activate: [after(read_close), after(write_close)],
            auto_to_refresh: [read_close + t.rp_clocks, write_close + t.rp_clocks],
            refresh_to_activate: profile.refresh.rfc_clocks.saturating_sub(late_act),
            same_bank_refresh_to_activate: same_bank.saturating_sub(late_act),
            to_last_data: [t.cl_clocks + t.bl_clocks, written],
            activate_bus: t.activate_bus_clocks,
            column_bus: t.column_bus_clocks,
        }
    }
}
