//! Answers the program that draws a session's status line (N-08): with a line of coord's own, which the program shows
//! where the user has none.
//!
//! Decides only the words. What the status line said is an event like others.

use coord_core::Session;

use crate::coordinator::Coordinator;
use crate::http::Response;
use crate::world::World;

impl<W: World> Coordinator<W> {
    /// How many other sessions need a person; nothing if none does.
    pub(crate) fn answer_status_line(&self, session_id: &str) -> Response {
        let needs_someone = |session: &&Session| {
            session.session_id != session_id && session.open_needs().next().is_some()
        };
        match self.engine.state().sessions().filter(needs_someone).count() {
            0 => Response::no_content(),
            1 => Response::text("1 other session needs you\n".to_owned()),
            n => Response::text(format!("{n} other sessions need you\n")),
        }
    }
}
