// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same seed under another condition.

use weir_server_model::random::{Cause, Strength};
use weir_server_model::{Scenario, WhatIf};

fn scenario(cause: Cause) -> Scenario {
    let mut scenario = cause.scenario(Strength::Strong, 11).expect("a scenario");
    scenario.run.window_us = 150.0;
    scenario
}

fn speedup(scenario: &Scenario, what: &WhatIf) -> f64 {
    what.speedup(scenario, "victim", 11)
        .expect("a run")
        .expect("progress")
}

#[test]
fn a_chase_on_cxl_is_faster_without_it() {
    let scenario = scenario(Cause::Chains);
    let device = scenario.machine.device[0].idle_ns.unwrap_or(355.3);
    let ratio = device / scenario.machine.dram.load_to_use_ns;
    let is = speedup(&scenario, &WhatIf::NoCxl);
    assert!((is / ratio - 1.0).abs() < 0.05, "{is}, latencies {ratio}");
    let idle = speedup(&scenario, &WhatIf::IdleDevice);
    assert!(
        (idle - 1.0).abs() < 0.05,
        "the device is idle anyway: {idle}"
    );
    assert_eq!(speedup(&scenario, &WhatIf::AsItIs), 1.0);
}

#[test]
fn a_victim_is_faster_without_its_neighbours() {
    let scenario = scenario(Cause::DeviceSaturated);
    let without_all = speedup(&scenario, &WhatIf::IdleDevice);
    assert!(without_all > 1.3, "{without_all}");
    let neighbour = scenario.causes[0].culprits[0].clone();
    let without_one = speedup(&scenario, &WhatIf::Without(neighbour));
    assert!(
        (0.98..without_all).contains(&without_one),
        "{without_one} of {without_all}"
    );
    let error = WhatIf::Without("nothing".into())
        .run(&scenario, 1)
        .expect_err("refused");
    assert!(error.to_string().contains("victim"), "{error}");
}

#[test]
fn a_workload_alone_does_as_if_each_other_were_gone() {
    let mut scenario = scenario(Cause::DeviceSaturated);
    // One that would end would else end before it begins.
    scenario.workloads.workload[1].end_us = Some(100.0);
    let alone = WhatIf::Alone("victim".into());
    let rows = alone.run(&scenario, 11).expect("a run");
    for row in &rows {
        assert_eq!(row.accesses > 0, row.workload == "victim", "{row:?}");
    }
    // The neighbours' requests hold other queues than the device's, too.
    let ratio = speedup(&scenario, &alone) / speedup(&scenario, &WhatIf::IdleDevice);
    assert!((0.98..1.3).contains(&ratio), "{ratio}");
    let gone = WhatIf::Without(scenario.workloads.workload[1].name.clone());
    assert!(gone.run(&scenario, 11).is_ok());
    assert!(WhatIf::Alone("nothing".into()).run(&scenario, 1).is_err());
}
