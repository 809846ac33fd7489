// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of DRAM channels: TOML files with an organisation and timings in clocks of the command bus.
//!
//! An unknown key is an error, and so are timings that no part can have.

use garde::Validate;
use serde::{Deserialize, Serialize};
use weir_description::{BuiltIn, DescriptionError, Figure, Origin, from_to, read};

/// Profiles that are built in.
const BUILT_IN: BuiltIn = BuiltIn {
    kind: "DRAM profile",
    texts: &[
        ("ddr4-3200", include_str!("../../profiles/ddr4-3200.toml")),
        ("ddr5-4800", include_str!("../../profiles/ddr5-4800.toml")),
        (
            "lpddr2-1066",
            include_str!("../../profiles/lpddr2-1066.toml"),
        ),
    ],
    or: ", or the path of a TOML file",
};

/// Banks of a channel, all ranks together: masks of banks are words of 64 bits.
pub const BANKS_MAX: u32 = 64;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct DramProfile {
    /// Its name, as in `--profile`.
    #[garde(skip)]
    pub name: String,
    #[garde(skip)]
    pub title: String,
    #[garde(skip)]
    pub provenance: Vec<String>,
    /// One clock of the command bus, picoseconds.
    #[garde(custom(from_to(1, 1_000_000)))]
    pub clock_ps: u64,
    #[garde(dive)]
    pub organisation: Organisation,
    #[garde(dive)]
    pub timing: DramTimings,
    #[garde(skip)]
    pub refresh: RefreshFigures,
}

/// Ranks, banks and rows of a channel. All are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Organisation {
    #[garde(custom(power_of_two(8)))]
    pub ranks: u32,
    /// Bank groups of a rank; 1 for parts without groups.
    #[garde(custom(power_of_two(32)))]
    pub bank_groups: u32,
    #[garde(custom(power_of_two(32)))]
    pub banks_per_group: u32,
    #[garde(custom(power_of_two(1 << 24)))]
    pub rows: u32,
    #[garde(custom(power_of_two(1 << 16)))]
    pub bursts_per_row: u32,
    /// Bytes of a burst, which is what one request moves.
    #[garde(custom(power_of_two(4096)))]
    pub burst_bytes: u64,
}

/// Least distances of commands as JEDEC names them, clocks of the command bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct DramTimings {
    /// Time of a burst on the data bus (BL).
    #[garde(custom(from_to(1, 100_000)))]
    pub bl_clocks: u64,
    /// From a read to its first data (CL).
    #[garde(custom(from_to(1, 100_000)))]
    pub cl_clocks: u64,
    /// From a write to its first data (CWL).
    #[garde(custom(from_to(1, 100_000)))]
    pub cwl_clocks: u64,
    /// From an activate to a column command (tRCD).
    #[garde(custom(from_to(1, 100_000)))]
    pub rcd_clocks: u64,
    /// From a precharge to an activate (tRP).
    #[garde(custom(from_to(1, 100_000)))]
    pub rp_clocks: u64,
    /// From an activate to a precharge (tRAS).
    #[garde(custom(from_to(1, 100_000)))]
    pub ras_clocks: u64,
    /// From an activate to the next one of the same bank (tRC).
    #[garde(custom(from_to(1, 100_000)))]
    pub rc_clocks: u64,
    /// From the last data of a write to a precharge (tWR).
    #[garde(custom(from_to(1, 100_000)))]
    pub wr_clocks: u64,
    /// From a read to a precharge (tRTP).
    #[garde(custom(from_to(1, 100_000)))]
    pub rtp_clocks: u64,
    /// Column command to column command, other bank group.
    #[garde(custom(from_to(1, 100_000)))]
    pub ccd_s_clocks: u64,
    /// The same two commands within one bank group.
    #[garde(custom(from_to(1, 100_000)))]
    pub ccd_l_clocks: u64,
    /// Write to write, other bank group; left out: `ccd_s_clocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1, 100_000)))]
    pub ccd_s_write_clocks: Option<u64>,
    /// Write to write in one bank group; left out: `ccd_l_clocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1, 100_000)))]
    pub ccd_l_write_clocks: Option<u64>,
    /// Activate to activate, other bank group.
    #[garde(custom(from_to(1, 100_000)))]
    pub rrd_s_clocks: u64,
    /// The same two commands within one bank group.
    #[garde(custom(from_to(1, 100_000)))]
    pub rrd_l_clocks: u64,
    /// Last write data to read, other bank group.
    #[garde(custom(from_to(1, 100_000)))]
    pub wtr_s_clocks: u64,
    /// The same two commands within one bank group.
    #[garde(custom(from_to(1, 100_000)))]
    pub wtr_l_clocks: u64,
    /// Window in which a rank takes four activates.
    #[garde(custom(from_to(1, 100_000)))]
    pub faw_clocks: u64,
    /// From a read to a write of the same rank.
    #[garde(custom(from_to(1, 100_000)))]
    pub rtw_clocks: u64,
    /// Pause of the data bus between two ranks.
    #[garde(custom(from_to(0, 1000)))]
    pub cs_clocks: u64,
    /// Precharge to precharge of a rank; left out: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[garde(custom(from_to(1, 100_000)))]
    pub ppd_clocks: u64,
    /// Clocks that an activate holds the command bus; left out: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[garde(custom(from_to(1, 4)))]
    pub activate_bus_clocks: u64,
    /// Clocks that a column command holds the command bus; left out: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[garde(custom(from_to(1, 4)))]
    pub column_bus_clocks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshFigures {
    pub kind: RefreshKind,
    /// Mean interval of all-bank refreshes of a rank, clocks. A same-bank refresh comes as often for each
    /// bank number. May be left out without refresh.
    #[serde(default)]
    pub refi_clocks: u64,
    /// Duration of an all-bank refresh, clocks. May be left out of other kinds.
    #[serde(default)]
    pub rfc_clocks: u64,
    /// Duration of a same-bank refresh, clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rfc_same_bank_clocks: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefreshKind {
    AllBank,
    /// One bank of each bank group (DDR5).
    SameBank,
    /// Nothing: a part that forgets, for comparisons.
    None,
}

