//! Decides which rows are shown, in which order, and which one is selected. The selection follows the session;
//! rows stay in their places while keys are pressed.

use std::collections::BTreeMap;

use coord_view::list::{Bound, List, Number, Row};

/// A row, and the head above its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The name of the group or the directory.
    pub(crate) head: String,
    /// The row.
    pub(crate) row: Row,
}

/// How rows are grouped, and ordered within their group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Grouping {
    /// By who needs whom.
    #[default]
    Groups,
    /// By directory.
    Directories,
    /// Not at all; ordered by a number.
    Number(Number),
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
    /// How the rows are grouped.
    grouping: Grouping,
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
        let with_directory = list.rows.iter().map(|row| (row.clone(), directory_of(row)));
        let mut shown: Vec<(Row, String)> =
            with_directory.filter(|(row, directory)| self.passes(row, directory)).collect();
        match self.grouping {
            Grouping::Groups => {
                let placed = |(row, _): (Row, _)| Placed { head: row.group.head().to_owned(), row };
                shown.into_iter().map(placed).collect()
            }
            Grouping::Directories => {
                let mut directories: Vec<String> = Vec::new();
                for (_, directory) in &shown {
                    if !directories.contains(directory) {
                        directories.push(directory.clone());
                    }
                }
                shown.sort_by_key(|(_, of)| directories.iter().position(|one| one == of));
                shown.into_iter().map(|(row, head)| Placed { head, row }).collect()
            }
            Grouping::Number(number) => {
                let mut rows: Vec<Row> = shown.into_iter().map(|(row, _)| row).collect();
                number.order(&mut rows);
                let head = |row: &Row| match number.of(row) {
                    Some(_) => format!("BY {}", number.name().to_uppercase()),
                    None => format!("{} NOT KNOWN", number.name().to_uppercase()),
                };
                rows.into_iter().map(|row| Placed { head: head(&row), row }).collect()
            }
        }
    }

    fn passes(&self, row: &Row, directory: &str) -> bool {
        if let Some(bound) = Bound::read(&self.filter) {
            return bound.holds(row);
        }
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

    /// Shows only rows whose name, state or directory has this text in it, in upper or lower case, or whose number is
    /// beyond the bound that it is.
    pub(crate) fn set_filter(&mut self, text: &str) {
        self.filter = text.to_lowercase();
    }

    /// Groups by directory, or by group again.
    pub(crate) fn toggle_directories(&mut self) {
        self.grouping = match self.grouping {
            Grouping::Directories => Grouping::Groups,
            Grouping::Groups | Grouping::Number(_) => Grouping::Directories,
        };
    }

    /// Orders by the next number, or by group again.
    pub(crate) fn next_number(&mut self) {
        self.grouping = match self.grouping {
            Grouping::Groups | Grouping::Directories => Grouping::Number(Number::Context),
            Grouping::Number(Number::Context) => Grouping::Number(Number::Cost),
            Grouping::Number(Number::Cost) => Grouping::Groups,
        };
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
