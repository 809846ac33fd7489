// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The view of the table: order, filter, tree, and the chosen row.

use super::{Branch, Model, Sort, TopRow};
use crate::cli::output::tag::tag;
use crate::run::screens::waits_in::WaitsIn;
use std::collections::BTreeMap;
use weir_core::WorkloadId;
use weir_core::owner::PodNames;
use weir_core::seam::plan::Decision;

impl Model {
    /// The pod, container or machine of a workload, to be put before its name.
    pub fn tag(&self, verdict: &Decision) -> String {
        let none = PodNames::default();
        let names = self.snapshot().map_or(&none, |newest| &newest.pod_names);
        tag(verdict.id.as_str(), "", names).0
    }

    /// Shows what a running profile says of workloads, or that none runs.
    pub fn set_waits(&mut self, waits: Option<BTreeMap<WorkloadId, WaitsIn>>) {
        if self.waits != waits {
            self.waits = waits;
            self.rows = self.make_rows();
        }
    }

    /// Whether a profile runs.
    pub fn is_profiled(&self) -> bool {
        self.waits.is_some()
    }

    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// Takes the next order in the circle.
    pub fn sort_next(&mut self) {
        self.sort = self.sort.next();
        self.rows = self.make_rows();
    }

    /// The workloads in the chosen order.
    pub fn rows(&self) -> &[TopRow] {
        &self.rows
    }

    /// The chosen row's place; the first one as long as none was chosen, or when it has gone.
    pub fn selected(&self) -> usize {
        let chosen = self.chosen.as_ref();
        chosen
            .and_then(|id| self.rows.iter().position(|row| row.verdict.id == *id))
            .unwrap_or(0)
    }

    /// Moves the choice by so many rows, up if negative.
    pub fn select(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        let place = self.selected().saturating_add_signed(by).min(last);
        self.chosen = self.rows.get(place).map(|row| row.verdict.id.clone());
    }

    /// Only workloads with this in their names are shown.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Shows only workloads with this in their names.
    pub fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.rows = self.make_rows();
    }

    /// A tree if it was a list, and the other way round.
    pub fn toggle_list(&mut self) {
        self.list = !self.list;
        self.rows = self.make_rows();
    }

    fn chosen_branch(&self) -> Option<(&TopRow, Branch)> {
        let row = self.rows.get(self.selected())?;
        Some((row, row.branch?))
    }

    /// Shows the processes of the chosen workload, or not; nothing if it is none. Whether that changed
    /// something.
    fn open(&mut self, is_open: bool) -> bool {
        let row = self.rows.get(self.selected());
        let is_leaf =
            |row: &&TopRow| row.branch.is_none() && row.inside.is_none() && !row.is_page_migration;
        let leaf = row.filter(is_leaf);
        let Some(id) = leaf.map(|row| row.verdict.id.clone()) else {
            return false;
        };
        let changed = if is_open {
            self.open.insert(id)
        } else {
            self.open.remove(&id)
        };
        if changed {
            self.rows = self.make_rows();
        }
        changed
    }

    /// Folds the chosen cgroup or workload; goes up from where there is nothing to fold.
    pub fn fold(&mut self) {
        if let Some((row, branch)) = self.chosen_branch()
            && branch.is_open
        {
            self.folded.insert(row.verdict.id.clone());
            self.rows = self.make_rows();
            return;
        }
        if self.open(false) {
            return;
        }
        let place = self.selected();
        let Some(depth) = self.rows.get(place).map(|row| row.depth) else {
            return;
        };
        let above = self.rows.iter().take(place);
        if let Some(parent) = above.rev().find(|row| row.depth < depth) {
            self.chosen = Some(parent.verdict.id.clone());
        }
    }

    /// Shows what is below the chosen cgroup, or the processes of the chosen workload.
    pub fn unfold(&mut self) {
        if let Some((row, _)) = self.chosen_branch() {
            let id = row.verdict.id.clone();
            self.folded.remove(&id);
            self.rows = self.make_rows();
        } else {
            self.open(true);
        }
    }

    /// The one or the other.
    pub fn fold_or_unfold(&mut self) {
        let branch = self.chosen_branch().map(|(_, branch)| branch.is_open);
        match branch {
            Some(true) => self.fold(),
            None if self.open(false) => {}
            Some(false) | None => self.unfold(),
        }
    }

    /// Shows only what is at the top.
    pub fn fold_all(&mut self) {
        self.open.clear();
        self.unfold_all();
        let inner = self.rows.iter().filter(|row| row.branch.is_some());
        self.folded = inner.map(|row| row.verdict.id.clone()).collect();
        self.rows = self.make_rows();
    }

    pub fn unfold_all(&mut self) {
        self.folded.clear();
        self.rows = self.make_rows();
    }
}