fn one() -> u64 {
    1
}

fn is_one(value: &u64) -> bool {
    *value == 1
}

impl Organisation {
    /// Banks of the channel, all ranks together.
    pub fn banks(&self) -> u32 {
        self.ranks * self.bank_groups * self.banks_per_group
    }

    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.banks())
            * u64::from(self.rows)
            * u64::from(self.bursts_per_row)
            * self.burst_bytes
    }
}

impl DramProfile {
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.names()
    }

    /// A built-in profile.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<DramProfile, DescriptionError> {
        Self::parse(BUILT_IN.text(name)?, name)
    }

    /// Reads a profile from TOML. `origin` names the text in errors: a path, a name.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, a figure is impossible.
    pub fn parse(text: &str, origin: &str) -> Result<DramProfile, DescriptionError> {
        let read: Result<DramProfile, _> = read(text, origin);
        let profile = read.map_err(|mut error| {
            if let DescriptionError::Syntax { problem, .. } = &mut error {
                problem.push_str("\nthe keys are in docs/reference/dram.md");
            }
            error
        })?;
        let possible = Possible(Origin(origin));
        possible.organisation(&profile.organisation)?;
        possible.related(&profile.timing)?;
        possible.refresh(&profile)?;
        Ok(profile)
    }

    pub fn ns(&self, clocks: f64) -> f64 {
        clocks * self.clock_ps as f64 / 1000.0
    }
}

fn power_of_two<F: Figure>(most: u32) -> impl Fn(&F, &()) -> garde::Result {
    move |figure, ()| {
        from_to(1, most)(figure, &())?;
        // Of a whole number that is at most 2^32.
        let value = figure.figure().map(|value| value as u64);
        match value.filter(|value| !value.is_power_of_two()) {
            Some(value) => Err(garde::Error::new(format!(
                "{value}: a power of two is needed"
            ))),
            None => Ok(()),
        }
    }
}

/// Which figures a part can have together.
struct Possible<'a>(Origin<'a>);

