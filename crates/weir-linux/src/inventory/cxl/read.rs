// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CXL bus: windows, regions, devices.

use super::sysfs::{CxlSysfs, lost};
use super::{CxlMemory, DecoderTarget, Fabric, Known, Region, Window, dax};
use crate::options::Roots;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_core::Missing;

/// Most parts of a region: the specification allows 16.
const TARGET_COUNT_MAX: u64 = 16;

/// Objects on the CXL bus: where each really lies, by name.
struct Bus {
    objects: BTreeMap<String, PathBuf>,
    /// Names as the kernel counts them.
    order: Vec<String>,
}

/// What sysfs says of the bus, before nodes are classified.
pub(super) struct Read {
    pub(super) fabric: Fabric,
    pub(super) decoders: Vec<Decoder>,
}

/// An endpoint decoder that is set: addresses that a device answers to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decoder {
    pub(super) device: String,
    pub(super) start: u64,
    pub(super) size_bytes: u64,
}

/// Reads it.
///
/// # Errors
/// There is no sysfs. What else cannot be read is among the problems.
pub(super) fn bus(roots: &Roots) -> Known<Read> {
    let mut sysfs = CxlSysfs::open(&roots.sys)?;
    let mut read = Read {
        fabric: Fabric::default(),
        decoders: Vec::new(),
    };
    let fabric = &mut read.fabric;
    let bus = objects(&sysfs, &mut fabric.problems);
    for name in &bus.order {
        let Some(real) = bus.objects.get(name) else {
            continue;
        };
        match sysfs.text(real, "devtype").as_deref() {
            Ok("cxl_decoder_root") => fabric.windows.push(window(&mut sysfs, name, real)),
            Ok("cxl_region") => fabric.regions.push(region(&mut sysfs, &bus, name, real)),
            Ok("cxl_decoder_endpoint") => read.decoders.extend(decoder(&mut sysfs, real)),
            // Memory devices have no devtype in sysfs.
            _ if is_numbered(name, "mem") => {
                fabric.devices.push(memory(&mut sysfs, &bus, name, real));
            }
            _ => {}
        }
    }
    dax::add(&mut sysfs, &bus.objects, fabric);
    for device in &mut fabric.devices {
        let has = |region: &&Region| {
            region
                .targets
                .iter()
                .any(|t| t.device.as_ref() == Ok(&device.name))
        };
        device.regions = fabric
            .regions
            .iter()
            .filter(has)
            .map(|r| r.name.clone())
            .collect();
    }
    counters(&sysfs, &bus, fabric);
    Ok(read)
}

/// One that is not set has size 0.
fn decoder(sysfs: &mut CxlSysfs, real: &Path) -> Option<Decoder> {
    let size_bytes = sysfs.number(real, "size").ok().filter(|size| *size > 0)?;
    let start = sysfs.number(real, "start").ok()?;
    let endpoint = real.parent().unwrap_or(real);
    let device = base(&sysfs.real(&endpoint.join("uport")).ok()?).ok()?;
    Some(Decoder {
        device,
        start,
        size_bytes,
    })
}

pub(super) fn is_numbered(name: &str, stem: &str) -> bool {
    let digits = name.strip_prefix(stem).unwrap_or("");
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn objects(sysfs: &CxlSysfs, problems: &mut Vec<Missing>) -> Bus {
    let dir = sysfs.path("bus/cxl/devices");
    let order = sysfs.names(&dir).unwrap_or_else(|why| {
        problems.push(match why {
            Missing::NotSupported(why) => Missing::NotSupported(format!(
                "{why}: the kernel has no CXL bus, or no driver of it is loaded (cxl_acpi, cxl_pci)"
            )),
            other => other,
        });
        Vec::new()
    });
    let mut objects = BTreeMap::new();
    for name in &order {
        match sysfs.real(&dir.join(name)) {
            Ok(real) => drop(objects.insert(name.clone(), real)),
            Err(why) => problems.push(why),
        }
    }
    Bus { objects, order }
}

fn window(sysfs: &mut CxlSysfs, name: &str, real: &Path) -> Window {
    Window {
        name: name.to_owned(),
        start: sysfs.number(real, "start"),
        size_bytes: sysfs.number(real, "size"),
        bridges: bridges(sysfs, real),
    }
}

/// The targets of a window are numbers of downstream ports, which are links in the port above it.
fn bridges(sysfs: &mut CxlSysfs, real: &Path) -> Known<Vec<String>> {
    let list = sysfs.text(real, "target_list")?;
    let port = real.parent().unwrap_or(real);
    let bridge = |number: &str| {
        let link = port.join(format!("dport{}", number.trim()));
        // A number, for it becomes a part of a path.
        if super::sysfs::number(number.trim()).is_none() {
            return Err(lost(
                &real.join("target_list"),
                format!("{list:?} is no list"),
            ));
        }
        base(&sysfs.real(&link)?)
    };
    list.split(',').map(bridge).collect()
}

pub(super) fn base(path: &Path) -> Known<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned)
        .ok_or_else(|| lost(path, "it has no name"))
}

