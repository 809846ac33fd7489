// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lengths of the stages, sizes and paces of one machine, with where each comes from.

use crate::type2::words::TimedStage;
use serde::Deserialize;

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Type2ProfileError {
    /// No TOML, or an unknown or missing key.
    #[error("{origin}: {problem}")]
    Syntax {
        /// Where the text comes from.
        origin: String,
        /// Line, column and what is wrong.
        problem: String,
    },
    /// A stage has no length.
    #[error(
        "{origin}: stage `{stage}` is missing: add a [[stage]] with this name, its ns, from and why"
    )]
    MissingStage {
        /// Where the text comes from.
        origin: String,
        /// The stage.
        stage: &'static str,
    },
    /// No stage is called so.
    #[error("{origin}: no stage is called `{stage}`: use one of {stages}")]
    UnknownStage {
        /// Where the text comes from.
        origin: String,
        /// The name found.
        stage: String,
        /// The names there are.
        stages: String,
    },
    /// A stage has two lengths.
    #[error("{origin}: stage `{stage}` stands there twice: keep one")]
    RepeatedStage {
        /// Where the text comes from.
        origin: String,
        /// The stage.
        stage: String,
    },
    /// A figure is out of its range.
    #[error("{origin}: {key} is {value}: it must be {allowed}")]
    Value {
        /// Where the text comes from.
        origin: String,
        /// The key.
        key: String,
        /// The value found.
        value: f64,
        /// The allowed values.
        allowed: &'static str,
    },
}

/// Where the length of a stage comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageOrigin {
    /// It sets the scale.
    Anchored,
    /// To latency ratios of the paper.
    Fitted,
    /// It stands in the paper.
    Published,
    /// A guess, with its reason.
    Assumed,
}

impl StageOrigin {
    /// As in profiles.
    pub fn name(self) -> &'static str {
        match self {
            StageOrigin::Anchored => "anchored",
            StageOrigin::Fitted => "fitted",
            StageOrigin::Published => "published",
            StageOrigin::Assumed => "assumed",
        }
    }
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageFigure {
    /// Its name.
    pub name: String,
    /// Its length.
    pub ns: f64,
    /// Where that comes from.
    pub from: StageOrigin,
    /// By what.
    pub why: String,
}

/// Sizes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSizes {
    /// Host memory cache of the device.
    pub hmc_kib: u32,
    /// Its ways.
    pub hmc_ways: u32,
    /// Device memory cache.
    pub dmc_kib: u32,
    /// Its ways.
    pub dmc_ways: u32,
    /// Last-level cache of a socket.
    pub llc_kib: u32,
    /// Its ways.
    pub llc_ways: u32,
    /// Lines that the write queues of host memory hold.
    pub host_write_queue_lines: u32,
}

/// Paces.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paces {
    /// Between two requests of the accelerator; between two looks of DCOH.
    pub accelerator_clock_ns: f64,
    /// Between two accesses of a core.
    pub core_clock_ns: f64,
    /// Changes of state that DCOH has in progress.
    pub dcoh_trackers: u32,
    /// Lines that a core has under way.
    pub fill_buffers: u32,
    /// A line leaves the write queues of host memory.
    pub host_write_line_ns: f64,
    /// Device memory, in bulk.
    pub device_bytes_per_sec: f64,
    /// A NIC, in bulk.
    pub nic_bytes_per_sec: f64,
}

/// Figures of the compressed page of Table IV.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffloadFigures {
    /// Accelerator clocks to compress a page.
    pub compute_clocks: u32,
    /// Where these clocks come from; empty if the profile does not say so.
    #[serde(default)]
    pub compute_why: String,
    /// Page size ÷ compressed size.
    pub stored_ratio: f64,
    /// Hash table of software.
    pub table_kib: u32,
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Type2Profile {
    /// Its name.
    pub name: String,
    /// The machine, for people.
    pub title: String,
    /// Where the figures come from.
    pub provenance: Vec<String>,
    /// Stages.
    #[serde(rename = "stage")]
    pub stages: Vec<StageFigure>,
    /// Sizes.
    pub sizes: CacheSizes,
    /// Paces.
    pub pace: Paces,
    /// The compressed page.
    pub offload: OffloadFigures,
}

const AGILEX7: &str = include_str!("../../../profiles/agilex7-type2.toml");

