// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program in the kernel (`bpf/probes/cgroup_cpu.bpf.c`): loaded, run, and gone with this process.

use super::CpuTimeSource;
use super::page::{self, ROWS, Row};
use crate::kernel::bpf::{self, BpfValue};
use crate::kernel::skeletons::cgroup_cpu::types::cgroup_cpu_page;
use crate::kernel::skeletons::cgroup_cpu::{CgroupCpuSkel, CgroupCpuSkelBuilder};
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use weir_core::Missing;

const WHAT: &str = "the program that adds up CPU time";
/// The map's only element.
const KEY: [u8; 4] = [0; 4];

/// The program; it costs nothing while it is not run.
pub(super) struct CpuTimeProgram {
    skel: CgroupCpuSkel<'static>,
    page: Box<cgroup_cpu_page>,
}

impl CpuTimeProgram {
    /// Loads it.
    ///
    /// # Errors
    /// The kernel refuses it: before Linux 6.10 such a program may not look up cgroups.
    pub(super) fn load() -> Result<CpuTimeProgram, Missing> {
        Ok(CpuTimeProgram {
            skel: bpf::load::<CgroupCpuSkelBuilder>(WHAT)?,
            page: Box::default(),
        })
    }
}

impl CpuTimeSource for CpuTimeProgram {
    fn read(&mut self, ids: &[u64]) -> Result<Vec<Option<Row>>, Missing> {
        let mut rows = Vec::with_capacity(ids.len());
        let map = &self.skel.maps.cgroup_cpu_page;
        for ids in ids.chunks(ROWS) {
            page::ask(&mut self.page, ids);
            map.update(&KEY, self.page.as_bytes(), MapFlags::ANY)
                .map_err(|e| unread(&e))?;
            let program = &self.skel.progs.weir_cgroup_cpu;
            let done = program.test_run(ProgramInput::default());
            let status = done.map_err(|e| unread(&e))?.return_value;
            if status != 0 {
                return Err(Missing::Lost(format!("{WHAT} ended with {status}")));
            }
            let answered = map.lookup(&KEY, MapFlags::ANY).map_err(|e| unread(&e))?;
            self.page.fill(&answered.unwrap_or_default());
            let answers = self.page.rows.iter().zip(ids);
            rows.extend(answers.map(|(row, id)| page::answer(row, *id)));
        }
        Ok(rows)
    }
}

fn unread(error: &libbpf_rs::Error) -> Missing {
    Missing::Lost(format!("{WHAT}: {error}"))
}
