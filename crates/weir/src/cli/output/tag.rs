// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Short names of pods, containers and machines, to be put before the paths of their cgroups.

use weir_core::owner::PodNames;
use weir_figures::text;
use weir_figures::text::width;

/// The pod, container or machine of a cgroup, to be put before its name, and how wide that is. Nothing where
/// what stands above has said it.
pub fn tag(path: &str, above: &str, names: &PodNames) -> (String, usize) {
    let short = names
        .short(path)
        .filter(|short| names.short(above).as_ref() != Some(short));
    let tag = short.map_or_else(String::new, |short| text::harmless(&short) + " ");
    let cells = width(&tag);
    (tag, cells)
}
