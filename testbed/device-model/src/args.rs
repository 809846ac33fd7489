// SPDX-License-Identifier: GPL-2.0-or-later
//! Arguments of the device model, as QEMU hands them over: `name=value` each.

use std::ffi::{CStr, c_char, c_int};
use weir_hw::QueueTimes;

#[derive(Clone, Debug)]
pub struct Args {
    /// The ground truth's file, created by the harness with its layout.
    pub ground_truth: String,
    /// The file behind the guest-visible BAR.
    pub bar: String,
    /// The access trace's file, if there is a consumer.
    pub trace: Option<String>,
    /// First byte of device memory, guest-physical.
    pub base_bytes: u64,
    /// Size of each group, in address order, without gaps.
    pub group_sizes_bytes: Vec<u64>,
    pub profile: QueueTimes,
    /// Lines a vCPU may have outstanding.
    pub window_lines: usize,
    /// Lines of the shared cache.
    pub cache_lines: usize,
    /// Model time per instruction, picoseconds.
    pub instruction_ps: u64,
    /// Windows of virtual time end at multiples of this. In a long window the vCPU that comes first finds the
    /// device idle, so that latency under load comes out too low: `weir calibrate` finds the knee at 0.952 of
    /// the capacity in windows of 4 µs, where the model has 0.958, and at 0.860 in windows of 50 µs
    /// (docs/evidence/testbed.md).
    pub window_ns: u64,
    /// The guest's time at the start: 0 at power-on, that of a snapshot else.
    pub start_ns: u64,
}

/// Read `argv`.
///
/// # Safety
/// `argv` must hold `argc` valid strings.
pub unsafe fn parse(argc: c_int, argv: *mut *mut c_char) -> Result<Args, String> {
    let mut args = Args {
        ground_truth: String::new(),
        bar: String::new(),
        trace: None,
        base_bytes: 0,
        group_sizes_bytes: Vec::new(),
        profile: QueueTimes {
            service_ns: 0,
            idle_ns: 0,
        },
        window_lines: 0,
        cache_lines: 0,
        instruction_ps: 0,
        window_ns: 0,
        start_ns: 0,
    };
    for i in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: promised by the caller.
        let text = unsafe { CStr::from_ptr(*argv.add(i)) }
            .to_str()
            .map_err(|e| e.to_string())?;
        let (name, value) = text
            .split_once('=')
            .ok_or(format!("'{text}' is not name=value"))?;
        set(&mut args, name, value)?;
    }
    let needed = [
        ("service_ns", args.profile.service_ns),
        ("idle_ns", args.profile.idle_ns),
        ("window_lines", args.window_lines as u64),
        ("instruction_ps", args.instruction_ps),
        ("window_ns", args.window_ns),
        ("group_sizes_bytes", args.group_sizes_bytes.len() as u64),
    ];
    match needed.iter().find(|(_, value)| *value == 0) {
        Some((name, _)) => Err(format!("argument {name} is missing or 0")),
        None => Ok(args),
    }
}

fn set(args: &mut Args, name: &str, value: &str) -> Result<(), String> {
    let number = || {
        value
            .parse::<u64>()
            .map_err(|e| format!("{name}={value}: {e}"))
    };
    match name {
        "ground_truth" => args.ground_truth = value.to_string(),
        "bar" => args.bar = value.to_string(),
        "trace" => args.trace = Some(value.to_string()),
        "base_bytes" => args.base_bytes = number()?,
        "group_sizes_bytes" => {
            let sizes = value
                .split(':')
                .map(str::parse::<u64>)
                .collect::<Result<Vec<_>, _>>();
            args.group_sizes_bytes = sizes.map_err(|e| format!("{name}={value}: {e}"))?;
        }
        "service_ns" => args.profile.service_ns = number()?,
        "idle_ns" => args.profile.idle_ns = number()?,
        "window_lines" => args.window_lines = number()? as usize,
        "cache_lines" => args.cache_lines = number()? as usize,
        "instruction_ps" => args.instruction_ps = number()?,
        "window_ns" => args.window_ns = number()?,
        "start_ns" => args.start_ns = number()?,
        _ => return Err(format!("unknown argument '{name}'")),
    }
    Ok(())
}
