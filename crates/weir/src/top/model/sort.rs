// SPDX-License-Identifier: Apache-2.0 OR MIT
//! By what the rows of the table are sorted.

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Largest bandwidth first.
    #[default]
    Bandwidth,
    /// Most CPU first.
    Cpu,
    /// Highest intensity first.
    Intensity,
    /// By name.
    Name,
}

impl Sort {
    /// The next order in the circle.
    pub fn next(self) -> Sort {
        match self {
            Sort::Bandwidth => Sort::Cpu,
            Sort::Cpu => Sort::Intensity,
            Sort::Intensity => Sort::Name,
            Sort::Name => Sort::Bandwidth,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Bandwidth => "bandwidth",
            Sort::Cpu => "CPU",
            Sort::Intensity => "intensity",
            Sort::Name => "name",
        }
    }
}
