// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What moves every part: the calendar of what comes next, requests under way, and tables and queues that
//! parts are made of.

pub(crate) mod calendar;
pub(crate) mod clockwork;
pub(crate) mod occupancy;
pub(crate) mod request;
pub(crate) mod tags;
