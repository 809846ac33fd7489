// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir groups bind`: a memory policy for what is started, `cpuset.mems` for what runs.

use super::cli::BindArgs;
use crate::cli::exit::{Exit, print};
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::process::Command;
use weir_figures::text;
use weir_linux::cxl::Fabric;
use weir_linux::{Nodes, Roots, bind_cgroup_of, bind_self};

/// Binds. With a command it returns only if that cannot be started.
///
/// # Errors
/// There is no such group, or the kernel refuses.
pub fn bind(args: &BindArgs, roots: &Roots) -> Result<Exit> {
    let node = args.group.0;
    is_a_group(args, roots)?;
    if let Some(pid) = args.pid {
        let bound = bind_cgroup_of(roots, pid, node, args.whole_cgroup)?;
        let cgroup = text::harmless(&bound.cgroup);
        let file = roots
            .cgroup
            .join(bound.cgroup.trim_start_matches('/'))
            .join("cpuset.mems");
        return print(&format!(
            "{cgroup} ({} processes) now has its memory on node {node}; what it had is moved there\n\
             to undo: echo '{}' > {}\n",
            bound.processes,
            text::harmless(&bound.before),
            text::harmless(&file.to_string_lossy())
        ))
        .map(|()| Exit::Done);
    }
    let (program, arguments) = args.command.split_first().context("no command is given")?;
    bind_self(node)?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.to_string_lossy()))
}

fn is_a_group(args: &BindArgs, roots: &Roots) -> Result<()> {
    let id = args.group.0;
    let named = args.devices.nodes(roots)?;
    let nodes = Nodes::read(roots)?;
    let fabric = Fabric::read_with(roots, &named);
    let verdict = fabric.nodes.iter().find(|node| node.id == id);
    match nodes.get(id) {
        Some(node) if node.has_cpus && !named.contains(&id) => {
            bail!("node {id} has CPUs: it is ordinary memory, no group; see `weir groups list`")
        }
        Some(node) if node.total_bytes > 0 => match verdict.map(|node| &node.verdict) {
            Some(verdict) if !verdict.is_cxl => bail!(
                "node {id} is no group: {}; if that is wrong: --device node:{id}",
                text::harmless(&verdict.words())
            ),
            _ => Ok(()),
        },
        Some(_) => bail!("node {id} has no memory now; see `weir groups list`"),
        None => bail!("there is no node {id}; see `weir groups list`"),
    }
}