fn region(sysfs: &mut CxlSysfs, bus: &Bus, name: &str, real: &Path) -> Region {
    let ways = sysfs.number(real, "interleave_ways");
    let count = ways
        .as_ref()
        .map_or(0, |ways| (*ways).min(TARGET_COUNT_MAX));
    let targets = (0..count)
        .map(|place| target(sysfs, bus, real, place))
        .collect();
    Region {
        name: name.to_owned(),
        window: real
            .parent()
            .map_or_else(|| Err(lost(real, "it lies nowhere")), base),
        is_committed: sysfs.number(real, "commit").map(|commit| commit != 0),
        start: address(sysfs, real),
        size_bytes: sysfs.number(real, "size"),
        mode: sysfs.text(real, "mode"),
        granularity_bytes: sysfs.number(real, "interleave_granularity"),
        targets,
        dax: Vec::new(),
    }
}

/// A region without memory has all ones there (kernel, `resource_show` of a region).
fn address(sysfs: &mut CxlSysfs, real: &Path) -> Known<u64> {
    match sysfs.number(real, "resource")? {
        u64::MAX => Err(Missing::NotSupported(format!(
            "{}: none yet",
            real.join("resource").display()
        ))),
        start => Ok(start),
    }
}

fn target(sysfs: &mut CxlSysfs, bus: &Bus, real: &Path, place: u64) -> DecoderTarget {
    let file = format!("target{place}");
    let decoder = sysfs.text(real, &file).and_then(|decoder| {
        if decoder.is_empty() {
            Err(Missing::NotSupported(format!(
                "{}: none yet",
                real.join(&file).display()
            )))
        } else {
            Ok(decoder)
        }
    });
    let device = decoder.clone().and_then(|decoder| {
        let Some(place) = bus.objects.get(&decoder) else {
            return Err(lost(
                &real.join(&file),
                format!("{decoder:?} is not on the bus"),
            ));
        };
        let endpoint = place.parent().unwrap_or(place);
        base(&sysfs.real(&endpoint.join("uport"))?)
    });
    DecoderTarget { decoder, device }
}

fn memory(sysfs: &mut CxlSysfs, bus: &Bus, name: &str, real: &Path) -> CxlMemory {
    // …/pci0000:0c/0000:0c:00.0/0000:0d:00.0/mem0: bridge, root port, (switches,) device.
    let names: Vec<&str> = real.iter().filter_map(|part| part.to_str()).collect();
    let at = names
        .iter()
        .position(|part| part.starts_with("pci") && part.contains(':'));
    let way = at.map_or(&[][..], |at| &names[at..names.len() - 1]);
    let unknown = |what: &str| {
        let why = format!("{}: {what}", real.display());
        Missing::NotSupported(why)
    };
    let part = |place: usize, what: &str| {
        way.get(place)
            .map(|part| (*part).to_owned())
            .ok_or_else(|| unknown(what))
    };
    let root_port = match way.len() {
        0..3 => Err(unknown("it hangs below no root port")),
        _ => part(1, ""),
    };
    let endpoint = bus
        .order
        .iter()
        .filter(|n| is_numbered(n, "endpoint"))
        .find(|endpoint| {
            let place = bus.objects.get(*endpoint);
            place.is_some_and(|place| sysfs.real(&place.join("uport")).as_deref() == Ok(real))
        });
    CxlMemory {
        name: name.to_owned(),
        serial: sysfs.number(real, "serial"),
        ram_bytes: sysfs.number(real, "ram/size"),
        pmem_bytes: sysfs.number(real, "pmem/size"),
        cpu_node: sysfs.node(real, "numa_node"),
        pci: part(way.len().saturating_sub(1).max(1), "it is no PCI function"),
        root_port,
        bridge: part(0, "it hangs below no PCI host bridge"),
        endpoint: endpoint.cloned().ok_or_else(|| {
            Missing::NotSupported(format!(
                "no endpoint has {name}: the kernel did not take it into the tree of ports (cxl_mem, cxl_port)"
            ))
        }),
        regions: Vec::new(),
        is_in_use: Err(Missing::NotYetRead),
        pmus: Vec::new(),
        counters: Vec::new(),
    }
}

/// PMUs by their names, which have the device's number in them; access counters by the PCI function that
/// they hang below.
fn counters(sysfs: &CxlSysfs, bus: &Bus, fabric: &mut Fabric) {
    let pmus = sysfs
        .names(&sysfs.path("bus/event_source/devices"))
        .unwrap_or_default();
    let class = sysfs.path("class/weir_cxl");
    let drivers = sysfs.names(&class).unwrap_or_default();
    for device in &mut fabric.devices {
        let stem = format!("cxl_pmu_{}.", device.name);
        device.pmus = pmus
            .iter()
            .filter(|pmu| pmu.starts_with(&stem))
            .cloned()
            .collect();
        let function = bus.objects.get(&device.name).and_then(|real| real.parent());
        let same = |name: &&String| {
            let at = sysfs.real(&class.join(name).join("device"));
            at.is_ok_and(|at| Some(at.as_path()) == function)
        };
        device.counters = drivers.iter().filter(same).cloned().collect();
    }
}
