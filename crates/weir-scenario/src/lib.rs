// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios, of the simulator and of the testbed, and what runs of them are judged by. Pure.
//!
//! ```text
//! scenarios/sim/*.toml ─► simulated::Scenario ◄─ as_simulated ─ testbed::TestbedScenario ◄─ scenarios/*.toml
//!                            │                                      │
//!                         weir-sim                               the testbed
//!                            └──► figures ─► expect (bounds), info ◄┘  ─► weir-report
//! ```
//!
//! [`Scenario::parse`] reads a file of either kind, so one file can be run simulated and live. An error names
//! file, line, key, and what is allowed.
#![forbid(unsafe_code)]

mod expect;
pub mod figures;
mod info;
mod place;
pub mod simulated;
pub mod testbed;
mod wrong;

pub use expect::{BACKENDS, Expect, WrongBound};
pub use info::ScenarioInfo;
pub use simulated::{Attribution, Role, Scenario};
pub use testbed::{TestbedMachine, TestbedScenario};
pub use wrong::{ScenarioError, WrongValue};
