// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lengths of the stages, sizes and paces of one machine, with where each comes from.

use crate::words::TimedStage;
use garde::Validate;
use serde::Deserialize;
use weir_description::{DescriptionError, Origin, from_to, read};

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Type2ProfileError {
    #[error(transparent)]
    Description(#[from] DescriptionError),
    #[error(
        "{origin}: stage `{stage}` is missing: add a [[stage]] with this name, its ns, from and why"
    )]
    MissingStage { origin: String, stage: &'static str },
    #[error("{origin}: no stage is called `{stage}`: use one of {stages}")]
    UnknownStage {
        origin: String,
        stage: String,
        stages: String,
    },
    #[error("{origin}: stage `{stage}` stands there twice: keep one")]
    RepeatedStage { origin: String, stage: String },
}

/// Where the length of a stage comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageOrigin {
    /// The length sets the scale of all others.
    Anchored,
    /// Fitted to latency ratios of the paper.
    Fitted,
    /// The length stands in the paper.
    Published,
    /// A guess, with its reason.
    Assumed,
}

impl StageOrigin {
    pub fn name(self) -> &'static str {
        match self {
            StageOrigin::Anchored => "anchored",
            StageOrigin::Fitted => "fitted",
            StageOrigin::Published => "published",
            StageOrigin::Assumed => "assumed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageFigure {
    pub name: String,
    /// Its range is checked with its name, which says more than its number in the file.
    pub ns: f64,
    pub from: StageOrigin,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct CacheSizes {
    #[garde(custom(from_to(1, 1_000_000)))]
    pub hmc_kib: u32,
    #[garde(custom(from_to(1, 1_000_000)))]
    pub hmc_ways: u32,
    /// Device memory cache.
    #[garde(custom(from_to(1, 1_000_000)))]
    pub dmc_kib: u32,
    #[garde(custom(from_to(1, 1_000_000)))]
    pub dmc_ways: u32,
    #[garde(custom(from_to(1, 1_000_000)))]
    pub llc_kib: u32,
    #[garde(custom(from_to(1, 1_000_000)))]
    pub llc_ways: u32,
    /// Lines that the write queues of host memory hold.
    #[garde(custom(from_to(1, 1_000_000)))]
    pub host_write_queue_lines: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Paces {
    /// Between two requests of the accelerator; between two looks of DCOH.
    #[garde(custom(from_to(0.01, 1e4)))]
    pub accelerator_clock_ns: f64,
    /// Between two accesses of a core.
    #[garde(custom(from_to(0.01, 1e4)))]
    pub core_clock_ns: f64,
    /// Changes of state that DCOH has in progress.
    #[garde(custom(from_to(1, 1_000_000)))]
    pub dcoh_trackers: u32,
    /// Lines that a core has under way.
    #[garde(custom(from_to(1, 1_000_000)))]
    pub fill_buffers: u32,
    /// A line leaves the write queues of host memory.
    #[garde(custom(from_to(0.01, 1e4)))]
    pub host_write_line_ns: f64,
    /// Device memory, in bulk.
    #[garde(custom(from_to(1e6, 1e13)))]
    pub device_bytes_per_sec: f64,
    /// A NIC, in bulk.
    #[garde(custom(from_to(1e6, 1e13)))]
    pub nic_bytes_per_sec: f64,
}

/// Figures of the compressed page of Table IV.
#[derive(Clone, Debug, PartialEq, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct OffloadFigures {
    /// Accelerator clocks to compress a page.
    #[garde(custom(from_to(1, 1_000_000)))]
    pub compute_clocks: u32,
    /// Where these clocks come from; empty if the profile does not say so.
    #[serde(default)]
    #[garde(skip)]
    pub compute_why: String,
    /// Size of a page ÷ its compressed size.
    #[garde(custom(from_to(1.0, 4096.0)))]
    pub stored_ratio: f64,
    /// Hash table of software.
    #[garde(custom(from_to(1, 65_536)))]
    pub table_kib: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Type2Profile {
    #[garde(skip)]
    pub name: String,
    #[garde(skip)]
    pub title: String,
    #[garde(skip)]
    pub provenance: Vec<String>,
    #[serde(rename = "stage")]
    #[garde(skip)]
    pub stages: Vec<StageFigure>,
    #[garde(dive)]
    pub sizes: CacheSizes,
    #[garde(dive)]
    pub pace: Paces,
    #[garde(dive)]
    pub offload: OffloadFigures,
}

const AGILEX7: &str = include_str!("../../profiles/agilex7-type2.toml");

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
        let profile: Type2Profile = read(text, origin)?;
        profile.check_stages(origin)?;
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
            let is_possible = (0.0..=1e6).contains(&figure.ns);
            Origin(origin).holds(is_possible, &key, figure.ns, "0 to 1000000 is allowed")?;
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

    pub fn ns(&self, stage: TimedStage) -> f64 {
        let figure = self.stages.iter().find(|f| f.name == stage.name());
        figure.map_or(0.0, |figure| figure.ns)
    }
}
