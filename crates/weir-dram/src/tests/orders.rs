// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small sequences, and which request each order serves first.

use super::changed;
use crate::order::{Atlas, Bliss, FairQueueing, FrLvtf, ParBs};
use crate::{
    AddressMapping, BurstKind, BurstRequest, ChannelSettings, ChannelStep, DramChannel, DramOrder,
    DramProfile, Offered, OrderKind, RefreshKind, SourceId,
};

fn profile() -> DramProfile {
    changed("ddr4-3200", |profile| {
        profile.refresh.kind = RefreshKind::None
    })
}

/// A read of a source: bank, row and column.
fn read(source: SourceId, bank: u64, row: u64, column: u64) -> BurstRequest {
    BurstRequest {
        source,
        kind: BurstKind::Read,
        burst: (bank * 65_536 + row) * 128 + column,
    }
}

fn channel(order: Box<dyn DramOrder>) -> DramChannel {
    let settings = ChannelSettings {
        mapping: AddressMapping::ChRaBaRoCo,
        ..ChannelSettings::PEERS
    };
    DramChannel::new(&profile(), settings, order)
}

/// Offers all at once; gives their numbers in the order in which they are served.
fn served(channel: &mut DramChannel, requests: &[BurstRequest]) -> Vec<usize> {
    let now = channel.now();
    for request in requests {
        assert_eq!(channel.offer(*request, now), Offered::Queued, "{request:?}");
    }
    let mut order = Vec::new();
    while order.len() < requests.len() {
        if let ChannelStep::Served(served) = channel.step(u64::MAX) {
            order.extend(
                requests
                    .iter()
                    .position(|request| *request == served.request),
            );
        }
    }
    order
}

fn served_by(kind: OrderKind, requests: &[BurstRequest]) -> Vec<usize> {
    served(&mut channel(kind.order(&profile(), 32)), requests)
}

#[test]
fn fcfs_serves_in_the_order_of_arrival_and_fr_fcfs_hits_first() {
    let requests = [
        read(0, 0, 1, 0),
        read(0, 0, 2, 0),
        read(0, 0, 1, 1),
        read(0, 5, 7, 0),
    ];
    assert_eq!(served_by(OrderKind::Fcfs, &requests), [0, 1, 2, 3]);
    // The other bank opens its row meanwhile.
    assert_eq!(served_by(OrderKind::FrFcfs, &requests), [0, 3, 2, 1]);
}

#[test]
fn an_open_row_is_closed_for_an_earlier_request_unless_hits_go_first() {
    // The row was open for long, so that closing it and its column command are ready at the same clock.
    let later = [read(0, 0, 2, 0), read(0, 0, 1, 1)];
    for (order, expected) in [
        (OrderKind::FrFcfs, [0, 1]),
        (OrderKind::RowHitFirst, [0, 1]),
        (OrderKind::FrFcfsCap, [1, 0]),
    ] {
        let mut channel = channel(order.order(&profile(), 32));
        served(&mut channel, &[read(0, 0, 1, 0)]);
        while channel.now() < 400 {
            channel.step(399);
        }
        assert_eq!(served(&mut channel, &later), expected, "{}", order.name());
    }
}

#[test]
fn row_hit_first_keeps_a_row_while_the_bus_is_taken() {
    // The last read but one of bank 0 waits for reads of its group while its row could be closed for the
    // last.
    let mut requests = vec![read(0, 0, 1, 0)];
    requests.extend((0..12).map(|column| read(0, 1, 1, column)));
    requests.extend([read(0, 0, 1, 1), read(0, 0, 2, 0)]);
    for (order, activates) in [(OrderKind::FrFcfs, 4), (OrderKind::RowHitFirst, 3)] {
        let mut channel = channel(order.order(&profile(), 32));
        served(&mut channel, &requests);
        assert_eq!(
            channel.tallies().total().activates,
            activates,
            "{}",
            order.name()
        );
    }
}

#[test]
fn a_cap_lets_an_earlier_request_in_after_four_hits() {
    let mut requests = vec![read(0, 0, 1, 0), read(0, 0, 2, 0)];
    requests.extend((1..8).map(|column| read(0, 0, 1, column)));
    let order = served_by(OrderKind::FrFcfsCap, &requests);
    assert_eq!(order[..5], [0, 2, 3, 4, 1], "{order:?}");
}

