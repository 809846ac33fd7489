// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the kernel's files are read: bounded reads below a directory, clocks, descriptors, parsers, BPF
//! objects. And what the kernel lets weir do ([`confinement`]).

pub(crate) mod background_load;
pub(crate) mod bpf;
pub(crate) mod clock;
pub(crate) mod confinement;
pub(crate) mod escape;
pub(crate) mod fd_budget;
pub(crate) mod files;
pub mod parse;
pub(crate) mod privilege;
pub(crate) mod skeletons;
