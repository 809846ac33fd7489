// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel that says no, dies, and is meddled with; and that itself counts how often a block of device
//! memory is online. The sysfs side runs over files.

use super::map::{BlockState, Map, MemoryBlocks, Owner};
use super::{Caches, Layout, MemorySysfs, resize};
use crate::error::LinuxError;
use crate::fake::Fake;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

const BLOCK: u64 = 128 << 20;

/// Copies of `count` blocks one behind the other, from block 8 on.
fn layout(copies: u64, count: u64) -> Layout {
    Layout {
        copy_bytes: count * BLOCK,
        bases_bytes: (0..copies).map(|c| (8 + c * count) * BLOCK).collect(),
        cpu_caches: Caches::Coherent,
    }
}

/// Online blocks, and what it refuses. It panics when a device block is online twice.
struct Played {
    count: u64,
    online: BTreeSet<u64>,
    busy: BTreeSet<u64>,
    /// Steps until it dies.
    life: usize,
    /// Brings this one online when it has done so many steps.
    meddler: Option<(usize, u64)>,
    steps: usize,
}

impl Played {
    fn new(count: u64) -> Self {
        Played {
            count,
            online: BTreeSet::new(),
            busy: BTreeSet::new(),
            life: usize::MAX,
            meddler: None,
            steps: 0,
        }
    }

    fn never_twice(&self) {
        let mut seen = BTreeSet::new();
        for block in &self.online {
            assert!(seen.insert((block - 8) % self.count), "{:?}", self.online);
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > self.life {
            return Err("dead".into());
        }
        Ok(())
    }
}

impl MemoryBlocks for Played {
    fn block_bytes(&self) -> u64 {
        BLOCK
    }
    fn state(&self, block: u64) -> Result<BlockState, LinuxError> {
        if self.steps > self.life {
            return Err(LinuxError::Copies("dead".into()));
        }
        Ok(if self.online.contains(&block) {
            BlockState::Online
        } else {
            BlockState::Offline
        })
    }
    fn node(&self, block: u64) -> Result<Option<u32>, LinuxError> {
        Ok(u32::try_from((block - 8) / self.count + 1).ok())
    }
    fn online(&mut self, block: u64) -> Result<(), String> {
        self.step()?;
        if self.busy.contains(&block) {
            return Err("no memory for its descriptions".into());
        }
        self.online.insert(block);
        match self.meddler {
            Some((when, other)) if when <= self.steps => self.online.insert(other),
            _ => {
                self.never_twice();
                true
            }
        };
        Ok(())
    }
    fn offline(&mut self, block: u64) -> Result<(), String> {
        self.step()?;
        if self.busy.contains(&block) {
            return Err("busy".into());
        }
        self.online.remove(&block);
        Ok(())
    }
}

fn counts(kernel: &Played, layout: &Layout) -> Vec<u64> {
    Map::read(kernel, layout).unwrap().counts()
}

#[test]
fn blocks_without_an_owner_come_first_and_only_what_is_needed_moves() {
    let layout = layout(2, 4);
    let mut kernel = Played::new(4);
    let report = resize(&mut kernel, &layout, &[(1, 2 * BLOCK)]).unwrap();
    assert!(report.complete && report.moved.len() == 2);
    let report = resize(&mut kernel, &layout, &[(2, 2 * BLOCK)]).unwrap();
    assert!(report.complete && report.moved.iter().all(|m| m.node == 2 && m.online));
    let report = resize(&mut kernel, &layout, &[(1, BLOCK), (2, 3 * BLOCK)]).unwrap();
    let steps: Vec<_> = report
        .moved
        .iter()
        .map(|m| (m.node, m.block, m.online))
        .collect();
    assert_eq!(
        steps,
        [(1, 9, false), (2, 13, true)],
        "device block 1 goes from copy to copy"
    );
    assert_eq!(counts(&kernel, &layout), [1, 3]);
}

#[test]
fn a_busy_block_is_reported_and_another_one_taken() {
    let layout = layout(2, 4);
    let mut kernel = Played::new(4);
    resize(&mut kernel, &layout, &[(1, 4 * BLOCK)]).unwrap();
    kernel.busy = BTreeSet::from([11, 10]);
    let report = resize(&mut kernel, &layout, &[(1, 2 * BLOCK), (2, 2 * BLOCK)]).unwrap();
    assert!(report.complete);
    let refused: Vec<_> = report
        .refused
        .iter()
        .map(|r| (r.node, r.block, &r.why[..]))
        .collect();
    assert_eq!(refused, [(1, 11, "busy"), (1, 10, "busy")]);
    // Nothing else is left to give.
    let report = resize(&mut kernel, &layout, &[(1, BLOCK), (2, 3 * BLOCK)]).unwrap();
    assert!(!report.complete);
    assert_eq!(counts(&kernel, &layout), [2, 2]);
}

#[test]
fn what_cannot_be_changes_nothing() {
    let layout = layout(2, 4);
    let mut kernel = Played::new(4);
    resize(&mut kernel, &layout, &[(1, 3 * BLOCK)]).unwrap();
    let steps = kernel.steps;
    for (wanted, part) in [
        (&[(2, 2 * BLOCK)][..], "5 blocks"),
        (&[(1, BLOCK / 2)], "no multiple of a block"),
        (&[(7, BLOCK)], "node 7 is no copy"),
        (
            &[(1, u64::MAX - BLOCK + 1), (2, u64::MAX - BLOCK + 1)],
            "the device has 4",
        ),
    ] {
        let said = resize(&mut kernel, &layout, wanted)
            .unwrap_err()
            .to_string();
        assert!(said.contains(part), "{said}");
    }
    kernel.online.insert(12);
    let said = resize(&mut kernel, &layout, &[(1, BLOCK)])
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("at 0x0 is online in several copies: memory8 (node 1), memory12 (node 2)"),
        "{said}"
    );
    assert_eq!(kernel.steps, steps);
}

