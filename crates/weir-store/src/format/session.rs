// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The row of a session: what is known of a run, which ticks are its own, and the row's checksum.
//!
//! The last two stand at the end of `config`, as a member that the controller has no use for:
//!
//! ```text
//! {…,"recorded":{"first_tick":1,"last_tick":400,"missing_at_end":0,"crc32":"0123abcd"}}
//! ```
//!
//! The sum covers all columns, and `config` up to the sum's digits.

use super::checksum::Sum;
use super::tick::Start;
use rusqlite::{Connection, Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weir_core::Config;

const MEMBER: &str = "recorded";
/// What comes before the digits of the sum.
const OPENING: &str = "\"crc32\":\"";
const CLOSING: &str = "\"}}";
const DIGITS: usize = 8;
/// For two numbers in place of `null`, and a time.
const SPARE_CHARS: usize = 48;
/// A time of these centuries in the database; none takes no space.
const TIME_BYTES: usize = 6;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// Number of the session's first tick.
    pub(crate) first_tick: i64,
    /// The last one's, if it ended; less than the first if there are none.
    pub(crate) last_tick: Option<i64>,
    /// Ticks that came after these and are lost; nothing where that is not known.
    pub(crate) missing_at_end: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) id: i64,
    pub(crate) started_unix_ms: i64,
    pub(crate) ended_unix_ms: Option<i64>,
    pub(crate) writer_version: String,
    pub(crate) writer_pid: i64,
    pub(crate) interval_ms: i64,
    pub(crate) policy: String,
    pub(crate) limiting: i64,
    pub(crate) config: String,
    pub(crate) description: String,
}

impl SessionRow {
    /// A row with its sum, and with space for what is known at the end: a row that keeps its length is
    /// changed where it stands. A longer one would move to the end of the file, and go with it.
    ///
    /// # Errors
    /// Its settings or the machine have no JSON form.
    pub(crate) fn begin(id: i64, start: &Start, extent: &Extent) -> Result<SessionRow, String> {
        let row = SessionRow::new(id, start).map_err(|error| error.to_string());
        let mut row = row?;
        row.put_sum(extent, 0)?;
        row.put_sum(extent, row.config.len() + SPARE_CHARS)?;
        Ok(row)
    }

