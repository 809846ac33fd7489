// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs discovery beside the loop: in a thread, or between two ticks, where a test needs a known order.

use super::cgroups::cache::PIDS_EVERY;
use super::discovery::{Discovery, View};
use super::exclude::Rules;
use crate::inventory::group_nodes::GroupOnNode;
use crate::kernel::clock::now;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weir_core::Nanos;

const ROUND_EVERY: Duration = Duration::from_millis(1000);
/// Where weir only observes: as often as processes are read.
const OBSERVING_EVERY: Duration = Duration::from_nanos(PIDS_EVERY.0);
/// While the memory of a process is unknown, the traffic of its group cannot be attributed correctly.
const UNREAD_EVERY: Duration = Duration::from_millis(20);
/// After a workload vanished the next round comes early, but not at once: they go in swarms.
const HURRY_AFTER: Duration = Duration::from_millis(200);

pub(crate) enum Pace {
    /// A call for the view makes a round, when one is due.
    Inline {
        discovery: Box<Discovery>,
        view: Arc<View>,
        made_at: Nanos,
        hurry: bool,
        watched: u64,
    },
    /// A thread makes the rounds.
    Thread {
        shared: Arc<Shared>,
        thread: JoinHandle<()>,
    },
}

pub(crate) struct Shared {
    view: Mutex<Arc<View>>,
    orders: Mutex<Orders>,
    stop: AtomicBool,
    hurry: AtomicBool,
}

/// What counts from the next round on.
#[derive(Default)]
struct Orders {
    /// Counts how often something of it has changed.
    number: u64,
    groups: Option<Vec<GroupOnNode>>,
    rules: Option<Rules>,
    search: bool,
    sweep: bool,
}

impl Orders {
    fn give(self, discovery: &mut Discovery) {
        if let Some(groups) = self.groups {
            discovery.watch(groups);
        }
        if let Some(rules) = self.rules {
            discovery.follow_rules(rules);
        }
        if self.search {
            discovery.search();
        }
        if self.sweep {
            discovery.sweep();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A view is replaced as a whole, so a thread that died has left a good one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pace {
    /// Rounds between ticks; the first at once.
    pub(crate) fn inline(mut discovery: Discovery) -> io::Result<Self> {
        let made_at = now();
        let view = Arc::new(discovery.round(made_at));
        Ok(Pace::Inline {
            discovery: Box::new(discovery),
            view,
            made_at,
            hurry: false,
            watched: 0,
        })
    }

    /// Rounds in a thread; the first before it starts, so that the first tick has a view.
    pub(crate) fn thread(mut discovery: Discovery) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            view: Mutex::new(Arc::new(discovery.round(now()))),
            orders: Mutex::default(),
            stop: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
        });
        discovery.take_time();
        let theirs = Arc::clone(&shared);
        let builder = thread::Builder::new().name("weir-discovery".into());
        let thread = builder.spawn(move || run(discovery, &theirs))?;
        Ok(Pace::Thread { shared, thread })
    }

    /// The newest view, and whether it will never be renewed.
    pub(crate) fn view(&mut self) -> (Arc<View>, bool) {
        match self {
            Pace::Thread { shared, thread } => {
                (Arc::clone(&lock(&shared.view)), thread.is_finished())
            }
            Pace::Inline {
                discovery,
                view,
                made_at,
                hurry,
                watched,
            } => {
                let at = now();
                let age = Duration::from_nanos(at.0.saturating_sub(made_at.0));
                if age >= ROUND_EVERY || std::mem::take(hurry) {
                    *view = Arc::new(View {
                        watched: *watched,
                        ..discovery.round(at)
                    });
                    *made_at = at;
                }
                (Arc::clone(view), false)
            }
        }
    }

    /// Something vanished: the next round should come soon.
    pub(crate) fn hurry(&mut self) {
        match self {
            Pace::Inline { hurry, .. } => *hurry = true,
            Pace::Thread { shared, thread } => {
                shared.hurry.store(true, Ordering::Relaxed);
                thread.thread().unpark();
            }
        }
    }

    /// The groups of which the nodes count from the next round on. Views made with them have at least this
    /// number.
    pub(crate) fn watch(&mut self, groups: Vec<GroupOnNode>) -> u64 {
        self.order(|orders| orders.groups = Some(groups))
    }

