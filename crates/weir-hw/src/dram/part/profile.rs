// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of DRAM channels: TOML files with an organisation and timings in clocks of the command bus.
//!
//! An unknown key is an error, and so are timings that no part can have.

use serde::{Deserialize, Serialize};

/// Text of the profiles that are built in, by name.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "ddr4-3200",
        include_str!("../../../profiles/dram/ddr4-3200.toml"),
    ),
    (
        "ddr5-4800",
        include_str!("../../../profiles/dram/ddr5-4800.toml"),
    ),
    (
        "lpddr2-1066",
        include_str!("../../../profiles/dram/lpddr2-1066.toml"),
    ),
];

/// Banks of a channel, all ranks together: masks of banks are words of 64 bits.
pub const BANKS_MAX: u32 = 64;

/// Why a DRAM profile cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DramProfileError {
    /// No built-in profile has this name.
    #[error("no DRAM profile is called `{name}`: use one of {names}, or the path of a TOML file")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names there are.
        names: String,
    },
    /// The text is no profile: a syntax error, an unknown key, a missing one.
    #[error("{origin}: {problem}\nthe keys are in docs/reference/dram.md")]
    Syntax {
        /// The text's path or name.
        origin: String,
        /// Line, column and problem, as the TOML reader says it.
        problem: String,
    },
    /// A figure that no part can have.
    #[error("{origin}: {key} is {value}: {allowed}")]
    Impossible {
        /// The text's path or name.
        origin: String,
        /// The key, with its table.
        key: &'static str,
        /// The value found.
        value: u64,
        /// The allowed values.
        allowed: String,
    },
}

/// A DRAM channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramProfile {
    /// Its name, as in `--profile`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Sources of the figures.
    pub provenance: Vec<String>,
    /// One clock of the command bus, picoseconds.
    pub clock_ps: u64,
    /// Ranks, banks, rows.
    pub organisation: Organisation,
    /// Least distances of commands.
    pub timing: DramTimings,
    /// How rows are kept.
    pub refresh: RefreshFigures,
}

/// Ranks, banks and rows of a channel. All are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Organisation {
    /// Ranks on the channel.
    pub ranks: u32,
    /// Bank groups of a rank; 1 for parts without groups.
    pub bank_groups: u32,
    /// Banks of a group.
    pub banks_per_group: u32,
    /// Rows of a bank.
    pub rows: u32,
    /// Bursts of a row.
    pub bursts_per_row: u32,
    /// Bytes of a burst, which is what one request moves.
    pub burst_bytes: u64,
}

/// Least distances of commands as JEDEC names them, clocks of the command bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramTimings {
    /// Burst on the data bus.
    pub bl_clocks: u64,
    /// Read to its first data.
    pub cl_clocks: u64,
    /// Write to its first data.
    pub cwl_clocks: u64,
    /// Activate to column command.
    pub rcd_clocks: u64,
    /// Precharge to activate.
    pub rp_clocks: u64,
    /// Activate to precharge.
    pub ras_clocks: u64,
    /// Activate to activate of a bank.
    pub rc_clocks: u64,
    /// Last write data to precharge.
    pub wr_clocks: u64,
    /// Read to precharge.
    pub rtp_clocks: u64,
    /// Column command to column command, other bank group.
    pub ccd_s_clocks: u64,
    /// The same in one bank group.
    pub ccd_l_clocks: u64,
    /// Write to write, other bank group; left out: `ccd_s_clocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ccd_s_write_clocks: Option<u64>,
    /// Write to write in one bank group; left out: `ccd_l_clocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ccd_l_write_clocks: Option<u64>,
    /// Activate to activate, other bank group.
    pub rrd_s_clocks: u64,
    /// The same in one bank group.
    pub rrd_l_clocks: u64,
    /// Last write data to read, other bank group.
    pub wtr_s_clocks: u64,
    /// The same in one bank group.
    pub wtr_l_clocks: u64,
    /// Window in which a rank takes four activates.
    pub faw_clocks: u64,
    /// Read to write.
    pub rtw_clocks: u64,
    /// Pause of the data bus between two ranks.
    pub cs_clocks: u64,
    /// Precharge to precharge of a rank; left out: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ppd_clocks: u64,
    /// Clocks that an activate holds the command bus; left out: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub activate_bus_clocks: u64,
    /// Clocks that a column command holds the command bus; left out: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub column_bus_clocks: u64,
}

/// How rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshFigures {
    /// What one refresh covers.
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

/// What one refresh covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefreshKind {
    /// All banks of a rank.
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

    /// Bytes of the channel.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.banks())
            * u64::from(self.rows)
            * u64::from(self.bursts_per_row)
            * self.burst_bytes
    }
}

impl DramProfile {
    /// Names of the built-in profiles.
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// A built-in profile.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<DramProfile, DramProfileError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text, name),
            None => Err(DramProfileError::Unknown {
                name: name.to_owned(),
                names: Self::names().join(", "),
            }),
        }
    }

    /// Reads a profile from TOML. `origin` names the text in errors: a path, a name.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, a figure is impossible.
    pub fn parse(text: &str, origin: &str) -> Result<DramProfile, DramProfileError> {
        let profile: DramProfile =
            toml::from_str(text).map_err(|error| DramProfileError::Syntax {
                origin: origin.to_owned(),
                problem: error.to_string().trim_end().to_owned(),
            })?;
        let possible = Possible { origin };
        possible.organisation(&profile.organisation)?;
        possible.within("clock_ps", profile.clock_ps, 1, 1_000_000)?;
        possible.single(&profile.timing)?;
        possible.related(&profile.timing)?;
        possible.refresh(&profile)?;
        Ok(profile)
    }

    /// Time of so many clocks, nanoseconds.
    pub fn ns(&self, clocks: f64) -> f64 {
        clocks * self.clock_ps as f64 / 1000.0
    }
}