    /// Writes down the end.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn end(&mut self, ended_unix_ms: i64, extent: &Extent) -> Result<(), String> {
        let length = match self.ended_unix_ms.replace(ended_unix_ms) {
            None => self.config.len().saturating_sub(TIME_BYTES),
            Some(_) => self.config.len(),
        };
        self.put_sum(extent, length)
    }

    pub(crate) fn new(id: i64, start: &Start) -> serde_json::Result<SessionRow> {
        Ok(SessionRow {
            id,
            started_unix_ms: crate::writer::signed(start.started_unix_ms),
            ended_unix_ms: None,
            writer_version: start.writer_version.clone(),
            writer_pid: start.writer_pid.into(),
            interval_ms: crate::writer::signed(start.interval_ms),
            policy: start.policy.clone(),
            limiting: start.config.limit.into(),
            config: serde_json::to_string(&start.config)?,
            description: serde_json::to_string(&start.description)?,
        })
    }

    pub(crate) fn read(row: &Row) -> rusqlite::Result<SessionRow> {
        Ok(SessionRow {
            id: row.get("id")?,
            started_unix_ms: row.get("started_unix_ms")?,
            ended_unix_ms: row.get("ended_unix_ms")?,
            writer_version: row.get("writer_version")?,
            writer_pid: row.get("writer_pid")?,
            interval_ms: row.get("interval_ms")?,
            policy: row.get("policy")?,
            limiting: row.get("limiting")?,
            config: row.get("config")?,
            description: row.get("description")?,
        })
    }

    pub(crate) fn insert(&self, database: &Connection) -> rusqlite::Result<()> {
        let statement = "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let row = params![
            self.id,
            self.started_unix_ms,
            self.ended_unix_ms,
            self.writer_version,
            self.writer_pid,
            self.interval_ms,
            self.policy,
            self.limiting,
            self.config,
            self.description,
        ];
        database.execute(statement, row).map(drop)
    }

    /// Writes down which ticks it has, and its sum: last of all, after any change. Spaces make `config`
    /// so long, if it is shorter.
    ///
    /// # Errors
    /// Its config is no JSON object.
    pub(crate) fn put_sum(&mut self, extent: &Extent, length: usize) -> Result<(), String> {
        let mut config: Map<String, Value> = from_json("config", &self.config)?;
        config.remove(MEMBER);
        let comma = if config.is_empty() { "" } else { "," };
        let wrong = |error| format!("config: {error}");
        let mut config = serde_json::to_string(&config).map_err(wrong)?;
        let mut extent = serde_json::to_string(extent).map_err(wrong)?;
        // Both end with the brace that closes them.
        config.pop();
        extent.pop();
        self.config = format!("{config}{comma}\"{MEMBER}\":{extent},");
        let rest = OPENING.len() + DIGITS + CLOSING.len();
        let spaces = length.saturating_sub(self.config.len() + rest);
        self.config += &" ".repeat(spaces);
        self.config += OPENING;
        self.config += &format!("{:08x}{CLOSING}", self.sum(&self.config));
        Ok(())
    }

    fn sum(&self, config: &str) -> u32 {
        let mut sum = Sum::of("session");
        sum.whole(self.id);
        sum.whole(self.started_unix_ms);
        sum.value(self.ended_unix_ms.map_or(
            rusqlite::types::ValueRef::Null,
            rusqlite::types::ValueRef::Integer,
        ));
        sum.text(&self.writer_version);
        sum.whole(self.writer_pid);
        sum.whole(self.interval_ms);
        sum.text(&self.policy);
        sum.whole(self.limiting);
        sum.text(config);
        sum.text(&self.description);
        sum.end()
    }

    /// The ticks that it has, if the row is what was written.
    ///
    /// # Errors
    /// It is not what was written, or has no sum.
    pub(crate) fn check(&self) -> Result<Extent, String> {
        let config: Map<String, Value> = from_json("config", &self.config)?;
        let recorded = config.get(MEMBER).ok_or("it has no checksum")?;
        let wrong = || "its checksum differs".to_owned();
        let closed = self.config.strip_suffix(CLOSING).ok_or_else(wrong)?;
        let place = closed.len().checked_sub(DIGITS).ok_or_else(wrong)?;
        let (config, digits) = closed.split_at_checked(place).ok_or_else(wrong)?;
        if format!("{:08x}", self.sum(config)) != digits {
            return Err(wrong());
        }
        let extent = Extent::deserialize(recorded);
        extent.map_err(|error| format!("config: {error}"))
    }

    /// What it says.
    ///
    /// # Errors
    /// Something in it cannot be.
    pub(crate) fn start(&self) -> Result<Start, String> {
        Ok(Start {
            started_unix_ms: unsigned("started_unix_ms", self.started_unix_ms)?,
            writer_version: self.writer_version.clone(),
            writer_pid: u32::try_from(self.writer_pid).map_err(|_| "writer_pid")?,
            interval_ms: unsigned("interval_ms", self.interval_ms)?,
            policy: self.policy.clone(),
            config: config(&self.config)?,
            description: from_json("description", &self.description)?,
        })
    }
}

/// What the document of a session's first tick says of the session.
pub(crate) fn copy(document: &Value) -> Option<Start> {
    let copy = document.get("session").filter(|copy| !copy.is_null())?;
    let text = |name: &str| copy.get(name)?.as_str().map(str::to_owned);
    Some(Start {
        started_unix_ms: copy.get("started_unix_ms")?.as_u64()?,
        writer_version: text("writer_version")?,
        writer_pid: u32::try_from(copy.get("writer_pid")?.as_u64()?).ok()?,
        interval_ms: copy.get("interval_ms")?.as_u64()?,
        policy: text("policy")?,
        config: config(&copy.get("config")?.to_string()).ok()?,
        description: serde_json::from_value(copy.get("description")?.clone()).ok()?,
    })
}

