// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access trace: nothing is lost, doubled or changed between threads; a file of another kind is refused.

use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_ipc::access_trace::{AccessTrace, TraceLayout, TraceRecord};

const SHAPE: TraceLayout = TraceLayout {
    ring_count: 3,
    ring_records: 8,
};

fn words(layout: TraceLayout) -> Vec<AtomicU64> {
    (0..layout.words()).map(|_| AtomicU64::new(7)).collect()
}

fn record(n: u64) -> TraceRecord {
    TraceRecord {
        line: n,
        is_write: n % 3 == 1,
        queue_fill: n as u8,
    }
}

fn take_all(trace: &AccessTrace, ring: usize) -> Vec<TraceRecord> {
    let mut taken = Vec::new();
    let count = trace.take(ring, usize::MAX, |r| taken.push(r));
    assert_eq!(count, Ok(taken.len()));
    taken
}

#[test]
fn a_full_ring_says_so_and_its_neighbour_does_not() {
    let words = words(SHAPE);
    let trace = AccessTrace::create(&words, SHAPE).expect("it fits");
    for n in 0..8 {
        assert!(trace.push(1, record(n)), "{n} fits");
    }
    assert!(!trace.push(1, record(8)), "a ninth does not");
    assert!(trace.push(2, record(9)));
    assert!(!trace.push(3, record(9)), "there are three rings");
    let seen = AccessTrace::open(&words).expect("it is a trace");
    assert_eq!(seen.layout(), SHAPE);
    assert_eq!((seen.pushed(1), seen.taken(1), seen.lost()), (8, 0, 0));
    assert_eq!(take_all(&seen, 1), (0..8).map(record).collect::<Vec<_>>());
    assert_eq!(take_all(&seen, 2), [record(9)]);
    assert!(take_all(&seen, 0).is_empty());
    assert!(trace.push(1, record(8)), "there is space again");
    trace.count_lost();
    trace.count_wait();
    trace.count_wait();
    assert_eq!((seen.lost(), seen.waits()), (1, 2));
}

#[test]
fn other_files_and_broken_rings_are_refused() {
    let words = words(SHAPE);
    assert!(AccessTrace::open(&words).is_none());
    assert!(AccessTrace::open(&[]).is_none());
    assert!(
        AccessTrace::create(&words[1..], SHAPE).is_none(),
        "too short"
    );
    let odd = TraceLayout {
        ring_records: 6,
        ..SHAPE
    };
    assert!(
        AccessTrace::create(&words, odd).is_none(),
        "no power of two"
    );
    let trace = AccessTrace::create(&words, SHAPE).expect("it fits");
    // Ring 0 has its end of the producer behind the header of 16 words.
    words[16].store(9, Ordering::Relaxed);
    let broken = trace.take(0, 1, |_| panic!("nothing is there"));
    assert_eq!(
        broken.expect_err("9 of 8").to_string(),
        "ring 0 says 9 pushed and 0 taken: that is no ring of 8"
    );
    for (word, value) in [(1, 2), (2, 0), (2, u64::MAX), (3, 1 << 40), (3, 3)] {
        AccessTrace::create(&words, SHAPE).expect("it fits");
        words[word].store(value, Ordering::Relaxed);
        assert!(
            AccessTrace::open(&words).is_none(),
            "word {word} is {value}"
        );
    }
}

#[test]
fn between_threads_every_record_arrives_once_and_in_order() {
    const COUNT: u64 = 200_000;
    let words = words(SHAPE);
    let trace = &AccessTrace::create(&words, SHAPE).expect("it fits");
    std::thread::scope(|scope| {
        for ring in 0..SHAPE.ring_count {
            scope.spawn(move || {
                for n in 0..COUNT {
                    while !trace.push(ring, record(n)) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut next = [0; SHAPE.ring_count];
        while next.iter().any(|n| *n < COUNT) {
            for (ring, next) in next.iter_mut().enumerate() {
                let took = trace.take(ring, 5, |r| {
                    assert_eq!(r, record(*next), "ring {ring}");
                    *next += 1;
                });
                if took == Ok(0) {
                    std::thread::yield_now();
                }
            }
        }
    });
    assert_eq!(trace.pushed(2), COUNT);
    assert_eq!(trace.taken(2), COUNT);
}

proptest! {
    #[test]
    fn any_record_is_read_back(line in 0u64..1 << 46, is_write: bool, queue_fill: u8) {
        let words = words(SHAPE);
        let trace = AccessTrace::create(&words, SHAPE).expect("it fits");
        let record = TraceRecord { line, is_write, queue_fill };
        prop_assert!(trace.push(0, record));
        prop_assert_eq!(take_all(&trace, 0), [record]);
    }

    #[test]
    fn arbitrary_words_do_no_harm(contents in prop::collection::vec(any::<u64>(), 0..300), at in 0usize..8) {
        let words: Vec<AtomicU64> = contents.iter().map(|w| AtomicU64::new(*w)).collect();
        if let Some(trace) = AccessTrace::open(&words) {
            let _ = trace.take(at, 1000, |_| ());
        }
    }
}
