// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Type-2 device: its protocol explored, its states and times against the paper's.

mod explorer;
mod machine;
mod profiles;
mod tables;
