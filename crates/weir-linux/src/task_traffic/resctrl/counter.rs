// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of one monitoring group: of each L3 cache a count, which only goes up until a program resets it.
//!
//! The kernel says `Unavailable` where the CPU does not follow the group in that cache now, `Unassigned`
//! where it has been given no counter, `Error` where it does not know the group. A cache that has never had a
//! count for the group is left out; one that had is missed, and so is the sum until it is back. Nothing is
//! lost by that: the next sum spans the gap.

use super::tree::{ENTRIES_MAX, Events};
use crate::kernel::files::{Buffer, for_each_dir, open_path_dir};
use crate::kernel::parse::decimal;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use weir_core::Missing;

/// One per cache: `mon_L3_00`, …
const DOMAIN: &[u8] = b"mon_L3_";
const DOMAINS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Counter {
    /// By the directory of each cache, the total and local bytes that were read last.
    last: BTreeMap<String, Option<[u64; 2]>>,
    sums: [u64; 2],
    /// What was given out: never goes back.
    given: u64,
}

/// What a file said instead of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Unavailable,
    Unassigned,
    Error,
    Nonsense,
    Unread(Errno),
}

impl Word {
    fn missing(self, domain: &str) -> Missing {
        match self {
            Word::Unavailable => Missing::Lost(format!("resctrl: unavailable in {domain}")),
            Word::Unassigned => Missing::NotSupported(
                "resctrl: no counter is left to be assigned (info/L3_MON/available_mbm_cntrs)"
                    .into(),
            ),
            Word::Error => Missing::Lost(format!("resctrl: error in {domain}")),
            Word::Nonsense => Missing::Lost(format!("resctrl: no number in {domain}")),
            Word::Unread(e) => Missing::Lost(format!("resctrl: {domain}: {e}")),
        }
    }
}

impl Counter {
    pub(super) fn find_caches(&mut self, group: &OwnedFd) -> Result<(), Errno> {
        let mut found = Vec::new();
        let data = open_path_dir(group, "mon_data")?;
        for_each_dir(&data, ENTRIES_MAX, |name| {
            if name.starts_with(DOMAIN) && found.len() < DOMAINS_MAX {
                found.extend(std::str::from_utf8(name).map(str::to_owned));
            }
        })?;
        self.last.retain(|domain, _| found.contains(domain));
        for domain in found {
            self.last.entry(domain).or_default();
        }
        Ok(())
    }

    /// The bytes from slow memory since counting began: the total less what is local, summed over all caches.
    ///
    /// The two are read one after the other, local first, so that their difference may be a little too large
    /// once and less the next time. A count never goes down, so what was given out stands until the
    /// difference is above it again. A cache that does not answer makes the sum unknown, and not smaller; its
    /// bytes come with the next sum.
    pub(super) fn read(
        &mut self,
        group: &OwnedFd,
        events: Events,
        buffer: &mut Buffer,
    ) -> Result<u64, Missing> {
        let mut why = None;
        let mut is_counted = false;
        for (domain, last) in &mut self.last {
            let now = both(group, domain, events, buffer);
            match (now, &last) {
                (Ok(now), Some(before)) => {
                    is_counted = true;
                    let more = |i: usize| now[i].checked_sub(before[i]);
                    match (more(0), more(1)) {
                        (Some(total), Some(local)) => {
                            self.sums[0] = self.sums[0].saturating_add(total);
                            self.sums[1] = self.sums[1].saturating_add(local);
                        }
                        _ => why = Some(Missing::Lost(format!("resctrl: {domain} began anew"))),
                    }
                    *last = Some(now);
                }
                (Ok(now), None) => {
                    is_counted = true;
                    *last = Some(now);
                }
                (Err(Word::Unavailable), None) => {}
                (Err(word), _) => why = Some(word.missing(domain)),
            }
        }
        match why {
            Some(why) => Err(why),
            None if !is_counted => Err(Missing::Lost("resctrl: unavailable in all caches".into())),
            None => {
                let remote = self.sums[0].saturating_sub(self.sums[1]);
                self.given = self.given.max(remote);
                Ok(self.given)
            }
        }
    }
}

/// Total and local; without need of the latter 0.
fn both(
    group: &OwnedFd,
    domain: &str,
    events: Events,
    buffer: &mut Buffer,
) -> Result<[u64; 2], Word> {
    let mut read = |event: &str| {
        let text = buffer.read_at(group, &format!("mon_data/{domain}/{event}"));
        number(text.map_err(Word::Unread)?)
    };
    // Local first: what comes in between must not make it the larger one.
    let local = match events {
        Events::Slow(_) => 0,
        Events::Remote => read("mbm_local_bytes")?,
    };
    Ok([read("mbm_total_bytes")?, local])
}

