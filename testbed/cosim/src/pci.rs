// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device as PCI sees it, over vfio-user: a configuration space and one BAR, the registers. No
//! interrupts, no DMA.
//!
//! It answers to the PCI ID of Intel's CXL IP, as the FPGA does, and has its registers where the FPGA has
//! them, so the driver is bound in the same way: by `driver_override`.

use crate::device::{PendingRequest, Request};
use crate::library::Width;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::sync::mpsc::{Sender, channel};
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion};
use weir_hw::access_counters::regmap;

const VENDOR: u16 = 0x8086;
const DEVICE: u16 = 0x0ddb;
/// "Base system peripheral, other" (PCI Code and ID Assignment 1.11, 1.9).
const CLASS: [u8; 3] = [0x00, 0x80, 0x08];
const CONFIG_BYTES: usize = 256;
const BAR: u32 = regmap::FPGA_BAR as u32;
const BAR_BYTES: u64 = regmap::FPGA_BAR_BYTES;
/// A memory BAR of 64 bits (PCI 3.0, 6.2.5.1).
const BAR_FLAGS: u32 = 0x4;
const COMMAND_AT: usize = 0x04;
const BAR_AT: usize = 0x10 + 4 * BAR as usize;
const SUBSYSTEM_AT: usize = 0x2c;
const INTERRUPT_LINE_AT: usize = 0x3c;
/// Memory space, bus master, interrupt disable.
const COMMAND_WRITABLE: u16 = 0x0406;

/// The regions as vfio numbers them; those that are not there have no bytes.
pub fn regions() -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES as u64,
                BAR => BAR_BYTES,
                _ => 0,
            };
            let flags = match size {
                0 => 0,
                _ => VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
            };
            let region_info = vfio_region_info {
                argsz: size_of::<vfio_region_info>() as u32,
                flags,
                index,
                cap_offset: 0,
                size,
                offset: 0,
            };
            ServerRegion {
                region_info,
                sparse_areas: Vec::new(),
                mmap_fd: None,
            }
        })
        .collect()
}

/// No interrupt of any kind.
pub fn irqs() -> Vec<IrqInfo> {
    let none = |index| IrqInfo {
        index,
        flags: 0,
        count: 0,
    };
    (0..VFIO_PCI_NUM_IRQS).map(none).collect()
}

/// Configuration space, and which of its bits can be written.
struct Config {
    bytes: [u8; CONFIG_BYTES],
    writable: [u8; CONFIG_BYTES],
}

impl Config {
    fn new() -> Self {
        let mut config = Config {
            bytes: [0; CONFIG_BYTES],
            writable: [0; CONFIG_BYTES],
        };
        config.put(0x00, &VENDOR.to_le_bytes());
        config.put(0x02, &DEVICE.to_le_bytes());
        config.put(0x09, &CLASS);
        config.put(BAR_AT, &BAR_FLAGS.to_le_bytes());
        config.put(SUBSYSTEM_AT, &VENDOR.to_le_bytes());
        config.put(SUBSYSTEM_AT + 2, &DEVICE.to_le_bytes());
        config.allow(COMMAND_AT, &COMMAND_WRITABLE.to_le_bytes());
        config.allow(BAR_AT, &(!(BAR_BYTES - 1)).to_le_bytes());
        config.allow(INTERRUPT_LINE_AT, &[0xff]);
        config
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: usize, bits: &[u8]) {
        self.writable[at..at + bits.len()].copy_from_slice(bits);
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), Error> {
        let at = within(offset, data.len(), CONFIG_BYTES as u64)? as usize;
        data.copy_from_slice(&self.bytes[at..at + data.len()]);
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let at = within(offset, data.len(), CONFIG_BYTES as u64)? as usize;
        for (i, new) in data.iter().enumerate() {
            let mask = self.writable[at + i];
            let byte = &mut self.bytes[at + i];
            *byte = *byte & !mask | new & mask;
        }
        Ok(())
    }
}

