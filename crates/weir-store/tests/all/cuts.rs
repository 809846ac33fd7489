// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files without their ends, and without pages that the rest hangs on: all ticks that are there are
//! recovered, in each session, and it is said how many are not.

use crate::made::{add_session, add_session_of, cases, desk, real_start};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use weir_store::{Recording, Recovered, Tick, recover};

/// Ticks of three sessions.
const TICKS: [usize; 3] = [500, 400, 300];
const PERCENT: [usize; 5] = [99, 95, 90, 60, 30];

struct Whole {
    bytes: Vec<u8>,
    ticks: Vec<Vec<Tick>>,
}

/// The second session was killed.
fn whole() -> &'static Whole {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let dir = desk();
        let path = dir.path().join("a.weir");
        let ticks = vec![
            add_session_of(&path, &real_start(), TICKS[0], true),
            add_session_of(&path, &real_start(), TICKS[1], false),
            add_session_of(&path, &real_start(), TICKS[2], true),
        ];
        let bytes = fs::read(path).unwrap();
        Whole { bytes, ticks }
    })
}

/// Recovers a file with these bytes; gives what was recovered, and the ticks in it by session.
fn recovered(path: &Path) -> (Recovered, Vec<Vec<Tick>>) {
    let new = path.with_extension("new");
    let all = recover(path, &new).unwrap();
    let recording = Recording::open(&new).unwrap();
    let ticks = recording.sessions().iter().map(|session| {
        let found = recording.survey(session.id).unwrap();
        assert_eq!(found.damage.first, None);
        let ticks = recording
            .ticks(session.id)
            .collect::<Result<Vec<Tick>, _>>();
        ticks.unwrap()
    });
    let ticks = ticks.collect();
    fs::remove_file(new).unwrap();
    (all, ticks)
}

/// Each is one that was written, in order; missing ticks between them are counted where they are missing.
fn are_of(found: &[Tick], wanted: &[Tick]) -> bool {
    let mut next = 0;
    found.iter().all(|tick| {
        let place = tick.plan.seq as usize;
        let follows = place as u64 == next + tick.lost_before;
        next = place as u64 + 1;
        let as_written = Tick {
            lost_before: wanted[place].lost_before,
            ..tick.clone()
        };
        follows && as_written == wanted[place]
    })
}

fn file(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("a.weir");
    fs::write(&path, bytes).unwrap();
    path
}

/// How many of so many ticks are on the pages that are there: read off the whole file, by its bytes.
fn at_least_of(all: usize, bytes: usize, kept: usize) -> usize {
    // Rows are written in order. The first pages are those of the tables; a session begins with much.
    (all * kept.saturating_sub(28 * 4096) / bytes).saturating_sub(40)
}

fn at_least(kept: usize) -> usize {
    at_least_of(TICKS.iter().sum(), whole().bytes.len(), kept)
}

#[test]
fn sessions_up_to_the_truncation_are_recovered() {
    let whole = whole();
    for percent in PERCENT {
        let kept = whole.bytes.len() * percent / 100;
        let dir = desk();
        let (found, ticks) = recovered(&file(&dir, &whole.bytes[..kept]));
        assert_eq!(found.sessions_without_settings, 0, "{percent} %: {found:?}");
        let count: usize = ticks.iter().map(Vec::len).sum();
        assert!(count >= at_least(kept), "{percent} %: {found:?}");
        assert_eq!(count as u64, found.ticks);
        for (session, found) in ticks.iter().enumerate() {
            let wanted = &whole.ticks[session];
            assert!(are_of(found, wanted), "{percent} %, {session}");
            // Whole but for the last one that is there.
            let is_last = ticks.iter().rposition(|ticks| !ticks.is_empty()) <= Some(session);
            assert!(
                is_last || found.len() + 40 >= wanted.len(),
                "{percent} %, {session}"
            );
        }
        // A session that ended, and one with another after it, say how many there were.
        let missing: usize = whole.ticks[..ticks.len()]
            .iter()
            .map(Vec::len)
            .sum::<usize>()
            - count;
        assert!(
            missing > 0 || percent == 99,
            "{percent} %: nothing was removed"
        );
        let said = found.missing_at_end + found.lost_ticks;
        assert!(
            said == missing as u64 || found.unknown_ends == 1,
            "{percent} %: {found:?}"
        );
    }
}

/// D1: the table of sessions lies on few pages, and which ones is chance.
#[test]
fn sessions_are_recovered_without_their_table() {
    let whole = whole();
    let dir = desk();
    let path = file(&dir, &whole.bytes);
    let pages: Vec<usize> = {
        let database = rusqlite::Connection::open(&path).unwrap();
        let mut query = database
            .prepare("SELECT pageno FROM dbstat WHERE name = 'session'")
            .unwrap();
        let pages = query.query_map([], |row| row.get(0)).unwrap();
        pages.map(Result::unwrap).collect()
    };
    assert!(pages.len() > 1);
    for percent in [100, 99, 60, 30] {
        let mut bytes = whole.bytes[..whole.bytes.len() * percent / 100].to_vec();
        for page in &pages {
            let from = (page - 1) * 4096;
            if let Some(page) = bytes.get_mut(from..from + 4096) {
                page.fill(0);
            }
        }
        let (found, ticks) = recovered(&file(&dir, &bytes));
        assert!(
            found.ticks as usize >= at_least(bytes.len()),
            "{percent} %: {found:?}"
        );
        assert_eq!(
            found.sessions_without_settings, 0,
            "their first ticks have them: {found:?}"
        );
        for (found, wanted) in ticks.iter().zip(&whole.ticks) {
            assert!(are_of(found, wanted));
        }
    }
}

