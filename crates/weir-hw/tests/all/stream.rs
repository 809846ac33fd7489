// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access stream: nothing is lost, doubled or changed between threads; what is no stream is refused.

use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_hw::stream::{Record, Shape, Stream};

const SHAPE: Shape = Shape {
    ring_count: 3,
    ring_records: 8,
};

fn words(shape: Shape) -> Vec<AtomicU64> {
    (0..shape.words()).map(|_| AtomicU64::new(7)).collect()
}

fn record(n: u64) -> Record {
    Record {
        line: n,
        is_write: n % 3 == 1,
        queue_fill: n as u8,
    }
}

fn take_all(stream: &Stream, ring: usize) -> Vec<Record> {
    let mut taken = Vec::new();
    let count = stream.take(ring, usize::MAX, |r| taken.push(r));
    assert_eq!(count, Ok(taken.len()));
    taken
}

#[test]
fn a_full_ring_says_so_and_its_neighbour_does_not() {
    let words = words(SHAPE);
    let stream = Stream::create(&words, SHAPE).expect("it fits");
    for n in 0..8 {
        assert!(stream.push(1, record(n)), "{n} fits");
    }
    assert!(!stream.push(1, record(8)), "a ninth does not");
    assert!(stream.push(2, record(9)));
    assert!(!stream.push(3, record(9)), "there are three rings");
    let seen = Stream::open(&words).expect("it is a stream");
    assert_eq!(seen.shape(), SHAPE);
    assert_eq!((seen.pushed(1), seen.taken(1), seen.lost()), (8, 0, 0));
    assert_eq!(take_all(&seen, 1), (0..8).map(record).collect::<Vec<_>>());
    assert_eq!(take_all(&seen, 2), [record(9)]);
    assert!(take_all(&seen, 0).is_empty());
    assert!(stream.push(1, record(8)), "there is room again");
    stream.lose();
    stream.wait();
    stream.wait();
    assert_eq!((seen.lost(), seen.waits()), (1, 2));
}

#[test]
fn strangers_are_not_streams_and_broken_rings_are_found() {
    let words = words(SHAPE);
    assert!(Stream::open(&words).is_none());
    assert!(Stream::open(&[]).is_none());
    assert!(Stream::create(&words[1..], SHAPE).is_none(), "too short");
    let odd = Shape {
        ring_records: 6,
        ..SHAPE
    };
    assert!(Stream::create(&words, odd).is_none(), "no power of two");
    let stream = Stream::create(&words, SHAPE).expect("it fits");
    // Ring 0 has its end of the producer behind the header of 16 words.
    words[16].store(9, Ordering::Relaxed);
    let broken = stream.take(0, 1, |_| panic!("nothing is there"));
    assert_eq!(
        broken.expect_err("9 of 8").to_string(),
        "ring 0 says 9 pushed and 0 taken: that is no ring of 8"
    );
    for (word, value) in [(1, 2), (2, 0), (2, u64::MAX), (3, 1 << 40), (3, 3)] {
        Stream::create(&words, SHAPE).expect("it fits");
        words[word].store(value, Ordering::Relaxed);
        assert!(Stream::open(&words).is_none(), "word {word} is {value}");
    }
}

#[test]
fn between_threads_every_record_arrives_once_and_in_order() {
    const COUNT: u64 = 200_000;
    let words = words(SHAPE);
    let stream = &Stream::create(&words, SHAPE).expect("it fits");
    std::thread::scope(|scope| {
        for ring in 0..SHAPE.ring_count {
            scope.spawn(move || {
                for n in 0..COUNT {
                    while !stream.push(ring, record(n)) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut next = [0; SHAPE.ring_count];
        while next.iter().any(|n| *n < COUNT) {
            for (ring, next) in next.iter_mut().enumerate() {
                let took = stream.take(ring, 5, |r| {
                    assert_eq!(r, record(*next), "ring {ring}");
                    *next += 1;
                });
                if took == Ok(0) {
                    std::thread::yield_now();
                }
            }
        }
    });
    assert_eq!(stream.pushed(2), COUNT);
    assert_eq!(stream.taken(2), COUNT);
}

proptest! {
    #[test]
    fn any_record_is_read_back(line in 0u64..1 << 46, is_write: bool, queue_fill: u8) {
        let words = words(SHAPE);
        let stream = Stream::create(&words, SHAPE).expect("it fits");
        let record = Record { line, is_write, queue_fill };
        prop_assert!(stream.push(0, record));
        prop_assert_eq!(take_all(&stream, 0), [record]);
    }

    #[test]
    fn arbitrary_words_do_no_harm(contents in prop::collection::vec(any::<u64>(), 0..300), at in 0usize..8) {
        let words: Vec<AtomicU64> = contents.iter().map(|w| AtomicU64::new(*w)).collect();
        if let Some(stream) = Stream::open(&words) {
            let _ = stream.take(at, 1000, |_| ());
        }
    }
}
