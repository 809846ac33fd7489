// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times are sums of the stages that an access passes, and accesses wait for each other where they should.

use weir_type2::time::{
    CachedLine, DevicePlace, HostAccesses, LineCache, TimedEvent, Type2Machine, Type2Profile,
    device_burst, host_burst, remote_burst, timed_chart,
};
use weir_type2::{Bias, CacheState, DeviceOp, HostOp, LineHome, Party, TimedStage};

use CacheState::{Exclusive, Invalid, Modified, Shared};
use LineHome::{DeviceMemory, HostMemory};

fn profile() -> Type2Profile {
    Type2Profile::agilex7().expect("built in")
}

fn sum(stages: &[TimedStage]) -> f64 {
    let profile = profile();
    stages.iter().map(|stage| profile.ns(*stage)).sum()
}

fn assert_near(ours: f64, wanted: f64) {
    assert!((ours - wanted).abs() < 1e-6, "{ours} instead of {wanted}");
}

fn stages(events: &[TimedEvent]) -> Vec<TimedStage> {
    let passed = events.iter().filter_map(|event| match event {
        TimedEvent::Passed(stage, _) => Some(*stage),
        _ => None,
    });
    passed.collect()
}

#[test]
fn an_access_takes_the_sum_of_its_stages() {
    use TimedStage as S;
    let mut machine = Type2Machine::new(&profile());
    let (finished, events) = machine.traced_device_access(DeviceOp::NcRead, HostMemory, 1);
    let passed = [S::Issue, S::DcohLook, S::LlcLook, S::HostRead];
    assert_eq!(stages(&events), passed);
    assert_near(finished.ended_ns, sum(&passed) + 2.0 * sum(&[S::Link]));
    let chart = timed_chart(Party::Device, &events);
    for words in ["D2H Req: RdCurr", "H2D Data: Data", "host_read", "done"] {
        assert!(chart.contains(words), "no {words} in\n{chart}");
    }
}

#[test]
fn the_dmc_never_serves_the_host() {
    use TimedStage as S;
    for (dmc, extra) in [
        (Invalid, vec![]),
        (Shared, vec![]),
        (Exclusive, vec![S::TagChange]),
        (Modified, vec![S::DmcWriteBack, S::TagChange]),
    ] {
        let mut machine = Type2Machine::new(&profile());
        machine.place(DeviceMemory, 1, dmc, Invalid);
        let (finished, events) = machine.traced_host_access(HostOp::Load, DeviceMemory, 1);
        let mut wanted = vec![S::CorePath, S::LlcLook, S::MemPipeline, S::DcohLook];
        wanted.extend(extra);
        wanted.push(S::DeviceRead);
        assert_eq!(stages(&events), wanted, "{dmc:?}");
        assert_near(finished.ended_ns, sum(&wanted) + 2.0 * sum(&[S::Link]));
    }
}

#[test]
fn a_type_3_device_is_the_same_without_dcoh() {
    let accesses = HostAccesses {
        op: HostOp::Load,
        is_type3: true,
        dmc: Invalid,
        llc: Invalid,
        is_posted: false,
    };
    let type3 = host_burst(&profile(), accesses, 1).total_ns;
    assert_near(type3, 355.0);
    let type2 = HostAccesses {
        is_type3: false,
        ..accesses
    };
    let look = sum(&[TimedStage::DcohLook]);
    assert_near(host_burst(&profile(), type2, 1).total_ns, type3 + look);
    let remote = remote_burst(&profile(), HostOp::Load, false, 1).total_ns;
    assert_near(remote, 164.0);
}

#[test]
fn an_access_of_the_host_flips_the_region_and_device_bias_asks_no_host() {
    let mut machine = Type2Machine::new(&profile());
    machine.set_bias(Bias::Device);
    machine.device_access(0.0, DeviceOp::CoRead, DeviceMemory, 1);
    assert_eq!(machine.counts().messages, 0);
    assert_eq!(machine.bias(), Bias::Device);
    machine.host_access(1000.0, HostOp::NtLoad, DeviceMemory, 9);
    assert_eq!(machine.bias(), Bias::Host);
    machine.device_access(2000.0, DeviceOp::CoRead, DeviceMemory, 2);
    assert!(machine.counts().messages > 3);
}