#[test]
fn bliss_puts_a_source_last_that_was_served_four_times_in_a_row() {
    let mut channel = channel(Box::new(Bliss::default()));
    let mut requests: Vec<_> = (0..8).map(|column| read(0, 0, 1, column)).collect();
    requests.push(read(1, 0, 2, 0));
    let order = served(&mut channel, &requests);
    let place = order.iter().position(|index| *index == 8).unwrap();
    assert!((4..=5).contains(&place), "{order:?}");
}

#[test]
fn par_bs_finishes_a_batch_before_later_requests() {
    // Source 1 has one request in the batch, source 0 five of eight: the rest comes after.
    let mut requests: Vec<_> = (0..8).map(|column| read(0, 0, column + 1, 0)).collect();
    requests.push(read(1, 0, 100, 0));
    let mut channel = channel(Box::new(ParBs::default()));
    let order = served(&mut channel, &requests);
    let place = order.iter().position(|index| *index == 8).unwrap();
    assert!(place <= 1, "the shortest job goes first: {order:?}");
}

#[test]
fn atlas_serves_first_what_was_served_least() {
    let mut channel = channel(Box::new(Atlas::new(&profile(), 1000)));
    let much: Vec<_> = (0..30).map(|column| read(0, 0, 1, column)).collect();
    served(&mut channel, &much);
    served(&mut channel, &[read(1, 1, 1, 0)]);
    while channel.now() < 2000 {
        channel.step(1999);
    }
    // Both in one bank, another row than the open one.
    let order = served(&mut channel, &[read(0, 0, 9, 0), read(1, 0, 8, 0)]);
    assert_eq!(order, [1, 0]);
}

#[test]
fn fr_lvtf_serves_the_lowest_virtual_time_and_keeps_its_queue_for_it() {
    // Ticks of 1000 clocks, quanta in proportion.
    let mut channel = channel(Box::new(FrLvtf::new(&profile(), 625.0)));
    let much: Vec<_> = (0..28).map(|column| read(0, 0, 1, column)).collect();
    for _ in 0..40 {
        served(&mut channel, &much);
    }
    let order = served(&mut channel, &[read(0, 0, 9, 0), read(1, 0, 8, 0)]);
    assert_eq!(order, [1, 0]);
    // 29 of 32 entries: only a rank below the head's is let in.
    let now = channel.now();
    let taken =
        (0..32).take_while(|row| channel.offer(read(0, 0, *row + 20, 0), now) == Offered::Queued);
    assert_eq!(taken.count(), 29);
    assert_eq!(channel.offer(read(1, 3, 1, 0), now), Offered::Queued);
}

#[test]
fn fair_queueing_follows_shares() {
    let mut order = FairQueueing::new(&profile());
    order.set_shares(&[1.0, 3.0]);
    let mut channel = channel(Box::new(order));
    // Alternately offered, each with a row of its own in one bank.
    let requests: Vec<_> = (0..24)
        .map(|n| read((n % 2) as SourceId, 0, n + 1, 0))
        .collect();
    let order = served(&mut channel, &requests);
    let early = order[..12].iter().filter(|index| *index % 2 == 1).count();
    assert!((8..=10).contains(&early), "three of four: {order:?}");
}

#[test]
fn a_waiting_write_answers_a_read_and_absorbs_a_write() {
    let mut channel = channel(OrderKind::FrFcfs.order(&profile(), 32));
    let write = BurstRequest {
        kind: BurstKind::Write,
        ..read(0, 0, 1, 0)
    };
    assert_eq!(channel.offer(write, 0), Offered::Queued);
    assert_eq!(channel.offer(read(1, 0, 1, 0), 0), Offered::Merged);
    assert_eq!(channel.offer(write, 0), Offered::Merged);
    assert_eq!(channel.offer(read(1, 0, 1, 1), 0), Offered::Queued);
    let tallies = channel.tallies();
    assert_eq!(tallies.of(1).unwrap().merged, [1, 0]);
    assert_eq!(tallies.of(0).unwrap().merged, [0, 1]);
    let mut bursts = 0;
    while !channel.is_empty() {
        bursts += u32::from(matches!(channel.step(u64::MAX), ChannelStep::Served(_)));
    }
    assert_eq!(bursts, 2);
}
