//! Decides which rows are shown, in which order, and which one is selected. The selection follows the session;
//! rows stay in their places while keys are pressed.

use std::collections::BTreeMap;

use coord_view::list::{List, Row};

/// A row, and the head above its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The name of the group or the directory.
    pub(crate) head: String,
    /// The row.
    pub(crate) row: Row,
}

/// The rows that are shown.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    placed: Vec<Placed>,
    /// The id of the selected row.
    selected: Option<String>,
    /// The place of the selected row, for when it is gone.
    at: usize,
    /// Lower case; empty for all rows.
    filter: String,
    /// Whether the rows are grouped by directory.
    by_directory: bool,
    /// The first row that is drawn.
    top: usize,
}

impl Rows {
    /// Takes new rows. `directory_of` is the directory of a row's session. With `keeps_places`, rows that were shown
    /// stay where they are. Returns whether a row is not where it belongs.
    pub(crate) fn take(
        &mut self,
        list: &List,
        directory_of: impl Fn(&Row) -> String,
        keeps_places: bool,
    ) -> bool {
        let wanted = self.arranged(list, directory_of);
        if !keeps_places {
            self.place(wanted);
            return false;
        }
        let before: BTreeMap<String, (usize, String)> = self
            .placed
            .iter()
            .enumerate()
            .map(|(at, one)| (one.row.id.clone(), (at, one.head.clone())))
            .collect();
        let mut kept = wanted.clone();
        for one in &mut kept {
            if let Some((_, head)) = before.get(&one.row.id) {
                one.head.clone_from(head);
            }
        }
        kept.sort_by_key(|one| before.get(&one.row.id).map_or(usize::MAX, |(at, _)| *at));
        let is_moved = kept != wanted;
        self.place(kept);
        is_moved
    }

    fn place(&mut self, placed: Vec<Placed>) {
        self.placed = placed;
        let at = self.selected.as_ref().and_then(|id| self.at_of(id));
        self.select(at.unwrap_or(self.at));
    }

    fn at_of(&self, id: &str) -> Option<usize> {
        self.placed.iter().position(|one| one.row.id == *id)
    }

    /// The rows that pass the filter, in order, each below its head.
    fn arranged(&self, list: &List, directory_of: impl Fn(&Row) -> String) -> Vec<Placed> {
        let mut rows: Vec<Placed> = Vec::new();
        let mut directories: Vec<String> = Vec::new();
        for row in &list.rows {
            let directory = directory_of(row);
            if !self.passes(row, &directory) {
                continue;
            }
            let head = if self.by_directory {
                if !directories.contains(&directory) {
                    directories.push(directory.clone());
                }
                directory
            } else {
                row.group.head().to_owned()
            };
            rows.push(Placed { head, row: row.clone() });
        }
        if self.by_directory {
            rows.sort_by_key(|one| directories.iter().position(|head| *head == one.head));
        }
        rows
    }

    fn passes(&self, row: &Row, directory: &str) -> bool {
        let is_in = |text: &str| text.to_lowercase().contains(&self.filter);
        self.filter.is_empty() || is_in(&row.name) || is_in(&row.state) || is_in(directory)
    }

    /// All rows that are shown, in order.
    pub(crate) fn all(&self) -> &[Placed] {
        &self.placed
    }

    /// The selected row.
    pub(crate) fn selected(&self) -> Option<&Row> {
        self.placed.get(self.at).map(|one| &one.row)
    }

    /// The place of the selected row.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Selects a row by its place; the last one for a place behind it.
    pub(crate) fn select(&mut self, at: usize) {
        self.at = at.min(self.placed.len().saturating_sub(1));
        self.selected = self.selected().map(|row| row.id.clone());
    }

    /// What rows are filtered by; empty for all.
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// Shows only rows whose name, state or directory has this text in it, in upper or lower case.
    pub(crate) fn set_filter(&mut self, text: &str) {
        self.filter = text.to_lowercase();
    }

    /// Groups by directory, or by group again.
    pub(crate) fn toggle_directories(&mut self) {
        self.by_directory = !self.by_directory;
    }

    /// The first row to draw, where `fits` says from which row on the selected one is still on the screen.
    pub(crate) fn scroll(&mut self, fits: impl Fn(usize) -> bool) -> usize {
        self.top = self.top.min(self.at);
        while self.top < self.at && !fits(self.top) {
            self.top += 1;
        }
        self.top
    }
}