/// The offset, if all bytes from there are in a region of `size`.
fn within(offset: u64, bytes: usize, size: u64) -> Result<u64, Error> {
    let end = offset.checked_add(bytes as u64);
    match end.filter(|end| *end <= size) {
        Some(_) => Ok(offset),
        None => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{bytes} bytes at {offset:#x} of a region of {size:#x}"),
        )),
    }
}

/// Callbacks of vfio-user's server. Register accesses go through a channel.
pub struct Function {
    config: Config,
    device: Sender<PendingRequest>,
}

impl Function {
    pub fn new(device: Sender<PendingRequest>) -> Self {
        Function {
            config: Config::new(),
            device,
        }
    }

    fn request(&self, address: u64, width: Width, store: Option<u64>) -> Result<u64, Error> {
        let gone = || Error::new(ErrorKind::BrokenPipe, "there is no device any more");
        let (to, from) = channel();
        let request = Request {
            address: u32::try_from(address).unwrap_or(u32::MAX),
            width,
            store,
        };
        self.device.send((request, to)).map_err(|_| gone())?;
        from.recv().map_err(|_| gone())
    }
}

/// The transactions of the bus that a read of a region is made of: 64 bits where it can be, else 32; of a
/// smaller piece, the 32 bits around it. `(address, width, bytes to skip, bytes to take)`
fn pieces(offset: u64, bytes: usize) -> Vec<(u64, Width, usize, usize)> {
    let mut found = Vec::new();
    let (mut at, end) = (offset, offset + bytes as u64);
    while at < end {
        let left = (end - at) as usize;
        let piece = if at.is_multiple_of(8) && left >= 8 {
            (at, Width::Wide, 0, 8)
        } else {
            let skip = (at % 4) as usize;
            (at - skip as u64, Width::Narrow, skip, left.min(4 - skip))
        };
        at += piece.3 as u64;
        found.push(piece);
    }
    found
}

impl ServerBackend for Function {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Error> {
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            return self.config.read(offset, data);
        }
        within(offset, data.len(), bytes_of(region))?;
        let mut rest = data;
        for (address, width, skip, take) in pieces(offset, rest.len()) {
            let word = self.request(address, width, None)?.to_le_bytes();
            let (now, later) = rest.split_at_mut(take);
            now.copy_from_slice(&word[skip..skip + take]);
            rest = later;
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Error> {
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            return self.config.write(offset, data);
        }
        within(offset, data.len(), bytes_of(region))?;
        let mut rest = data;
        for (address, width, _, take) in pieces(offset, rest.len()) {
            let (now, later) = rest.split_at(take);
            rest = later;
            let mut word = [0; 8];
            word[..take].copy_from_slice(now);
            // The bus knows no smaller stores.
            if take >= 4 {
                self.request(address, width, Some(u64::from_le_bytes(word)))?;
            } else {
                tracing::warn!("a store of {take} bytes at BAR offset {address:#x} is ignored");
            }
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        _: u64,
        _: u64,
        _: u64,
        _: Option<File>,
    ) -> Result<(), Error> {
        Ok(())
    }

    fn dma_unmap(&mut self, _: DmaUnmapFlags, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, "no reset was offered"))
    }

    fn set_irqs(&mut self, _: u32, _: u32, _: u32, _: u32, _: Vec<File>) -> Result<(), Error> {
        Ok(())
    }
}

