// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all command lines are made of: values, numbers and their errors, exit codes and how a failure is
//! said, how figures are written for people ([`output`]), which nodes are a device, and the knees that were
//! measured of it (`knee*0.9`).

mod choices;
pub mod device_profile;
pub mod devices;
pub mod exit;
pub mod failure;
pub mod lab;
pub mod left_out;
pub mod log_format;
pub mod numbers;
pub mod output;
pub mod quantities;

pub use choices::{AttributionName, BackendName, CountersName, PolicyName, WorkloadsName};
pub use log_format::LogFormat;