fn number(text: &[u8]) -> Result<u64, Word> {
    match text.trim_ascii() {
        b"Unavailable" => Err(Word::Unavailable),
        b"Unassigned" => Err(Word::Unassigned),
        b"Error" => Err(Word::Error),
        digits => decimal(digits).map_err(|_| Word::Nonsense),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Knob;
    use super::*;
    use crate::fake::Fake;
    use crate::kernel::files::open_root;
    use proptest::prelude::*;

    const SLOW: Events = Events::Slow(Knob::Mask);

    struct Group(Fake, OwnedFd, Counter, Buffer);

    impl Group {
        fn new(domains: u32) -> Group {
            let fake = Fake::new();
            for domain in 0..domains {
                fake.write(
                    format!("g/mon_data/mon_L3_{domain:02}/llc_occupancy"),
                    "0\n",
                );
            }
            fake.write("g/mon_data/mon_sub_L3_00/mbm_total_bytes", "7\n");
            let fd = open_root(&fake.path("g")).unwrap();
            let mut counter = Counter::default();
            counter.find_caches(&fd).unwrap();
            Group(fake, fd, counter, Buffer::new())
        }

        fn says(&self, domain: u32, total: &str, local: &str) {
            let dir = format!("g/mon_data/mon_L3_{domain:02}");
            self.0
                .write(format!("{dir}/mbm_total_bytes"), format!("{total}\n"));
            self.0
                .write(format!("{dir}/mbm_local_bytes"), format!("{local}\n"));
        }

        fn read(&mut self, events: Events) -> Result<u64, Missing> {
            self.2.read(&self.1, events, &mut self.3)
        }
    }

    #[test]
    fn caches_add_up_from_where_they_were() {
        let mut group = Group::new(2);
        group.says(0, "100", "x");
        group.says(1, "1000", "x");
        assert_eq!(group.read(SLOW), Ok(0));
        group.says(0, "164", "x");
        group.says(1, "1128", "x");
        assert_eq!(group.read(SLOW), Ok(64 + 128));
        assert!(group.read(Events::Remote).is_err(), "no number");
    }

    #[test]
    fn remote_is_what_is_not_local_and_never_goes_back() {
        let mut group = Group::new(1);
        group.says(0, "100", "40");
        assert_eq!(group.read(Events::Remote), Ok(0));
        group.says(0, "300", "140");
        assert_eq!(group.read(Events::Remote), Ok(100));
        // The two are read one after the other.
        group.says(0, "310", "200");
        assert_eq!(group.read(Events::Remote), Ok(100));
        group.says(0, "500", "200");
        assert_eq!(group.read(Events::Remote), Ok(240));
    }

    #[test]
    fn words_are_told_apart_and_a_gap_is_bridged() {
        let mut group = Group::new(2);
        group.says(0, "Unavailable", "0");
        group.says(1, "Unavailable", "0");
        let why = group.read(SLOW).unwrap_err().to_string();
        assert!(why.contains("in all caches"), "{why}");
        group.says(0, "10", "0");
        assert_eq!(group.read(SLOW), Ok(0), "the other never had a count");
        for (word, want) in [
            ("Unavailable", "unavailable in mon_L3_00"),
            ("Error", "error in mon_L3_00"),
            ("Unassigned", "available_mbm_cntrs"),
            ("", "no number"),
            ("12 34", "no number"),
            ("-1", "no number"),
            ("99999999999999999999", "no number"),
        ] {
            group.says(0, word, "0");
            let why = group.read(SLOW).unwrap_err().to_string();
            assert!(why.contains(want), "{word}: {why}");
        }
        group.says(0, "30", "0");
        assert_eq!(group.read(SLOW), Ok(20));
        group.says(0, "5", "0");
        assert!(group.read(SLOW).unwrap_err().to_string().contains("anew"));
        group.says(0, "9", "0");
        assert_eq!(group.read(SLOW), Ok(24));
    }

    #[test]
    fn caches_come_and_go_and_links_lead_nowhere() {
        let mut group = Group::new(2);
        group.says(0, "1", "0");
        group.says(1, "1", "0");
        assert_eq!(group.read(SLOW), Ok(0));
        group.0.remove("g/mon_data/mon_L3_01");
        assert!(group.read(SLOW).is_err());
        group.2.find_caches(&group.1).unwrap();
        group.says(0, "3", "0");
        assert_eq!(group.read(SLOW), Ok(2));
        group.0.remove("g/mon_data/mon_L3_00/mbm_total_bytes");
        let to = group.0.path("g/mon_data/mon_L3_00/mbm_total_bytes");
        std::os::unix::fs::symlink("/proc/uptime", to).unwrap();
        assert!(group.read(SLOW).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, values in prop::collection::vec(any::<[u64; 2]>(), 0..6)) {
            let _ = number(&bytes);
            let mut group = Group::new(1);
            let mut before = 0;
            for [total, local] in values {
                group.says(0, &total.to_string(), &local.to_string());
                if let Ok(now) = group.read(Events::Remote) {
                    prop_assert!(now >= before);
                    before = now;
                }
            }
        }
    }
}