#[test]
fn a_pushed_line_is_in_the_llc_and_a_loaded_one_in_the_core() {
    let mut machine = Type2Machine::new(&profile());
    machine.device_access(0.0, DeviceOp::NcPush, DeviceMemory, 1);
    assert_eq!(machine.states(DeviceMemory, 1), (Invalid, Modified));
    let latency =
        |machine: &mut Type2Machine, op| machine.host_access(0.0, op, DeviceMemory, 1).ended_ns;
    let llc = sum(&[TimedStage::CorePath, TimedStage::LlcLook]);
    assert_near(latency(&mut machine, HostOp::Load), llc);
    let core = sum(&[TimedStage::CoreHit]);
    assert_near(latency(&mut machine, HostOp::Load), core);
    latency(&mut machine, HostOp::Demote);
    assert_near(latency(&mut machine, HostOp::Load), llc);
    latency(&mut machine, HostOp::Flush);
    assert_eq!(machine.states(DeviceMemory, 1), (Invalid, Invalid));
}

#[test]
fn lines_of_one_place_push_each_other_out_of_the_dmc() {
    let mut machine = Type2Machine::new(&profile());
    let lines = machine.device_cache_lines(DeviceMemory) as u64;
    assert_eq!(lines, 512);
    assert_eq!(machine.device_cache_lines(HostMemory), 2048);
    machine.device_access(0.0, DeviceOp::CoWrite, DeviceMemory, 3);
    machine.device_access(1000.0, DeviceOp::CoWrite, DeviceMemory, 3 + lines);
    assert_eq!(machine.counts().device_evictions, 1);
    assert_eq!(machine.states(DeviceMemory, 3).0, Invalid);
    assert_eq!(machine.states(DeviceMemory, 3 + lines).0, Modified);
    // The HMC has four ways for such lines, and writes back over the link.
    let before = machine.counts();
    for way in 0..5 {
        let line = 3 + way * 512;
        machine.device_access(0.0, DeviceOp::CoWrite, HostMemory, line);
    }
    let after = machine.counts();
    assert_eq!(after.device_evictions - before.device_evictions, 1);
    // RdOwnNoData and GO each time; DirtyEvict, GO-WritePull and data once.
    assert_eq!(after.messages - before.messages, 5 * 2 + 3);
}

#[test]
fn accesses_wait_at_dcoh_in_the_write_queue_and_for_a_fill_buffer() {
    let place = DevicePlace {
        home: HostMemory,
        bias: Bias::Host,
        device: Invalid,
        llc: Invalid,
    };
    let profile = profile();
    let writes = |count| device_burst(&profile, DeviceOp::NcWrite, place, count).total_ns;
    assert_near(writes(256) - writes(255), 2.5);
    // The queue is full: a place comes free with each line that leaves it.
    assert_near(writes(2049) - writes(2048), profile.pace.host_write_line_ns);

    let loads = |dmc, count| {
        let accesses = HostAccesses {
            op: HostOp::Load,
            is_type3: false,
            dmc,
            llc: Invalid,
            is_posted: false,
        };
        host_burst(&profile, accesses, count).total_ns
    };
    assert_near(loads(Invalid, 16) - loads(Invalid, 15), 2.5);
    let tag_change = profile.ns(TimedStage::TagChange);
    let owned = 2.5 + tag_change / f64::from(profile.pace.dcoh_trackers);
    assert_near(loads(Exclusive, 16) - loads(Exclusive, 15), owned);
    assert!(
        loads(Invalid, 17) > 1.8 * loads(Invalid, 1),
        "16 fill buffers"
    );
}

#[test]
fn a_cache_keeps_what_was_used_last() {
    let mut cache = LineCache::new(1, 2);
    assert_eq!(cache.capacity(), 16);
    let line = |line, state| CachedLine {
        line,
        state,
        is_in_core: false,
    };
    assert_eq!(cache.put(line(0, Shared)), None);
    assert_eq!(cache.put(line(8, Modified)), None);
    assert_eq!(cache.look(0).state, Shared);
    assert_eq!(cache.put(line(16, Shared)), Some(line(8, Modified)));
    assert_eq!(cache.put(line(0, Invalid)), None);
    assert_eq!(cache.look(0).state, Invalid);
    assert_eq!(cache.put(line(24, Shared)), None, "a place was free");
    assert_eq!(cache.look(16).state, Shared);
}
