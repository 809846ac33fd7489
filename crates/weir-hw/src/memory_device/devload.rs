// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Load classes that a device reports (CXL 3.1, 3.3.4: DevLoad).

/// Load class of a device (CXL 3.1, 3.3.4: DevLoad), from the occupancy of its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DevLoad {
    /// At most a quarter of the queue is used.
    #[default]
    Light,
    /// The queue is at most half full.
    Optimal,
    /// The queue is at most three quarters full.
    ModerateOverload,
    /// More.
    SevereOverload,
}

impl DevLoad {
    /// The class of a queue at an `occupancy` (0 empty, 1 full).
    pub fn of_occupancy(occupancy: f64) -> Self {
        if occupancy <= 0.25 {
            DevLoad::Light
        } else if occupancy <= 0.5 {
            DevLoad::Optimal
        } else if occupancy <= 0.75 {
            DevLoad::ModerateOverload
        } else {
            DevLoad::SevereOverload
        }
    }

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DevLoad::Light => "light",
            DevLoad::Optimal => "optimal",
            DevLoad::ModerateOverload => "moderate-overload",
            DevLoad::SevereOverload => "severe-overload",
        }
    }
}
