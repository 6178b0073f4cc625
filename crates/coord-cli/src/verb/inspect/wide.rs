//! `coord inspect -o wide`: the list with more columns, nothing cut.

use std::io::Write;

use coord_view::list::{List, age};
use coord_wire::inspect::{Inspect, Session};

use super::tilde;
use crate::out::{Failure, escape, print_columns};

const HEADS: [&str; 10] =
    ["NAME", "NEEDS", "STATE", "AGE", "WHERE", "ID", "DIRECTORY", "MODE", "LAST EVENT", "WHAT"];

pub(super) fn print(
    out: &mut impl Write,
    list: &List,
    answer: &Inspect,
    has_heads: bool,
) -> Result<(), Failure> {
    let mut lines: Vec<[String; 10]> = Vec::new();
    if has_heads {
        lines.push(HEADS.map(ToOwned::to_owned));
    }
    for row in &list.rows {
        let session = answer.sessions.iter().find(|one| one.session_id == row.id);
        let of = |text: fn(&Session) -> String| session.map(text).unwrap_or_default();
        lines.push([
            row.name.clone(),
            if row.needs_you() { "yes" } else { "-" }.to_owned(),
            row.state.clone(),
            age(row.age_s),
            row.place.clone(),
            row.id.clone(),
            of(|one| tilde(&one.cwd)),
            of(|one| if one.unattended { "unattended" } else { "watched" }.to_owned()),
            of(|one| one.last_event.as_ref().map_or_else(String::new, |last| last.name.clone())),
            row.what.clone(),
        ]);
    }
    for line in &mut lines {
        for cell in line {
            *cell = if cell.is_empty() { "-".to_owned() } else { escape(cell) };
        }
    }
    print_columns(out, &lines)
}
