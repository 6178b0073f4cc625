//! Decides whether something changed between the look that a decision is based on and the look of the act (G4,
//! H-16, H-18).
//!
//! The same adapter takes a proof twice: once for the decision, and once in the act itself. The act is not
//! performed if [`change_since`] names a difference.

use coord_model::Proof;

/// What changed since `before`, the proof that was decided on, as a clause; none if nothing did. It compares
/// everything that a decision depends on, such as keys of a client, an owner, a child, the pane, and the screen.
pub fn change_since(proof: &Proof, before: &Proof) -> Option<&'static str> {
    if proof.is_alive != before.is_alive {
        Some("the client changed")
    } else if proof.owners != before.owners {
        Some("the processes that hold the session changed")
    } else if proof.idle_since_ms != before.idle_since_ms {
        Some("the client's registry entry changed")
    } else if proof.ran_ns != before.ran_ns && before.ran_ns.is_some() {
        Some("the client's main thread ran")
    } else if proof.children != before.children {
        Some("the client's child processes changed")
    } else if proof.pane != before.pane {
        Some("the pane changed")
    } else if proof.is_in_mode != before.is_in_mode
        || proof.is_synchronized != before.is_synchronized
    {
        Some("the pane's mode changed")
    } else if proof.key_ms != before.key_ms
        || (before.is_alive && proof.any_key_ms != before.any_key_ms)
    {
        Some("a key was pressed")
    } else if proof.transcript != before.transcript {
        Some("the transcript changed")
    } else if proof.is_task_stopped != before.is_task_stopped {
        Some("the task was stopped")
    } else if !(proof.has_cwd && proof.has_program) {
        Some("the directory or the program is gone")
    } else {
        None
    }
}