impl Possible<'_> {
    fn organisation(&self, parts: &Organisation) -> Result<(), DescriptionError> {
        let banks = u64::from(parts.banks());
        if banks > u64::from(BANKS_MAX) {
            let allowed = format!(
                "with bank_groups and banks_per_group it makes {banks} banks, {BANKS_MAX} are allowed"
            );
            return Err(self.0.wrong("organisation.ranks", parts.ranks, &allowed));
        }
        Ok(())
    }

    /// Figures that contradict one another are refused, because the model would issue commands that no part
    /// can follow. The relations follow from what the figures mean. A row is open for at least the time to
    /// its first column command, and opened again only after it was open and was closed. A burst has the data
    /// bus to itself, so that column commands are a burst apart. What holds within a bank group is no shorter
    /// than what holds between two. And a write that follows a read puts its data on the bus after the
    /// read's: CL + BL − CWL.
    fn related(&self, t: &DramTimings) -> Result<(), DescriptionError> {
        let ccd_s_write = t.ccd_s_write_clocks.unwrap_or(t.ccd_s_clocks);
        let ccd_l_write = t.ccd_l_write_clocks.unwrap_or(t.ccd_l_clocks);
        let (rows, turn) = (
            t.ras_clocks + t.rp_clocks,
            (t.cl_clocks + t.bl_clocks).saturating_sub(t.cwl_clocks),
        );
        let at_least = |key, value, least, name| self.at_least(key, value, least, name);
        at_least(
            "timing.rc_clocks",
            t.rc_clocks,
            rows,
            "ras_clocks + rp_clocks",
        )?;
        at_least(
            "timing.ras_clocks",
            t.ras_clocks,
            t.rcd_clocks,
            "rcd_clocks",
        )?;
        at_least(
            "timing.ccd_s_clocks",
            t.ccd_s_clocks,
            t.bl_clocks,
            "bl_clocks",
        )?;
        at_least(
            "timing.ccd_l_clocks",
            t.ccd_l_clocks,
            t.ccd_s_clocks,
            "ccd_s_clocks",
        )?;
        at_least(
            "timing.ccd_s_write_clocks",
            ccd_s_write,
            t.bl_clocks,
            "bl_clocks",
        )?;
        let short = "ccd_s_write_clocks";
        at_least("timing.ccd_l_write_clocks", ccd_l_write, ccd_s_write, short)?;
        at_least(
            "timing.rrd_l_clocks",
            t.rrd_l_clocks,
            t.rrd_s_clocks,
            "rrd_s_clocks",
        )?;
        at_least(
            "timing.wtr_l_clocks",
            t.wtr_l_clocks,
            t.wtr_s_clocks,
            "wtr_s_clocks",
        )?;
        at_least(
            "timing.faw_clocks",
            t.faw_clocks,
            t.rrd_s_clocks,
            "rrd_s_clocks",
        )?;
        let name = "cl_clocks + bl_clocks - cwl_clocks";
        at_least("timing.rtw_clocks", t.rtw_clocks, turn, name)
    }

    /// What only some kinds of refresh need is no range of its field.
    fn within(&self, key: &str, value: u64, most: u64) -> Result<(), DescriptionError> {
        let allowed = format!("1 to {most} is allowed");
        self.0
            .holds((1..=most).contains(&value), key, value, &allowed)
    }

    fn at_least(
        &self,
        key: &'static str,
        value: u64,
        least: u64,
        name: &str,
    ) -> Result<(), DescriptionError> {
        if value >= least {
            return Ok(());
        }
        let allowed = format!("at least {name} = {least} is needed");
        Err(self.0.wrong(key, value, &allowed))
    }

    fn refresh(&self, profile: &DramProfile) -> Result<(), DescriptionError> {
        let figures = &profile.refresh;
        if figures.kind == RefreshKind::None {
            return Ok(());
        }
        self.within("refresh.refi_clocks", figures.refi_clocks, 1_000_000_000)?;
        let (key, duration, share) = match figures.kind {
            RefreshKind::SameBank => {
                let duration = figures.rfc_same_bank_clocks.unwrap_or(0);
                let banks = u64::from(profile.organisation.banks_per_group);
                ("refresh.rfc_same_bank_clocks", duration, banks)
            }
            _ => ("refresh.rfc_clocks", figures.rfc_clocks, 1),
        };
        self.within(key, duration, 1_000_000)?;
        let most = figures.refi_clocks / share;
        // A refresh also waits for the rows that are open.
        let closing = profile.timing.rc_clocks + profile.timing.wr_clocks;
        if duration + closing >= most {
            let allowed = format!(
                "with {closing} clocks to close rows it must be below {most}, its interval"
            );
            return Err(self.0.wrong(key, duration, &allowed));
        }
        Ok(())
    }
}
