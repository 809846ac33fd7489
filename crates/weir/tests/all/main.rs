// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command as its users and other programs meet it: one program, a module for each question.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

mod desk;
mod verify_hardware;
mod world;

// What weir-acpi's tests make, for modules here too, names these as parts of its crate.
use weir_acpi::{Firmware, Sizes, table};

mod advice;
mod attacks;
mod calibrate;
mod checked;
mod containers;
mod damaged;
mod events;
mod groups;
mod hardened;
mod health;
mod interference;
mod later;
mod metrics;
mod monitoring;
mod names;
mod nodes;
mod page;
mod pages;
mod probe;
mod profile;
mod profile_live;
mod profile_page;
mod profile_phases;
mod profile_record;
mod push;
mod recordings;
mod reload;
mod remote_write;
#[cfg(feature = "tls")]
mod remote_write_tls;
mod run;
mod screens;
mod servers;
mod service;
mod serving;
mod sim;
mod sim_bounds;
mod simulated;
mod sound;
mod trouble;
