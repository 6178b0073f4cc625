//! The table of states in docs/sessions.md has every state.

use coord_view::list::state_name;

use super::read;
use crate::verb::help::ALL;

#[test]
fn every_state_is_in_the_table_of_states() {
    let page = read("docs/sessions.md");
    let table = page.split("\n## States\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let table = table.expect("a section of states");
    let cells: String = table.lines().filter_map(|line| line.split('|').nth(1)).collect();
    for state in ALL {
        let name = format!("`{}`", state_name(state));
        assert!(cells.contains(&name), "docs/sessions.md: {name} is not in the table of states");
    }
}