impl Type2Profile {
    /// The profile of the paper's machine.
    ///
    /// # Errors
    /// The built-in text is wrong, which a test excludes.
    pub fn agilex7() -> Result<Self, Type2ProfileError> {
        Self::parse(AGILEX7, "agilex7-type2")
    }

    /// Reads a profile; `origin` is named in errors.
    ///
    /// # Errors
    /// The text is no profile, a stage is missing, unknown or there twice, or a figure is out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Type2ProfileError> {
        let profile: Type2Profile =
            toml::from_str(text).map_err(|error| Type2ProfileError::Syntax {
                origin: origin.to_owned(),
                problem: error.to_string().trim_end().to_owned(),
            })?;
        profile.check_stages(origin)?;
        profile.check_figures(origin)?;
        Ok(profile)
    }

    fn check_stages(&self, origin: &str) -> Result<(), Type2ProfileError> {
        for figure in &self.stages {
            if !TimedStage::ALL.iter().any(|s| s.name() == figure.name) {
                let names: Vec<&str> = TimedStage::ALL.iter().map(|s| s.name()).collect();
                return Err(Type2ProfileError::UnknownStage {
                    origin: origin.to_owned(),
                    stage: figure.name.clone(),
                    stages: names.join(", "),
                });
            }
            let times = self.stages.iter().filter(|f| f.name == figure.name).count();
            if times > 1 {
                return Err(Type2ProfileError::RepeatedStage {
                    origin: origin.to_owned(),
                    stage: figure.name.clone(),
                });
            }
            let key = format!("stage `{}`, ns", figure.name);
            check(origin, &key, figure.ns, 0.0, 1e6, "0 to 1000000")?;
        }
        let missing = TimedStage::ALL
            .iter()
            .find(|stage| !self.stages.iter().any(|f| f.name == stage.name()));
        missing.map_or(Ok(()), |stage| {
            Err(Type2ProfileError::MissingStage {
                origin: origin.to_owned(),
                stage: stage.name(),
            })
        })
    }

    fn check_figures(&self, origin: &str) -> Result<(), Type2ProfileError> {
        let (sizes, pace) = (&self.sizes, &self.pace);
        for (key, value) in [
            ("sizes.hmc_kib", sizes.hmc_kib),
            ("sizes.hmc_ways", sizes.hmc_ways),
            ("sizes.dmc_kib", sizes.dmc_kib),
            ("sizes.dmc_ways", sizes.dmc_ways),
            ("sizes.llc_kib", sizes.llc_kib),
            ("sizes.llc_ways", sizes.llc_ways),
            ("sizes.host_write_queue_lines", sizes.host_write_queue_lines),
            ("pace.dcoh_trackers", pace.dcoh_trackers),
            ("pace.fill_buffers", pace.fill_buffers),
            ("offload.compute_clocks", self.offload.compute_clocks),
        ] {
            check(origin, key, f64::from(value), 1.0, 1e6, "1 to 1000000")?;
        }
        for (key, value) in [
            ("pace.accelerator_clock_ns", pace.accelerator_clock_ns),
            ("pace.core_clock_ns", pace.core_clock_ns),
            ("pace.host_write_line_ns", pace.host_write_line_ns),
        ] {
            check(origin, key, value, 0.01, 1e4, "0.01 to 10000")?;
        }
        for (key, value) in [
            ("pace.device_bytes_per_sec", pace.device_bytes_per_sec),
            ("pace.nic_bytes_per_sec", pace.nic_bytes_per_sec),
        ] {
            check(origin, key, value, 1e6, 1e13, "1e6 to 1e13")?;
        }
        let ratio = self.offload.stored_ratio;
        check(
            origin,
            "offload.stored_ratio",
            ratio,
            1.0,
            4096.0,
            "1 to 4096",
        )
    }

    /// Length of a stage, ns.
    pub fn ns(&self, stage: TimedStage) -> f64 {
        let figure = self.stages.iter().find(|f| f.name == stage.name());
        figure.map_or(0.0, |figure| figure.ns)
    }
}

fn check(
    origin: &str,
    key: &str,
    value: f64,
    from: f64,
    to: f64,
    allowed: &'static str,
) -> Result<(), Type2ProfileError> {
    if (from..=to).contains(&value) {
        return Ok(());
    }
    Err(Type2ProfileError::Value {
        origin: origin.to_owned(),
        key: key.to_owned(),
        value,
        allowed,
    })
}
