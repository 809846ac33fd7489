// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each has read so far, by group. While there are samples, it grows by them. While there are none, it
//! grows at each reading as much as lately.

use super::super::Key;
use super::intf::{PLACES, SampleCounts};
use std::collections::BTreeMap;
use weir_core::Missing;

/// The weight of a new reading against those before.
const NEW_RATIO: f64 = 0.2;

#[derive(Clone, Debug, Default, PartialEq)]
struct SampleAccount {
    last: SampleCounts,
    bytes: [f64; PLACES],
    /// Bytes that one reading adds, smoothed over the last readings. Where there are no samples, a reading
    /// adds this.
    lately: [f64; PLACES],
}

pub(super) struct SampleTotals {
    /// What a sample stands for.
    bytes: u64,
    accounts: BTreeMap<Key, SampleAccount>,
}

impl SampleTotals {
    pub(super) fn new(bytes: u64) -> SampleTotals {
        SampleTotals {
            bytes,
            accounts: BTreeMap::new(),
        }
    }

    /// Samples that were taken while they were on.
    pub(super) fn add(&mut self, key: Key, taken: &SampleCounts) -> [u64; PLACES] {
        let first = || SampleAccount {
            last: *taken,
            ..SampleAccount::default()
        };
        let account = self.accounts.entry(key).or_insert_with(first);
        for (place, now) in taken.iter().enumerate() {
            // Less than before is begun anew.
            let more = now.checked_sub(account.last[place]).unwrap_or(*now);
            let more = more as f64 * self.bytes as f64;
            account.bytes[place] += more;
            let lately = &mut account.lately[place];
            *lately += NEW_RATIO * (more - *lately);
        }
        account.last = *taken;
        account.sums()
    }

    /// No samples were taken: as lately. A workload that was never sampled has no share.
    pub(super) fn hold(
        &mut self,
        key: Key,
        taken: &SampleCounts,
    ) -> Result<[u64; PLACES], Missing> {
        let account = self.accounts.get_mut(&key).ok_or(Missing::NotYetRead)?;
        account.last = *taken;
        for (bytes, lately) in account.bytes.iter_mut().zip(account.lately) {
            *bytes += lately;
        }
        Ok(account.sums())
    }

    /// Forgets what was sampled lately: nothing is known any more.
    pub(super) fn skip(&mut self, key: Key, taken: &SampleCounts) {
        if let Some(account) = self.accounts.get_mut(&key) {
            account.last = *taken;
            account.lately = Default::default();
        }
    }

    pub(super) fn forget(&mut self, is_there: &dyn Fn(Key) -> bool) {
        self.accounts.retain(|key, _| is_there(*key));
    }
}

impl SampleAccount {
    fn sums(&self) -> [u64; PLACES] {
        // Never negative, and never NaN: sums of such.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        self.bytes.map(|bytes| bytes as u64)
    }
}
