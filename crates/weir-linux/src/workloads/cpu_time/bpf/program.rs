// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program in the kernel (`bpf/probes/cgroup_cpu.bpf.c`): loaded, run, and gone with this process.

use super::CpuTimeSource;
use super::page::{self, PAGE, ROWS, Row};
use crate::kernel::bpf;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput};
use weir_core::Missing;

/// The compiled program.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cgroup_cpu.bpf.o"));
const PROGRAM: &str = "weir_cgroup_cpu";
const MAP: &str = "cgroup_cpu_page";
const WHAT: &str = "the program that adds up CPU time";
/// The map's only element.
const KEY: [u8; 4] = [0; 4];

/// The program; it costs nothing while it is not run.
pub(super) struct CpuTimeProgram {
    object: Object,
    map: MapHandle,
    page: Box<[u8]>,
}

impl CpuTimeProgram {
    /// Loads it.
    ///
    /// # Errors
    /// The kernel refuses it: before Linux 6.10 such a program may not look up cgroups.
    pub(super) fn load() -> Result<CpuTimeProgram, Missing> {
        let object = bpf::load_object(OBJECT, WHAT)?;
        let found = object.maps().find(|map| map.name() == MAP);
        let found = found.ok_or_else(|| Missing::Lost(format!("no map {MAP}")))?;
        let map = MapHandle::try_from(&found).map_err(|e| unread(&e))?;
        Ok(CpuTimeProgram {
            object,
            map,
            page: vec![0; PAGE].into_boxed_slice(),
        })
    }
}

impl CpuTimeSource for CpuTimeProgram {
    fn read(&mut self, ids: &[u64]) -> Result<Vec<Option<Row>>, Missing> {
        let mut rows = Vec::with_capacity(ids.len());
        let found = self.object.progs_mut().find(|p| p.name() == PROGRAM);
        let program = found.ok_or_else(|| Missing::Lost(format!("no program {PROGRAM}")))?;
        for ids in ids.chunks(ROWS) {
            page::ask(&mut self.page, ids);
            self.map
                .update(&KEY, &self.page, MapFlags::ANY)
                .map_err(|e| unread(&e))?;
            let done = program.test_run(ProgramInput::default());
            let status = done.map_err(|e| unread(&e))?.return_value;
            if status != 0 {
                return Err(Missing::Lost(format!("{WHAT} ended with {status}")));
            }
            let answered = self.map.lookup(&KEY, MapFlags::ANY);
            let answered = answered.map_err(|e| unread(&e))?.unwrap_or_default();
            let answers = ids.iter().enumerate();
            rows.extend(answers.map(|(row, id)| page::answer(&answered, row, *id)));
        }
        Ok(rows)
    }
}

fn unread(error: &libbpf_rs::Error) -> Missing {
    Missing::Lost(format!("{WHAT}: {error}"))
}
