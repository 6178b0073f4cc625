//! Where tmux clients were before they were moved: the last panes of each client, for `coord back`.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use coord_host::tmux::answer::pane_id;
use coord_store::{Disk as _, RealDisk};
use serde::{Deserialize, Serialize};

use crate::context::Context;

/// So many moves of a client are remembered.
const MOVES_MAX: usize = 20;
/// So many moves of all clients are.
const ALL_MAX: usize = 400;

/// One move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Move {
    /// The client.
    client: String,
    /// The pane that it showed before.
    pane: String,
}

fn file(context: &Context) -> PathBuf {
    context.paths.run.join("moves.json")
}

fn read(context: &Context) -> Vec<Move> {
    let bytes = fs::read(file(context)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write(context: &Context, moves: &[Move]) -> anyhow::Result<()> {
    let file = file(context);
    let words = || file.display().to_string();
    // Nobody else may look into it, as where the coordinator makes it.
    RealDisk.create_dir(&context.paths.run).with_context(words)?;
    let mut new = tempfile::NamedTempFile::new_in(&context.paths.run).with_context(words)?;
    new.write_all(&serde_json::to_vec(moves)?).with_context(words)?;
    new.persist(&file).with_context(words)?;
    Ok(())
}

/// Remembers the pane that a client showed.
pub(super) fn remember(context: &Context, client: &str, pane: &str) -> anyhow::Result<()> {
    let mut moves = read(context);
    moves.push(Move { client: client.to_owned(), pane: pane.to_owned() });
    let of_client = moves.iter().filter(|one| one.client == client).count();
    if MOVES_MAX < of_client
        && let Some(oldest) = moves.iter().position(|one| one.client == client)
    {
        moves.remove(oldest);
    }
    let surplus = moves.len().saturating_sub(ALL_MAX);
    moves.drain(..surplus);
    write(context, &moves)
}

/// The pane that a client showed before its last move, which is forgotten.
pub(super) fn take_last(context: &Context, client: &str) -> Option<String> {
    let mut moves = read(context);
    let last = moves.iter().rposition(|one| one.client == client)?;
    let Move { pane, .. } = moves.remove(last);
    write(context, &moves).ok()?;
    // The file is the user's, and so are agents.
    pane_id(&pane).map(|id| format!("%{id}"))
}
