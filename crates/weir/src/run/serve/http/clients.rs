// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which connection goes where there are too many. One client address has so many at most, so that the
//! others keep theirs, and of its connections those lose that have not sent their request yet, the oldest
//! first.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Connections at once. A connection that is idle costs a descriptor and no thread, so that there can be many
/// (ADR 26). Before, eight idle connections kept all scrapes out.
pub const CONNECTIONS_MAX: usize = 256;
/// Connections of one client at once: it cannot take the places of the others.
pub const CLIENT_MAX: usize = 32;

/// Where a connection comes from: an IPv4 address, or the /64 network that one host of IPv6 has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// The address of the other end of a connection.
    pub fn of(peer: IpAddr) -> ClientAddress {
        const HOST_BITS: u128 = u64::MAX as u128;
        ClientAddress(match peer.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !HOST_BITS).into(),
            ip @ IpAddr::V4(_) => ip,
        })
    }
}

/// How far a connection is, in the order in which connections lose their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Its request is not there yet; the number counts accepted connections.
    Asking(u64),
    /// It gets its answer; the number grows whenever it takes a part.
    Answering(u64),
}

/// The connection that must go before one more of `client` is taken in; nothing where there is room.
pub fn loser(
    open: &BTreeMap<u64, (ClientAddress, Standing)>,
    client: ClientAddress,
) -> Option<u64> {
    let mut counts: BTreeMap<ClientAddress, usize> = BTreeMap::new();
    for (of, _) in open.values() {
        *counts.entry(*of).or_default() += 1;
    }
    let own = counts.get(&client).copied().unwrap_or(0);
    let from = match (own >= CLIENT_MAX, open.len() >= CONNECTIONS_MAX) {
        (true, _) => client,
        (false, true) => *counts.iter().max_by_key(|(_, count)| **count)?.0,
        (false, false) => return None,
    };
    let its = open.iter().filter(|(_, (of, _))| *of == from);
    its.min_by_key(|(_, (_, standing))| *standing)
        .map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(text: &str) -> ClientAddress {
        ClientAddress::of(text.parse().unwrap())
    }

    #[test]
    fn a_mapped_address_is_its_ipv4_address_and_a_network_of_64_bits_is_one_client() {
        assert_eq!(client("::ffff:192.0.2.7"), client("192.0.2.7"));
        assert_ne!(client("::ffff:192.0.2.7"), client("::ffff:192.0.2.8"));
        assert_eq!(client("2001:db8:0:1::5"), client("2001:db8:0:1:ffff::"));
        assert_ne!(client("2001:db8:0:1::5"), client("2001:db8:0:2::5"));
    }

    #[test]
    fn those_that_have_not_asked_lose_first_and_the_oldest_of_them() {
        let own = client("192.0.2.1");
        let mut open: BTreeMap<u64, _> = (0..CLIENT_MAX as u64)
            .map(|number| (number, (own, Standing::Answering(100 - number))))
            .collect();
        assert_eq!(loser(&open, client("192.0.2.2")), None);
        let stalled = CLIENT_MAX as u64 - 1;
        assert_eq!(loser(&open, own), Some(stalled), "moved longest ago");
        open.insert(5, (own, Standing::Asking(7)));
        open.insert(6, (own, Standing::Asking(6)));
        assert_eq!(loser(&open, own), Some(6));
    }

    proptest! {
        /// Whatever others do, a client below its most loses a connection only where it has most of all.
        #[test]
        fn no_client_loses_a_place_to_another_that_has_more(
            comers in prop::collection::vec((0u8..20, any::<bool>()), 0..1500)
        ) {
            let mut open: BTreeMap<u64, (ClientAddress, Standing)> = BTreeMap::new();
            for (number, (host, asks)) in (0u64..).zip(comers) {
                let of = ClientAddress::of([192, 0, 2, host].into());
                let held = |open: &BTreeMap<u64, (ClientAddress, Standing)>, client| {
                    open.values().filter(|(of, _)| *of == client).count()
                };
                if let Some(gone) = loser(&open, of) {
                    let (loses, _) = open[&gone];
                    let count = held(&open, loses);
                    prop_assert!(held(&open, of) <= count);
                    open.remove(&gone);
                }
                let standing = if asks { Standing::Asking(number) } else { Standing::Answering(number) };
                open.insert(number, (of, standing));
                prop_assert!(open.len() <= CONNECTIONS_MAX && held(&open, of) <= CLIENT_MAX);
            }
        }
    }
}