/// Which figures a part can have.
struct Possible<'a> {
    origin: &'a str,
}

impl Possible<'_> {
    fn wrong(&self, key: &'static str, value: u64, allowed: String) -> DramProfileError {
        DramProfileError::Impossible {
            origin: self.origin.to_owned(),
            key,
            value,
            allowed,
        }
    }

    fn within(
        &self,
        key: &'static str,
        value: u64,
        least: u64,
        most: u64,
    ) -> Result<(), DramProfileError> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(self.wrong(key, value, format!("{least} to {most} is allowed")))
    }

    fn organisation(&self, parts: &Organisation) -> Result<(), DramProfileError> {
        let powers = [
            ("organisation.ranks", u64::from(parts.ranks), 8),
            ("organisation.bank_groups", u64::from(parts.bank_groups), 32),
            (
                "organisation.banks_per_group",
                u64::from(parts.banks_per_group),
                32,
            ),
            ("organisation.rows", u64::from(parts.rows), 1 << 24),
            (
                "organisation.bursts_per_row",
                u64::from(parts.bursts_per_row),
                1 << 16,
            ),
            ("organisation.burst_bytes", parts.burst_bytes, 4096),
        ];
        for (key, value, most) in powers {
            self.within(key, value, 1, most)?;
            if !value.is_power_of_two() {
                return Err(self.wrong(key, value, "a power of two is needed".into()));
            }
        }
        let banks = u64::from(parts.banks());
        if banks > u64::from(BANKS_MAX) {
            let allowed = format!(
                "with bank_groups and banks_per_group it makes {banks} banks, {BANKS_MAX} are allowed"
            );
            return Err(self.wrong("organisation.ranks", u64::from(parts.ranks), allowed));
        }
        Ok(())
    }

    /// Each timing by itself.
    fn single(&self, t: &DramTimings) -> Result<(), DramProfileError> {
        let all = [
            ("timing.bl_clocks", t.bl_clocks),
            ("timing.cl_clocks", t.cl_clocks),
            ("timing.cwl_clocks", t.cwl_clocks),
            ("timing.rcd_clocks", t.rcd_clocks),
            ("timing.rp_clocks", t.rp_clocks),
            ("timing.ras_clocks", t.ras_clocks),
            ("timing.rc_clocks", t.rc_clocks),
            ("timing.wr_clocks", t.wr_clocks),
            ("timing.rtp_clocks", t.rtp_clocks),
            ("timing.ccd_s_clocks", t.ccd_s_clocks),
            ("timing.ccd_l_clocks", t.ccd_l_clocks),
            (
                "timing.ccd_s_write_clocks",
                t.ccd_s_write_clocks.unwrap_or(1),
            ),
            (
                "timing.ccd_l_write_clocks",
                t.ccd_l_write_clocks.unwrap_or(1),
            ),
            ("timing.rrd_s_clocks", t.rrd_s_clocks),
            ("timing.rrd_l_clocks", t.rrd_l_clocks),
            ("timing.wtr_s_clocks", t.wtr_s_clocks),
            ("timing.wtr_l_clocks", t.wtr_l_clocks),
            ("timing.faw_clocks", t.faw_clocks),
            ("timing.rtw_clocks", t.rtw_clocks),
            ("timing.ppd_clocks", t.ppd_clocks),
        ];
        for (key, value) in all {
            self.within(key, value, 1, 100_000)?;
        }
        self.within("timing.cs_clocks", t.cs_clocks, 0, 1000)?;
        self.within("timing.activate_bus_clocks", t.activate_bus_clocks, 1, 4)?;
        self.within("timing.column_bus_clocks", t.column_bus_clocks, 1, 4)
    }

    /// Timings against each other.
    fn related(&self, t: &DramTimings) -> Result<(), DramProfileError> {
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

    fn at_least(
        &self,
        key: &'static str,
        value: u64,
        least: u64,
        name: &str,
    ) -> Result<(), DramProfileError> {
        if value >= least {
            return Ok(());
        }
        Err(self.wrong(key, value, format!("at least {name} = {least} is needed")))
    }

    fn refresh(&self, profile: &DramProfile) -> Result<(), DramProfileError> {
        let figures = &profile.refresh;
        if figures.kind == RefreshKind::None {
            return Ok(());
        }
        self.within("refresh.refi_clocks", figures.refi_clocks, 1, 1_000_000_000)?;
        let (key, duration, share) = match figures.kind {
            RefreshKind::SameBank => {
                let duration = figures.rfc_same_bank_clocks.unwrap_or(0);
                let banks = u64::from(profile.organisation.banks_per_group);
                ("refresh.rfc_same_bank_clocks", duration, banks)
            }
            _ => ("refresh.rfc_clocks", figures.rfc_clocks, 1),
        };
        self.within(key, duration, 1, 1_000_000)?;
        let most = figures.refi_clocks / share;
        // A refresh also waits for the rows that are open.
        let closing = profile.timing.rc_clocks + profile.timing.wr_clocks;
        if duration + closing >= most {
            let allowed = format!(
                "with {closing} clocks to close rows it must be below {most}, its interval"
            );
            return Err(self.wrong(key, duration, allowed));
        }
        Ok(())
    }
}
