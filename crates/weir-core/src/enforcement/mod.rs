// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What back ends share: budgets in bytes, whether limits can be held, and how soon to poll again.

pub mod byte_budget;
pub mod class_rank;
pub mod overload_poll;
pub mod sched_settings;
