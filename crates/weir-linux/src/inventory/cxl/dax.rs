// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dax devices: memory that a driver can hand out as system RAM (kernel, `drivers/dax`). What each is made of
//! is what it lies below: a CXL region, `hmem.N` (soft-reserved memory), or `ndbusN` (persistent memory).

use super::read::{base, is_numbered};
use super::sysfs::{CxlSysfs, lost};
use super::{Dax, DaxParent, Fabric, Known};
use crate::inventory::numa::missing;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Adds them to their regions, and those of no region to the fabric. `objects` are those of the CXL bus.
pub(super) fn add(sysfs: &mut CxlSysfs, objects: &BTreeMap<String, PathBuf>, fabric: &mut Fabric) {
    let dir = sysfs.path("bus/dax/devices");
    // No dax bus: no dax device.
    for name in sysfs.names(&dir).unwrap_or_default() {
        let real = match sysfs.real(&dir.join(&name)) {
            Ok(real) => real,
            Err(why) => {
                fabric.problems.push(why);
                continue;
            }
        };
        // The whole path decides: libnvdimm has a region0 of its own.
        let is_above = |name: &String| objects.get(name).is_some_and(|at| real.starts_with(at));
        let region = fabric.regions.iter_mut().find(|r| is_above(&r.name));
        let (of, parent) = match &region {
            Some(region) => (DaxParent::Region, Ok(region.name.clone())),
            None => parent(&real),
        };
        let dax = Dax {
            of,
            parent,
            start: sysfs.number(&real, "resource"),
            size_bytes: sysfs.number(&real, "size"),
            node: sysfs.node(&real, "target_node"),
            driver: driver(&real),
            name,
        };
        match region {
            Some(region) => region.dax.push(dax),
            None => fabric.dax.push(dax),
        }
    }
}

fn parent(real: &Path) -> (DaxParent, Known<String>) {
    let above: Vec<&str> = real.iter().filter_map(|part| part.to_str()).collect();
    let find = |stem| above.iter().find(|part| is_numbered(part, stem));
    for (stem, of) in [
        ("ndbus", DaxParent::PersistentMemory),
        ("hmem.", DaxParent::SoftReserved),
    ] {
        if let Some(found) = find(stem) {
            return (of, Ok((*found).to_owned()));
        }
    }
    (DaxParent::Other, base(real.parent().unwrap_or(real)))
}

/// The name alone, without the driver's path.
fn driver(real: &Path) -> Known<String> {
    let path = real.join("driver");
    let target = fs::read_link(&path).map_err(|e| missing(&path, &e))?;
    let name = target.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned)
        .ok_or_else(|| lost(&path, "it has no name"))
}