    /// The rules that count from the next round on. Views made with them have at least this number.
    pub(crate) fn follow_rules(&mut self, rules: Rules) -> u64 {
        self.order(|orders| orders.rules = Some(rules))
    }

    /// Memory has come whose owner is to be found by the next round. Views made after it have at least this
    /// number.
    pub(crate) fn search(&mut self) -> u64 {
        self.order(|orders| orders.search = true)
    }

    /// A workload may have come: the next round comes soon, and looks at all processes.
    pub(crate) fn sweep(&mut self) {
        let _ = self.order(|orders| orders.sweep = true);
    }

    fn order(&mut self, add: impl FnOnce(&mut Orders)) -> u64 {
        let number = match self {
            Pace::Inline {
                discovery, watched, ..
            } => {
                let mut orders = Orders::default();
                add(&mut orders);
                orders.give(discovery);
                *watched += 1;
                *watched
            }
            Pace::Thread { shared, .. } => {
                let mut waiting = lock(&shared.orders);
                add(&mut waiting);
                waiting.number += 1;
                waiting.number
            }
        };
        self.hurry();
        number
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        // Not joined: it may be in the page tables of a huge process, and it only reads.
        if let Pace::Thread { shared, thread } = self {
            shared.stop.store(true, Ordering::Relaxed);
            thread.thread().unpark();
        }
    }
}

fn run(mut discovery: Discovery, shared: &Shared) {
    loop {
        thread::park_timeout(match discovery.is_for_limits() {
            _ if discovery.has_unread() => UNREAD_EVERY,
            true => ROUND_EVERY,
            false => OBSERVING_EVERY,
        });
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        if shared.hurry.swap(false, Ordering::Relaxed) {
            thread::sleep(HURRY_AFTER);
        }
        let orders = {
            let mut waiting = lock(&shared.orders);
            let number = waiting.number;
            let next = Orders {
                number,
                ..Orders::default()
            };
            std::mem::replace(&mut *waiting, next)
        };
        let watched = orders.number;
        orders.give(&mut discovery);
        let view = Arc::new(View {
            watched,
            ..discovery.round(now())
        });
        *lock(&shared.view) = view;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::workloads::discovery::tests::{FIO, SECOND, bytes, discovery_with, watched};

    const MIB: u64 = 1 << 20;
    const PAGES: u64 = 16_384;
    const CACHED: &str = "/system.slice/stress.service";

    /// A process with so many pages on the node, and a cgroup with so much page cache there.
    fn memory(fake: &Fake, pages: u64, cached_mib: u64) {
        let stat = fake.read("proc/100/stat");
        let (before, _) = stat.split_once(" 4000 ").unwrap();
        let rest = "1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0";
        fake.write(
            "proc/100/stat",
            format!("{before} 4000 0 {pages} 0 {rest}\n"),
        );
        fake.numa_maps(100, &[("anon=1", 1, pages)]);
        let numa_stat = format!(
            "anon N1=0\nfile N1={}\nfile_mapped N1=0\n",
            cached_mib * MIB
        );
        fake.write(format!("sys/fs/cgroup{CACHED}/memory.numa_stat"), numa_stat);
    }

    /// Between two of its usual reads: one process has grown by less than an eighth since it was last met,
    /// and one cgroup has more page cache.
    #[test]
    fn an_order_to_search_finds_what_has_grown_in_the_next_round() {
        for (search, grown, cached) in [(true, 1000, 90), (false, 0, 50)] {
            let fake = Fake::new();
            memory(&fake, PAGES, 50);
            let mut discovery = discovery_with(&fake, false, &[]);
            let at = |seconds: u64| Nanos((100 + seconds) * SECOND);
            // Found the same twice, so that a third scan is not due at 4 s, nor is the list.
            for second in [0, 2] {
                discovery.round(at(second));
            }
            memory(&fake, PAGES + 1000, 90);
            let orders = Orders {
                search,
                ..Orders::default()
            };
            orders.give(&mut discovery);
            let view = discovery.round(at(4));
            let found = |id| bytes(watched(&view, id));
            assert_eq!(found(FIO), [Some((PAGES + grown) * 4096)], "{search}");
            assert_eq!(found(CACHED), [Some(cached * MIB)], "{search}");
        }
    }
}
