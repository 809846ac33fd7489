// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of sources lie in banks as if by lot.

use super::*;
use crate::traffic::page_places::{PAGE_BITS, PagePlaces};

/// Distances of pages that go on in step: neighbours, what a copy reads and what it writes back, its arrays,
/// two sources. In bursts.
const DISTANCES: [u64; 4] = [128, 1 << 15, 1 << 18, 1 << 20];

/// Where pages begin: a page of 4 KiB is half of a row of DDR4, and a row of four banks of LPDDR2.
struct Beginnings {
    profile: DramProfile,
    places: PagePlaces,
    /// Banks that a page fills.
    banks: u64,
}

impl Beginnings {
    fn of(name: &str) -> Beginnings {
        let profile = DramProfile::named(name).unwrap();
        let places = PagePlaces::new(profile.organisation.burst_bytes);
        let row_bursts = u64::from(profile.organisation.bursts_per_row);
        Beginnings {
            banks: (places.page_bursts / row_bursts).max(1),
            profile,
            places,
        }
    }

    fn count(&self) -> usize {
        (u64::from(self.profile.organisation.banks()) / self.banks) as usize
    }

    /// The bank of each page's first burst, among those in which a page can begin.
    fn banks(&self, pages: impl Iterator<Item = u64>) -> Vec<usize> {
        let bank = |page: u64| {
            let burst = self.places.place(page * self.places.page_bursts);
            let place = AddressMapping::RoBaRaCoCh.place(&self.profile.organisation, burst);
            (u64::from(place.bank) / self.banks) as usize
        };
        pages.map(bank).collect()
    }
}

/// Sum of (found − expected)² ÷ expected over the cells of a table in which all are as likely, and how far
/// that is above its mean, in standard deviations.
fn excess(cells: &[f64]) -> f64 {
    let expected = cells.iter().sum::<f64>() / cells.len() as f64;
    let sum: f64 = cells
        .iter()
        .map(|n| (n - expected).powi(2) / expected)
        .sum();
    let freedom = (cells.len() - 1) as f64;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn no_two_pages_share_a_place() {
    for burst_bytes in [32, 64] {
        let places = PagePlaces::new(burst_bytes);
        let mut is_taken = vec![false; 1 << PAGE_BITS];
        for page in 0..1u64 << PAGE_BITS {
            let first = places.place(page * places.page_bursts);
            let last = places.place((page + 1) * places.page_bursts - 1);
            assert_eq!(last - first, places.page_bursts - 1, "page {page} is whole");
            let place = (first / places.page_bursts) as usize;
            assert!(
                !std::mem::replace(&mut is_taken[place], true),
                "page {page}"
            );
        }
    }
}

/// Pages of a source fill the banks as evenly as a lot would, and not better: in the mean of the sources the
/// excess is within four standard deviations of 0.
#[test]
fn pages_of_a_source_lie_in_banks_as_if_by_lot() {
    const SOURCES: u64 = 8;
    for name in ["ddr4-3200", "lpddr2-1066"] {
        let beginnings = Beginnings::of(name);
        let of_source = |source: u64| {
            let first = source << 14;
            let mut cells = vec![0.0; beginnings.count()];
            for bank in beginnings.banks(first..first + 4096) {
                cells[bank] += 1.0;
            }
            excess(&cells)
        };
        let mean = (0..SOURCES).map(of_source).sum::<f64>() / SOURCES as f64;
        assert!(mean.abs() < 1.4, "{name}: {mean}");
    }
}

/// Whether two pages share a bank says nothing of the next two with the same distance: all pairs of banks are
/// as likely.
#[test]
fn banks_of_pages_in_step_say_nothing_of_each_other() {
    for name in ["ddr4-3200", "lpddr2-1066"] {
        let beginnings = Beginnings::of(name);
        let count = beginnings.count();
        for distance in DISTANCES.map(|bursts| bursts / beginnings.places.page_bursts) {
            for first in [0, 1 << 16, 1 << 18] {
                let pages = first..first + 16_384;
                let beside = beginnings.banks(pages.clone().map(|page| page + distance));
                let mut cells = vec![0.0; count * count];
                for (own, other) in beginnings.banks(pages).into_iter().zip(beside) {
                    cells[own * count + other] += 1.0;
                }
                let excess = excess(&cells);
                assert!(
                    excess < 5.0,
                    "{name}, pages {first} and {distance} on: {excess}"
                );
            }
        }
    }
}