#[test]
fn where_caches_would_spoil_the_data_nothing_moves() {
    let layout = Layout {
        cpu_caches: Caches::Separate,
        ..layout(2, 4)
    };
    let mut kernel = Played::new(4);
    let said = resize(&mut kernel, &layout, &[(1, BLOCK)])
        .unwrap_err()
        .to_string();
    assert!(said.contains("old owner"), "{said}");
    assert_eq!(kernel.steps, 0);
}

#[test]
fn layouts_that_cannot_be() {
    let good = layout(2, 4);
    assert_eq!(good.blocks(BLOCK).unwrap(), 4);
    for (copy_bytes, bases_bytes, part) in [
        (4 * BLOCK, vec![8 * BLOCK], "2 to 1024"),
        (4 * BLOCK, vec![8 * BLOCK, 11 * BLOCK], "overlaps"),
        (4 * BLOCK, vec![8 * BLOCK, 8 * BLOCK], "overlaps"),
        (4 * BLOCK + 1, vec![8 * BLOCK, 12 * BLOCK], "copy-bytes"),
        (0, vec![8 * BLOCK, 12 * BLOCK], "copy-bytes"),
        (
            4 * BLOCK,
            vec![8 * BLOCK, 12 * BLOCK + 4096],
            "does not begin",
        ),
        (4 * BLOCK, vec![0, u64::MAX - BLOCK + 1], "all addresses"),
    ] {
        let said = Layout {
            copy_bytes,
            bases_bytes,
            cpu_caches: Caches::Coherent,
        }
        .blocks(BLOCK)
        .unwrap_err()
        .to_string();
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn another_programs_change_is_seen_and_weirs_reverted() {
    let layout = layout(2, 4);
    let mut kernel = Played::new(4);
    // As soon as copy 1 gets device block 0, another program brings its other copy online.
    kernel.meddler = Some((1, 12));
    let said = resize(&mut kernel, &layout, &[(1, BLOCK)])
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("several copies") && said.contains("memory8, which weir"),
        "{said}"
    );
    assert_eq!(kernel.online, BTreeSet::from([12]));
}

proptest! {
    /// Any sequence of resizes, with blocks that are busy and with deaths in the middle: never is a block
    /// online twice (the played kernel panics), and a resize that says it is complete is.
    #[test]
    fn never_twice_and_true_to_its_word(
        copies in 2_u64..5,
        count in 1_u64..8,
        rounds in prop::collection::vec(
            (prop::collection::vec(0_u64..8, 5), prop::collection::btree_set(8_u64..40, 0..4), 0_usize..12), 1..12),
    ) {
        let layout = layout(copies, count);
        let mut kernel = Played::new(count);
        for (sizes, busy, life) in rounds {
            kernel.busy = busy;
            // It lives with 8 or more.
            kernel.life = if life < 8 { kernel.steps + life } else { usize::MAX };
            let wanted: Vec<(u32, u64)> = (1..).zip(sizes).take(copies as usize)
                .map(|(node, blocks)| (node, blocks * BLOCK)).collect();
            let fits = wanted.iter().map(|(_, bytes)| bytes / BLOCK).sum::<u64>() <= count;
            let answer = resize(&mut kernel, &layout, &wanted);
            prop_assert!(fits || answer.is_err());
            let died = kernel.steps > kernel.life;
            kernel.life = usize::MAX;
            kernel.never_twice();
            let now: Vec<(u32, u64)> = (1..).zip(counts(&kernel, &layout)).map(|(n, c)| (n, c * BLOCK)).collect();
            if let Ok(report) = answer {
                prop_assert_eq!(report.complete, now == wanted);
                prop_assert!(report.complete || !report.refused.is_empty());
            } else {
                prop_assert!(died || !fits);
            }
            // What death left is finished by the next call, if nothing is busy.
            kernel.busy.clear();
            if fits {
                prop_assert!(resize(&mut kernel, &layout, &wanted).unwrap().complete);
            }
        }
    }
}

/// Two copies of two blocks: 8 and 9 on node 1, 10 and 11 on node 2.
fn files() -> Fake {
    let fake = Fake::new();
    let memory = "sys/devices/system/memory";
    fake.write(format!("{memory}/block_size_bytes"), "8000000\n");
    fake.write(format!("{memory}/auto_online_blocks"), "offline\n");
    for block in 8..12 {
        fake.write(format!("{memory}/memory{block}/state"), "offline\n");
        let node = (block - 8) / 2 + 1;
        fake.write(
            format!("sys/devices/system/node/node{node}/memory{block}/state"),
            "",
        );
    }
    fake
}

#[test]
fn over_files_the_states_are_written() {
    let (fake, layout) = (files(), layout(2, 2));
    let mut kernel = MemorySysfs::open_to_act(&fake.roots(), Duration::from_secs(5)).unwrap();
    let report = resize(&mut kernel, &layout, &[(1, BLOCK), (2, BLOCK)]).unwrap();
    assert!(report.complete);
    assert_eq!(report.map.owners, [Owner::Copy(0), Owner::Copy(1)]);
    assert_eq!(report.map.nodes, [1, 2]);
    let state = |block| {
        let path = format!("sys/devices/system/memory/memory{block}/state");
        std::fs::read_to_string(fake.path(path)).unwrap()
    };
    assert_eq!(
        [8, 9, 10, 11].map(state),
        ["online_movable", "offline\n", "offline\n", "online_movable"]
    );
    let second = MemorySysfs::open_to_act(&fake.roots(), Duration::from_secs(5));
    assert!(
        matches!(second, Err(LinuxError::Locked { .. })),
        "one at a time"
    );
}

#[test]
fn a_kernel_that_acts_by_itself_is_refused() {
    let fake = files();
    let refused = |part: &str| {
        let said = MemorySysfs::open_to_act(&fake.roots(), Duration::ZERO)
            .err()
            .unwrap()
            .to_string();
        assert!(said.contains(part), "{said}");
    };
    let auto = "sys/devices/system/memory/auto_online_blocks";
    fake.write(auto, "online\n");
    refused("memhp_default_state=offline");
    fake.write(auto, "offline\n");
    let inside = "sys/module/memory_hotplug/parameters/memmap_on_memory";
    fake.write(inside, "Y\n");
    refused("memmap_on_memory=0");
    fake.write(inside, "N\n");
    fake.remove("sys/devices/system/memory/memory11");
    let kernel = MemorySysfs::open_to_act(&fake.roots(), Duration::ZERO).unwrap();
    let said = Map::read(&kernel, &layout(2, 2)).unwrap_err().to_string();
    assert!(said.contains("memory11 is not there"), "{said}");
}
