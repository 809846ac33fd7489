// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One access, stage by stage, and a burst of such accesses.

use super::cli::{Operation, Type2Args};
use anyhow::{Result, bail};
use serde::Serialize;
use weir::lab::{Exit, print, print_json};
use weir_type2::time::{
    Burst, DevicePlace, HostAccesses, TimedEvent, Type2Machine, Type2Profile, device_burst,
    host_burst, timed_chart,
};
use weir_type2::{Bias, CacheState, LineHome, Party};

/// Something on the way.
#[derive(Serialize)]
struct FollowedEvent {
    at_ns: f64,
    kind: &'static str,
    what: &'static str,
    channel: Option<&'static str>,
}

/// The access and its burst.
#[derive(Serialize)]
struct Followed {
    op: &'static str,
    memory: &'static str,
    bias: &'static str,
    device_cache_before: &'static str,
    llc_before: &'static str,
    device_cache_after: &'static str,
    llc_after: &'static str,
    latency_ns: f64,
    events: Vec<FollowedEvent>,
    burst_count: u32,
    burst_ns: f64,
    burst_bytes_per_sec: f64,
}

/// Follows an access.
///
/// # Errors
/// No protocol leaves the line in the states that were asked for.
pub fn follow(args: &Type2Args, op: Operation, profile: &Type2Profile) -> Result<Exit> {
    let (party, name, default) = match op {
        Operation::Device(op) => (Party::Device, op.name(), LineHome::HostMemory),
        Operation::Host(op) => (Party::Host, op.name(), LineHome::DeviceMemory),
    };
    let home = args.memory.unwrap_or(default);
    check(args, home)?;
    let mut machine = Type2Machine::new(profile);
    machine.set_bias(args.bias);
    machine.place(home, 0, args.device_cache, args.llc);
    let (finished, events) = match op {
        Operation::Device(op) => machine.traced_device_access(op, home, 0),
        Operation::Host(op) => machine.traced_host_access(op, home, 0),
    };
    let (device, llc) = machine.states(home, 0);
    let burst = burst(args, op, home, profile);
    let followed = Followed {
        op: name,
        memory: home.name(),
        bias: args.bias.name(),
        device_cache_before: args.device_cache.name(),
        llc_before: args.llc.name(),
        device_cache_after: device.name(),
        llc_after: llc.name(),
        latency_ns: finished.ended_ns,
        events: events.iter().map(followed_event).collect(),
        burst_count: args.count,
        burst_ns: burst.map_or(f64::NAN, |burst| burst.total_ns),
        burst_bytes_per_sec: burst.map_or(f64::NAN, |burst| burst.bytes_per_sec()),
    };
    if args.json {
        print_json(&followed)?;
    } else {
        print(&text(&followed, &timed_chart(party, &events)))?;
    }
    Ok(Exit::Done)
}

/// States that exclude each other are refused.
fn check(args: &Type2Args, home: LineHome) -> Result<()> {
    let (device, llc) = (args.device_cache, args.llc);
    let two_owners =
        (device.may_write() && llc.is_valid()) || (llc.may_write() && device.is_valid());
    if two_owners {
        bail!(
            "--device-cache {} and --llc {} exclude each other: an owner has the line alone",
            device.name(),
            llc.name()
        );
    }
    let is_device_biased = home == LineHome::DeviceMemory && args.bias == Bias::Device;
    if is_device_biased && llc != CacheState::Invalid {
        bail!(
            "--bias device and --llc {} exclude each other: the host's caches have nothing of such a region",
            llc.name()
        );
    }
    Ok(())
}

/// The burst; of a core there is one for device memory only.
fn burst(args: &Type2Args, op: Operation, home: LineHome, profile: &Type2Profile) -> Option<Burst> {
    match op {
        Operation::Device(op) => {
            let place = DevicePlace {
                home,
                bias: args.bias,
                device: args.device_cache,
                llc: args.llc,
            };
            Some(device_burst(profile, op, place, args.count))
        }
        Operation::Host(op) => {
            let accesses = HostAccesses {
                op,
                is_type3: false,
                dmc: args.device_cache,
                llc: args.llc,
                is_posted: false,
            };
            (home == LineHome::DeviceMemory).then(|| host_burst(profile, accesses, args.count))
        }
    }
}

fn followed_event(event: &TimedEvent) -> FollowedEvent {
    let (at_ns, kind, what, channel) = match event {
        TimedEvent::Passed(stage, ns) => (*ns, "passed", stage.name(), None),
        TimedEvent::Sent(lane, opcode, ns, _) => (*ns, "sent", opcode.name(), Some(lane.name())),
        TimedEvent::Taken(lane, opcode, ns) => (*ns, "taken", opcode.name(), Some(lane.name())),
        TimedEvent::Ended(party, ns) => (*ns, "ended", party.name(), None),
    };
    FollowedEvent {
        at_ns,
        kind,
        what,
        channel,
    }
}

fn text(followed: &Followed, chart: &str) -> String {
    let cache = match followed.memory {
        "host memory" => "HMC",
        _ => "DMC",
    };
    let mut text = format!(
        "{} to {}, {} bias; {cache} {} → {}, LLC {} → {}\n\n{chart}\n{:.1} ns alone",
        followed.op,
        followed.memory,
        followed.bias,
        followed.device_cache_before,
        followed.device_cache_after,
        followed.llc_before,
        followed.llc_after,
        followed.latency_ns,
    );
    if followed.burst_ns.is_finite() {
        text += &format!(
            "; {} accesses in {:.1} ns, {:.2} GB/s",
            followed.burst_count,
            followed.burst_ns,
            followed.burst_bytes_per_sec / 1e9,
        );
    }
    text + "\nStages are fitted or assumed: `weir sim type2` lists them.\n"
}