pub(crate) fn unsigned(what: &str, value: i64) -> Result<u64, String> {
    u64::try_from(value).map_err(|_| format!("{what} is negative"))
}

/// Settings that this weir does not know are passed over, unlike in a settings file: a newer weir of the
/// same format may have more of them.
pub(crate) fn config(text: &str) -> Result<Config, String> {
    let wrong = |error| format!("config: {error}");
    let mut found: Map<String, Value> = from_json("config", text)?;
    let known = serde_json::to_value(Config::default()).map_err(wrong)?;
    found.retain(|name, _| known.get(name).is_some());
    serde_json::from_value(Value::Object(found)).map_err(wrong)
}

fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_core::Description;

    fn row() -> SessionRow {
        let start = Start {
            started_unix_ms: 1_000,
            writer_version: "0.1.0".into(),
            writer_pid: 7,
            interval_ms: 50,
            policy: "max-min".into(),
            config: Config::default(),
            description: Description::default(),
        };
        SessionRow::new(3, &start).unwrap()
    }

    #[test]
    fn a_row_says_which_ticks_it_has_and_stays_readable_for_others() {
        let mut row = row();
        assert!(row.check().is_err(), "it has no sum yet");
        let extent = Extent {
            first_tick: 9,
            last_tick: None,
            missing_at_end: None,
        };
        row.put_sum(&extent, 0).unwrap();
        assert_eq!(row.check(), Ok(extent));
        row.ended_unix_ms = Some(2_000);
        assert!(row.check().is_err(), "it was changed after its sum");
        let ended = Extent {
            last_tick: Some(12),
            missing_at_end: Some(0),
            ..extent
        };
        row.put_sum(&ended, 0).unwrap();
        assert_eq!(row.check(), Ok(ended));
        assert_eq!(row.config.matches(MEMBER).count(), 1);
        assert_eq!(row.start().unwrap().config, Config::default());
    }

    #[test]
    fn settings_that_are_not_known_are_passed_over() {
        let mut row = row();
        row.config.insert_str(1, "\"of_tomorrow\":[1],");
        row.put_sum(&Extent::default(), 0).unwrap();
        assert_eq!(row.check(), Ok(Extent::default()));
        assert_eq!(row.start(), self::row().start());
    }

    /// Else the end of a run would move its row to the end of the file.
    #[test]
    fn a_row_keeps_its_length() {
        let start = row().start().unwrap();
        let extent = Extent {
            first_tick: 1,
            ..Extent::default()
        };
        let mut row = SessionRow::begin(1, &start, &extent).unwrap();
        let before = row.config.len();
        for last in [0, 1_000, 1 << 40] {
            let mut row = row.clone();
            let ended = Extent {
                last_tick: Some(last),
                missing_at_end: Some(last.unsigned_abs()),
                ..extent
            };
            row.end(1_767_225_600_000, &ended).unwrap();
            assert_eq!(row.config.len() + TIME_BYTES, before, "{last}");
            assert_eq!(row.check(), Ok(ended));
        }
        row.end(1_767_225_600_000, &extent).unwrap();
        assert_eq!(row.start().unwrap().config, start.config);
    }

    proptest! {
        #[test]
        fn any_byte_that_changed_is_found(place: prop::sample::Index, change in 1u8..) {
            let mut row = row();
            row.put_sum(&Extent { first_tick: 1, ..Extent::default() }, 700).unwrap();
            let mut bytes = row.config.clone().into_bytes();
            let place = place.index(bytes.len());
            bytes[place] ^= change;
            let Ok(config) = String::from_utf8(bytes) else { return Ok(()) };
            let harmed = SessionRow { config, ..row.clone() };
            prop_assert!(harmed.check().is_err(), "{}", harmed.config);
        }
    }
}