/// On a small machine all names fit a page: what is known of a first session must not move when a second
/// begins.
#[test]
fn a_first_session_does_not_hang_on_the_second() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let first = add_session(&path, 400, true);
    let whole = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    add_session(&path, 400, true);
    let bytes = fs::read(&path).unwrap();
    for percent in [100, 90, 60, 30] {
        let kept = whole * percent / 100;
        let (found, ticks) = recovered(&file(&dir, &bytes[..kept]));
        assert!(
            found.ticks as usize >= at_least_of(400, whole, kept),
            "{percent} %: {found:?}"
        );
        assert!(are_of(&ticks[0], &first), "{percent} %");
        assert_eq!(found.sessions_without_settings, 0, "{percent} %: {found:?}");
    }
}

#[test]
fn a_recovered_session_has_its_settings_and_machine() {
    let whole = whole();
    let dir = desk();
    let path = file(&dir, &whole.bytes[..whole.bytes.len() * 9 / 10]);
    let new = dir.path().join("b.weir");
    recover(&path, &new).unwrap();
    let recording = Recording::open(&new).unwrap();
    assert_eq!(recording.sessions().len(), 3);
    for session in recording.sessions() {
        assert_eq!(session.start, real_start());
    }
}

/// D3: it is said how much the end was.
#[test]
fn what_is_missing_at_the_end_is_counted() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    add_session_of(&path, &real_start(), 1000, true);
    let bytes = fs::read(&path).unwrap();
    for percent in PERCENT {
        let (found, _) = recovered(&file(&dir, &bytes[..bytes.len() * percent / 100]));
        assert_eq!(
            found.ticks + found.lost_ticks + found.missing_at_end,
            1000,
            "{found:?}"
        );
        assert!(
            found.missing_at_end > 0 && found.unknown_ends == 0,
            "{found:?}"
        );
    }
    // A session without an end does not say how many there were.
    let path = dir.path().join("killed.weir");
    add_session(&path, 1000, false);
    let bytes = fs::read(&path).unwrap();
    let (found, _) = recovered(&file(&dir, &bytes[..bytes.len() / 2]));
    assert_eq!(
        (found.missing_at_end, found.unknown_ends),
        (0, 1),
        "{found:?}"
    );
}

/// Figures of the time that was recovered are there, also where their own pages are not.
#[test]
fn figures_are_made_anew_where_they_are_lost() {
    let whole = whole();
    for percent in [90, 60, 30] {
        let dir = desk();
        let path = file(&dir, &whole.bytes[..whole.bytes.len() * percent / 100]);
        let new = dir.path().join("b.weir");
        let found = recover(&path, &new).unwrap();
        let database = rusqlite::Connection::open(&new).unwrap();
        let query = "SELECT count(*) FROM tick WHERE NOT EXISTS
            (SELECT 1 FROM span WHERE tick.id BETWEEN first_tick AND last_tick)";
        let bare: u64 = database.query_one(query, [], |row| row.get(0)).unwrap();
        assert!(
            bare <= 3,
            "{percent} %: {bare} of {} ticks have no figures",
            found.ticks
        );
        let overlaps = "SELECT count(*) FROM span AS a JOIN span AS b
            ON b.id > a.id AND b.first_tick <= a.last_tick";
        let overlaps: u64 = database.query_one(overlaps, [], |row| row.get(0)).unwrap();
        assert_eq!(overlaps, 0, "{percent} %");
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_truncation_at_any_length(kept: prop::sample::Index) {
        let whole = whole();
        let kept = kept.index(whole.bytes.len());
        let dir = desk();
        let path = file(&dir, &whole.bytes[..kept]);
        prop_assert!(Recording::open(&path).is_err(), "a part is not passed off as the whole");
        let new = dir.path().join("b.weir");
        // Its tables alone are the first pages.
        let Ok(all) = recover(&path, &new) else {
            prop_assert!(kept < 40 * 4096, "nothing is recovered of {kept} bytes");
            return Ok(());
        };
        prop_assert!(all.ticks as usize >= at_least(kept), "{kept}: {all:?}");
        let recording = Recording::open(&new).unwrap();
        for session in recording.sessions() {
            let wanted = &whole.ticks[session.id as usize - 1];
            let found: Vec<Tick> = recording.ticks(session.id).map(Result::unwrap).collect();
            prop_assert!(are_of(&found, wanted), "{}: {:?}", kept, all);
        }
    }
}
