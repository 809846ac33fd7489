// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The banks behind a channel: commands, when each may come, and refresh.

pub(crate) mod command;
pub(crate) mod device;
pub(crate) mod refresh;
pub(crate) mod spent_rows;
