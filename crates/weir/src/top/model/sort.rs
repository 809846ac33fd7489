// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the rows of the table are sorted by.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Largest bandwidth first.
    #[default]
    Bandwidth,
    /// Most CPU first.
    Cpu,
    /// Highest intensity first.
    Intensity,
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

    pub fn name(self) -> &'static str {
        match self {
            Sort::Bandwidth => "bandwidth",
            Sort::Cpu => "CPU",
            Sort::Intensity => "intensity",
            Sort::Name => "name",
        }
    }
}
