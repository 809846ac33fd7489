// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every interleaving over one line keeps the rules, and a broken protocol is found out. All pairs of two
//! lines: `weir sim type2 --explore --lines host,device`.

use std::collections::{BTreeSet, HashSet};
use weir_type2::explore::{Exploration, Explored, Move, Violation, World, chart};
use weir_type2::protocol::{Fault, Message, ProtocolRules, Watch};
use weir_type2::{Bias, CacheState, DeviceOp, HostOp, Lane, LineHome, Opcode, Party};

fn explored(home: LineHome, rules: ProtocolRules) -> Explored<1> {
    Exploration::new([home], rules).run()
}

fn broken(fault: Fault) -> ProtocolRules {
    ProtocolRules {
        fault: Some(fault),
        ..ProtocolRules::default()
    }
}

struct Unwatched;
impl Watch for Unwatched {}

#[test]
fn every_interleaving_of_one_line_keeps_the_rules() {
    for home in LineHome::ALL {
        let found = explored(*home, ProtocolRules::default());
        println!("{}: {found:?}", home.name());
        assert_eq!(found.counterexample, None, "{}", home.name());
        assert!(found.is_complete);
        assert!(found.states > 500, "{} states", found.states);
        assert!(
            found
                .longest_drain
                .is_some_and(|most| (4..20).contains(&most)),
            "{found:?}"
        );
    }
}

/// The smallest pair. They share a region, so one line's access ends the other's device bias.
#[test]
fn every_interleaving_of_two_lines_of_a_region_keeps_the_rules() {
    let homes = [LineHome::DeviceMemory; 2];
    let found = Exploration::new(homes, ProtocolRules::default()).run();
    println!("{found:?}");
    assert_eq!(found.counterexample, None);
    let alone = explored(LineHome::DeviceMemory, ProtocolRules::default());
    assert!(found.is_complete && found.states > 100 * alone.states);
    let twice = alone.longest_drain.map(|most| 2 * most);
    assert_eq!(found.longest_drain, twice, "lines wait for no other line");
}

#[test]
fn the_rules_hold_whatever_the_paper_leaves_open() {
    let states = [CacheState::Shared, CacheState::Invalid];
    let mut counts = BTreeSet::new();
    for n in 0..16u8 {
        let rules = ProtocolRules {
            llc_after_cs_hit: states[usize::from(n & 1)],
            llc_after_cs_miss: states[usize::from(n >> 1 & 1)],
            cs_read_shares_hit: n & 4 != 0,
            credits: 1 + (n >> 3),
            fault: None,
        };
        for home in LineHome::ALL {
            let found = explored(*home, rules);
            assert_eq!(found.counterexample, None, "{rules:?}");
            counts.insert(found.states);
        }
    }
    assert!(counts.len() > 4, "the choices change nothing: {counts:?}");
}

/// What the shortest counterexample of each fault must say.
const FOUND_AS: [(Fault, &str); 12] = [
    (Fault::SnoopPassesGo, "a read returns the last write"),
    (Fault::SnoopBeforeData, "one writer or many readers"),
    (Fault::ReadPassesForward, "one writer or many readers"),
    (Fault::StoreSkipsSnoop, "one writer or many readers"),
    (Fault::BogusWrittenBack, "a read returns the last write"),
    (Fault::OwnerKeepsLlc, "one writer or many readers"),
    (Fault::CoreKeepsLine, "a read returns the last write"),
    (Fault::NoWriteBack, "a read returns the last write"),
    (Fault::BiasStays, "nothing of a device-bias region"),
    (Fault::FlipWithoutFlush, "nothing of a device-bias region"),
    (Fault::PushDuringFlip, "nothing of a device-bias region"),
    (Fault::GoForgotten, "every operation ends"),
];

#[test]
fn each_seeded_fault_is_found_and_its_chart_ends_with_what_is_broken() {
    assert_eq!(FOUND_AS.len(), Fault::ALL.len());
    for (fault, words) in FOUND_AS {
        let found = LineHome::ALL.iter().find_map(|home| {
            let exploration = Exploration::new([*home], broken(fault));
            let counterexample = exploration.run().counterexample?;
            Some(chart(&exploration, &counterexample))
        });
        let chart = found.unwrap_or_else(|| panic!("{} is not found", fault.name()));
        println!("{}\n{chart}", fault.name());
        let broken = chart.lines().find(|line| line.starts_with("Broken: "));
        let broken = broken.expect("a line that says what is broken");
        assert!(broken.contains(words), "{}: {broken}", fault.name());
        assert!(chart.contains(fault.about()), "{}", fault.name());
        let wide = chart.lines().find(|line| line.chars().count() > 125);
        assert_eq!(wide, None, "{}", fault.name());
    }
}

