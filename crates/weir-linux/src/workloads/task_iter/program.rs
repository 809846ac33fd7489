// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The iterator in the kernel (`bpf/probes/task_iter.bpf.c`): loaded, read, and gone with this process.

use super::TaskRows;
use super::process_table::{ProcessTable, Sweep};
use crate::kernel::bpf;
use crate::kernel::skeletons::task_iter::{TaskIterSkel, TaskIterSkelBuilder};
use crate::workloads::cgroups::walk::Delegated;
use libbpf_rs::{Iter, Link};
use std::io::Read;
use weir_core::Missing;

const WHAT: &str = "the task iterator";
/// Bytes read at once: as many as the kernel has ready at once (`bpf_seq_read`, eight pages).
const CHUNK: usize = 32 * 1024;

/// The iterator; it costs nothing while it is not read.
pub(super) struct TaskIterProgram {
    // The order matters: the link first.
    link: Link,
    skel: TaskIterSkel<'static>,
    chunk: Box<[u8]>,
}

impl TaskIterProgram {
    /// Loads it.
    ///
    /// # Errors
    /// The kernel refuses the program.
    pub(super) fn load() -> Result<TaskIterProgram, Missing> {
        let skel = bpf::load::<TaskIterSkelBuilder>(WHAT)?;
        let link = skel.progs.weir_task_iter.attach();
        Ok(TaskIterProgram {
            link: link.map_err(|e| bpf::refused(WHAT, &e))?,
            skel,
            chunk: vec![0; CHUNK].into_boxed_slice(),
        })
    }
}

impl TaskRows for TaskIterProgram {
    fn follow(&mut self, delegated: &Delegated) {
        let maps = &mut self.skel.maps;
        if let Some(bss) = &mut maps.bss_data {
            bpf::follow_delegated!(maps.delegated_cgroups, bss, delegated);
        }
    }

    fn sweep(&mut self, between: &mut dyn FnMut()) -> Result<ProcessTable, Missing> {
        let unread = |what: String| Missing::Lost(format!("{WHAT}: {what}"));
        let mut rows = Iter::new(&self.link).map_err(|e| unread(e.to_string()))?;
        let mut sweep = Sweep::default();
        loop {
            match rows.read(&mut self.chunk) {
                Ok(0) => break,
                Ok(count) => {
                    let bytes = self.chunk.get(..count).unwrap_or_default();
                    sweep.take(bytes).map_err(|e| unread(e.to_string()))?;
                    // A further read would go on with tasks that came since.
                    if sweep.is_ended() {
                        break;
                    }
                    between();
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(unread(e.to_string())),
            }
        }
        sweep.done().map_err(|e| unread(e.to_string()))
    }
}