fn bytes_of(region: u32) -> u64 {
    if region == BAR { BAR_BYTES } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::JoinHandle;

    type Stores = Vec<(u32, Width, u64)>;

    /// A device with its own offset in every 32-bit word, and the values stored into it.
    fn function() -> (Function, JoinHandle<Stores>) {
        let (device, requests) = channel::<PendingRequest>();
        let stored = std::thread::spawn(move || {
            let mut stored = Vec::new();
            for (
                Request {
                    address,
                    width,
                    store,
                },
                to,
            ) in requests
            {
                let (low, high) = (u64::from(address), u64::from(address) + 4);
                let word = match width {
                    Width::Wide => low | high << 32,
                    Width::Narrow => low,
                };
                stored.extend(store.map(|value| (address, width, value)));
                let _ = to.send(store.map_or(word, |_| 0));
            }
            stored
        });
        (Function::new(device), stored)
    }

    fn read<const N: usize>(function: &mut Function, region: u32, offset: u64) -> Option<[u8; N]> {
        let mut data = [0xee; N];
        let result = function.region_read(region, offset, &mut data);
        result.ok().map(|()| data)
    }

    #[test]
    fn loads_of_any_width_and_place_give_the_bytes_there() {
        let (mut function, stored) = function();
        assert_eq!(
            read(&mut function, 0, 0x18000),
            Some(0x1_8004_0001_8000u64.to_le_bytes())
        );
        assert_eq!(
            read(&mut function, 0, 0x18004),
            Some(0x18004u32.to_le_bytes())
        );
        assert_eq!(read(&mut function, 0, 0x18001), Some([0x80]));
        assert_eq!(read(&mut function, 0, 0x18002), Some([0x01, 0x00]));
        assert_eq!(
            read(&mut function, 0, 0x18002),
            Some([0x01, 0x00, 0x04, 0x80, 0x01, 0x00, 0x08, 0x80])
        );
        assert_eq!(
            read::<8>(&mut function, 0, BAR_BYTES - 4),
            None,
            "outside the BAR"
        );
        assert_eq!(read::<8>(&mut function, 0, u64::MAX - 3), None);
        assert_eq!(read::<4>(&mut function, 2, 0), None, "no such BAR");
        drop(function);
        assert_eq!(stored.join().expect("it ends"), []);
    }

    #[test]
    fn stores_reach_the_bus_in_its_widths_and_smaller_ones_do_not() {
        let (mut function, stored) = function();
        function
            .region_write(0, 0x18020, &[1; 8])
            .expect("in the BAR");
        function
            .region_write(0, 0x18038, &[2, 0, 0, 0])
            .expect("in the BAR");
        function.region_write(0, 0x18038, &[3]).expect("in the BAR");
        assert!(function.region_write(0, BAR_BYTES, &[3; 4]).is_err());
        drop(function);
        let stored = stored.join().expect("it ends");
        assert_eq!(
            stored,
            [
                (0x18020, Width::Wide, 0x0101_0101_0101_0101),
                (0x18038, Width::Narrow, 2)
            ]
        );
    }

    #[test]
    fn configuration_space_is_a_function_with_one_bar_of_64_bits() {
        let (mut function, _) = function();
        let config = VFIO_PCI_CONFIG_REGION_INDEX;
        assert_eq!(
            read(&mut function, config, 0),
            Some([0x86, 0x80, 0xdb, 0x0d])
        );
        // System software finds a BAR's length so (PCI 3.0, 6.2.5.1).
        function
            .region_write(config, 0x10, &[0xff; 8])
            .expect("there");
        assert_eq!(
            read(&mut function, config, 0x10),
            Some(0xffff_ffff_fff0_0004u64.to_le_bytes())
        );
        function.region_write(config, 0, &[0; 4]).expect("there");
        assert_eq!(
            read(&mut function, config, 0),
            Some([0x86, 0x80, 0xdb, 0x0d])
        );
        function.region_write(config, 4, &[0xff; 2]).expect("there");
        assert_eq!(read(&mut function, config, 4), Some([0x06, 0x04]));
        assert!(read::<4>(&mut function, config, 254).is_none());
    }

    #[test]
    fn without_a_device_reads_fail() {
        let (device, _) = channel();
        let mut function = Function::new(device);
        assert_eq!(read::<8>(&mut function, 0, 0x18000), None);
        assert!(function.region_write(0, 0x18038, &[1, 0, 0, 0]).is_err());
    }
}
