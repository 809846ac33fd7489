// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel says of its performance monitoring units
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices*`).

use crate::inventory::numa::missing;
use crate::kernel::files::read_path;
use crate::kernel::parse::decimal;
use crate::kernel::parse::sysfs::list;
use crate::options::Roots;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir_core::Missing;
use weir_events::{Config, EncodingError, Field, Terms, encode};

/// Most PMUs that are read: a socket may have hundreds of boxes.
const PMU_COUNT_MAX: usize = 16_384;
/// Most fields of one.
const FIELD_COUNT_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    pub name: String,
    /// The `type` of its events.
    pub kind: u32,
    /// CPUs on which its events are to be opened: usually one per socket.
    pub cpus: Vec<u32>,
    pub fields: BTreeMap<String, Field>,
}

impl Pmu {
    /// Encodes an event.
    ///
    /// # Errors
    /// The driver of the PMU lacks a field, or has a narrower one.
    pub fn encode(&self, terms: &Terms) -> Result<Config, EncodingError> {
        encode(terms, |name| self.fields.get(name))
    }
}

pub(crate) fn directory(roots: &Roots) -> PathBuf {
    roots.sys.join("bus/event_source/devices")
}

pub(crate) fn names(roots: &Roots) -> Result<Vec<String>, Missing> {
    let dir = directory(roots);
    let entries = fs::read_dir(&dir).map_err(|e| missing(&dir, &e))?;
    // A name that is not UTF-8 is none of the tables'.
    let name = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let mut names: Vec<String> = entries.take(PMU_COUNT_MAX).filter_map(name).collect();
    names.sort_unstable();
    Ok(names)
}

pub(crate) fn read(roots: &Roots, name: &str) -> Result<Pmu, Missing> {
    let dir = directory(roots).join(name);
    let kind = number(&dir.join("type"))?;
    Ok(Pmu {
        name: name.to_owned(),
        kind,
        cpus: cpus(&dir)?,
        fields: fields(&dir.join("format"))?,
    })
}

fn malformed(path: &Path, why: impl std::fmt::Display) -> Missing {
    Missing::Lost(format!("{}: {why}", path.display()))
}

fn number(path: &Path) -> Result<u32, Missing> {
    let text = read_path(path).map_err(|e| missing(path, &e))?;
    let number = decimal(&text).map_err(|e| malformed(path, e))?;
    u32::try_from(number).map_err(|_| malformed(path, "it is above 2^32"))
}

/// `cpumask` of a PMU that is not a CPU's. One without is opened on CPU 0, as perf does.
fn cpus(dir: &Path) -> Result<Vec<u32>, Missing> {
    let path = dir.join("cpumask");
    match read_path(&path) {
        Ok(text) => match list(&text).map_err(|e| malformed(&path, e))? {
            none if none.is_empty() => Err(malformed(&path, "it names no CPU")),
            cpus => Ok(cpus),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(vec![0]),
        Err(e) => Err(missing(&path, &e)),
    }
}

fn fields(dir: &Path) -> Result<BTreeMap<String, Field>, Missing> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // Software PMUs have none.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(missing(dir, &e)),
    };
    let mut fields = BTreeMap::new();
    for entry in entries.take(FIELD_COUNT_MAX) {
        let entry = entry.map_err(|e| missing(dir, &e))?;
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            return Err(malformed(dir, "a field's name is not UTF-8"));
        };
        let text = read_path(&path).map_err(|e| missing(&path, &e))?;
        let field = Field::parse(&text).map_err(|e| malformed(&path, e))?;
        fields.insert(name, field);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::os::unix::fs::symlink;

    const CHA: &str = "sys/bus/event_source/devices/uncore_cha_0";

    fn fake() -> Fake {
        let fake = Fake::new();
        fake.write(format!("{CHA}/type"), "40\n");
        fake.write(format!("{CHA}/cpumask"), "0,28\n");
        fake.write(format!("{CHA}/format/event"), "config:0-7\n");
        fake.write(format!("{CHA}/format/umask"), "config:8-15,32-63\n");
        fake
    }

    #[test]
    fn a_pmu_is_read_and_encodes() {
        let fake = fake();
        assert_eq!(names(&fake.roots()).unwrap(), ["uncore_cha_0"]);
        let pmu = read(&fake.roots(), "uncore_cha_0").unwrap();
        assert_eq!((pmu.kind, &pmu.cpus[..]), (40, &[0, 28][..]));
        let terms = Terms::parse("event=0x36,umask=0x20c8168201").unwrap();
        assert_eq!(
            pmu.encode(&terms),
            Ok(Config([0x20c8_1682_0000_0136, 0, 0, 0]))
        );
        fake.remove(format!("{CHA}/cpumask"));
        fake.remove(format!("{CHA}/format"));
        let bare = read(&fake.roots(), "uncore_cha_0").unwrap();
        assert_eq!((&bare.cpus[..], bare.fields.len()), (&[0][..], 0));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (file, text, said) in [
            ("type", "x\n", "type"),
            ("type", "4294967296\n", "type"),
            ("cpumask", "\n", "cpumask"),
            ("cpumask", "0-\n", "cpumask"),
            ("format/event", "config:64\n", "format/event"),
            ("format/event", "\u{0}", "format/event"),
        ] {
            let fake = fake();
            fake.write(format!("{CHA}/{file}"), text);
            let why = read(&fake.roots(), "uncore_cha_0").unwrap_err();
            assert!(why.to_string().contains(said), "{why}");
        }
    }

    #[test]
    fn hostile_trees_end() {
        let fake = fake();
        let path = |name: &str| fake.path(format!("{CHA}/{name}"));
        fake.remove(format!("{CHA}/type"));
        symlink("type", path("type")).unwrap();
        let why = read(&fake.roots(), "uncore_cha_0").unwrap_err();
        assert!(
            matches!(&why, Missing::Lost(text) if text.contains("type")),
            "{why}"
        );
        std::fs::remove_file(path("type")).unwrap();
        std::fs::write(path("type"), vec![b'1'; 1 << 20]).unwrap();
        assert!(read(&fake.roots(), "uncore_cha_0").is_err());
        // A FIFO without a writer does not hang.
        std::fs::remove_file(path("type")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("type"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(read(&fake.roots(), "uncore_cha_0").is_err());
    }
}