#[test]
fn the_counterexample_of_snoop_pushes_go_is_a_shortest_one() {
    let exploration = Exploration::new([LineHome::HostMemory], broken(Fault::SnoopPassesGo));
    let counterexample = exploration.run().counterexample.expect("found");
    assert_eq!(counterexample.moves.len(), 6);
    let takes = Move::Deliver(0, Lane::H2dReq);
    assert!(counterexample.moves.contains(&takes), "{counterexample:?}");
    let chart = chart(&exploration, &counterexample);
    assert!(chart.contains("which overtook GO-"), "{chart}");
}

/// A message or an operation that never comes about would be explored for nothing.
#[test]
fn every_message_comes_about() {
    let mut seen = BTreeSet::new();
    for home in LineHome::ALL {
        let exploration = Exploration::new([*home], ProtocolRules::default());
        let mut known = HashSet::from([World::new([*home])]);
        let mut open: Vec<World<1>> = known.iter().copied().collect();
        while let Some(world) = open.pop() {
            let wires = world.lines[0].wires;
            seen.extend(
                Lane::ALL
                    .iter()
                    .filter_map(|lane| wires.get(*lane))
                    .map(|m| m.opcode),
            );
            for step in world.moves() {
                if let Some(Ok(after)) = world.after(step, &exploration)
                    && known.insert(after)
                {
                    open.push(after);
                }
            }
        }
    }
    let missing: Vec<&str> = Opcode::ALL
        .iter()
        .filter(|opcode| !seen.contains(opcode))
        .map(|opcode| opcode.name())
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

fn after(world: World<1>, step: Move) -> World<1> {
    let exploration = Exploration::new([world.lines[0].home], ProtocolRules::default());
    world
        .watched(step, &exploration, &mut Unwatched)
        .unwrap_or_else(|| panic!("{step:?} is not possible in {world:?}"))
}

#[test]
fn an_access_of_the_host_ends_device_bias_and_a_flush_comes_before_it() {
    let mut world = World::new([LineHome::DeviceMemory]);
    for step in [
        Move::Flip,
        Move::FlipArrives,
        Move::Device(0, DeviceOp::CoWrite),
    ] {
        world = after(world, step);
    }
    assert_eq!(world.bias, Bias::Device);
    assert_eq!(world.lines[0].device.state, CacheState::Modified);
    for step in [
        Move::Host(0, HostOp::Load),
        Move::Deliver(0, Lane::M2sReq),
        Move::Deliver(0, Lane::S2mNdr),
        Move::Deliver(0, Lane::S2mDrs),
    ] {
        world = after(world, step);
    }
    assert_eq!(world.bias, Bias::Host);
    let line = &world.lines[0];
    assert!(line.memory.is_last(), "written back before it was read");
    assert_eq!(line.device.state, CacheState::Shared);
    assert_eq!(line.host.state, CacheState::Shared);
    let exploration = Exploration::new([line.home], ProtocolRules::default());
    assert_eq!(world.after(Move::Flip, &exploration), None, "not flushed");
    let flushed = after(world, Move::Host(0, HostOp::Flush));
    assert!(after(flushed, Move::Flip).is_flipping);
}

#[test]
fn a_message_that_nothing_waits_for_is_a_violation() {
    let exploration = Exploration::new([LineHome::HostMemory], ProtocolRules::default());
    let mut world = World::new([LineHome::HostMemory]);
    let message = Message::new(Opcode::GoE);
    assert!(world.lines[0].wires.put(Lane::H2dRsp, message));
    let result = world.after(Move::Deliver(0, Lane::H2dRsp), &exploration);
    let violation = Violation::Unexpected {
        line: 0,
        lane: Lane::H2dRsp,
        message,
    };
    assert_eq!(result, Some(Err(violation)));
    let said = Violation::OldData {
        line: 0,
        reader: Party::Host,
    };
    assert!(said.to_string().contains("the host read older data"));
}

#[test]
fn an_exploration_that_is_too_large_says_so() {
    let exploration = Exploration {
        states_max: 100,
        ..Exploration::new([LineHome::HostMemory], ProtocolRules::default())
    };
    let found = exploration.run();
    assert!(!found.is_complete && found.longest_drain.is_none());
}
