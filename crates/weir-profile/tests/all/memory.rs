// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a long recording costs in memory: a day has 54 million counts, of which eight million stay.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_core::window::{Count, CountProvenance, CountScope, WorkloadCounts};
use weir_core::{Nanos, Role, Window, WorkloadId};
use weir_profile::WindowFile;
use weir_profile::report::{self, Options};
use weir_profile::window_file::{Header, WindowEncoder};

thread_local! {
    /// Bytes that this test has, and the most that it had.
    static BYTES: Cell<[isize; 2]> = const { Cell::new([0; 2]) };
}

fn add(bytes: isize) {
    let [now, most] = BYTES.get();
    BYTES.set([now + bytes, most.max(now + bytes)]);
}

/// The system's allocator, counted by thread: tests run side by side.
struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

// SAFETY: all memory is the system's allocator's, and goes back to it with the layout that it came with.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: the caller's duties are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        add(-layout.size().cast_signed());
        // SAFETY: `alloc` had this memory from the system's allocator, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// What a step makes, the bytes that it leaves, and the most that it had at one time.
fn measured<T>(step: impl FnOnce() -> T) -> (T, usize, usize) {
    let [before, _] = BYTES.get();
    BYTES.set([before, before]);
    let made = step();
    let [left, most] = BYTES.get().map(|bytes| bytes - before);
    (made, left.unsigned_abs(), most.unsigned_abs())
}

const WINDOWS: u64 = 3000;
const OF_MACHINE: usize = 40;
const OF_WORKLOAD: usize = 36;
const COUNT_BYTES: usize = size_of::<Count>() * (OF_MACHINE + OF_WORKLOAD) * WINDOWS as usize;

fn counts(stage: Stage, quantity: Quantity, number: usize, value: u64) -> Vec<Count> {
    let roles = AccessPath::ALL.iter().flat_map(|path| {
        let targets = Target::ALL.iter();
        targets.map(move |target| Role::new(stage, *path, *target, quantity))
    });
    let count = |role| Count {
        role,
        of: CountScope::All,
        value: Ok(value),
        enabled_ns: Nanos(1_000_000_000),
        running_ns: Nanos(1_000_000_000),
        provenance: CountProvenance::Documented,
    };
    roles.map(count).take(number).collect()
}

/// A machine and a workload, a window each second.
fn recording() -> WindowFile {
    let id = WorkloadId::new("/a");
    let window = |at: u64| Window {
        from: Nanos(at * 1_000_000_000),
        to: Nanos((at + 1) * 1_000_000_000),
        machine: counts(Stage::Tor, Quantity::Inserts, OF_MACHINE, 1000 + at % 7),
        workloads: vec![WorkloadCounts {
            id: id.clone(),
            counts: counts(
                Stage::SuperQueue,
                Quantity::Lines,
                OF_WORKLOAD,
                900 + at % 5,
            ),
        }],
        ..Window::default()
    };
    WindowFile {
        header: Header::new("a test"),
        windows: (0..WINDOWS).map(window).collect(),
    }
}

/// Sums of each window alone, were they kept, would be six times as large as these counts.
#[test]
fn a_report_needs_less_than_half_of_the_memory_of_its_counts() {
    let file = recording();
    let (made, _, most) = measured(|| report::report(&file, &Options::default()));
    assert_eq!(made.windows, file.windows.len());
    assert!(most * 2 < COUNT_BYTES, "{most} beside {COUNT_BYTES}");
}

#[test]
fn a_file_that_was_read_has_room_for_its_counts_and_hardly_more() {
    let file = recording();
    let text = file.to_text().unwrap();
    let mut encoder = WindowEncoder::new(&file.header).unwrap();
    let mut frames = encoder.begin().unwrap();
    for window in &file.windows {
        frames.extend(encoder.add(window).unwrap().unwrap());
    }
    frames.extend(encoder.finish().unwrap());
    for bytes in [text.into_bytes(), frames] {
        let (read, left, _) = measured(|| WindowFile::read_for_report(&bytes).unwrap());
        assert_eq!(read.windows, file.windows);
        assert!(left * 10 < COUNT_BYTES * 11, "{left} of {COUNT_BYTES}");
    }
}

/// Eight million of them are kept: each 8 bytes more are 64 MB of a report.
#[test]
fn a_count_has_64_bytes() {
    assert_eq!(size_of::<Count>(), 64);
}
