// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thesis's controllers: its sched_ext schedulers (5.4.1) and its loop in user space (5.4.2).

pub(crate) mod sched_ext;
pub(crate) mod user_space;
