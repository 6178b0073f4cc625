//! The lines of JSON that a page reads as long as it is shown: what it does not know yet, then each change, and a blank one
//! each second, so that a page notices within three that nothing comes any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::live::{Live, Now, TICK, Viewer};
use crate::snapshot::{Open, Snapshot};
use crate::view::SessionView;

/// A page that does not read for so long is gone.
const UNREAD_MAX: Duration = Duration::from_secs(10);
/// What the page says when this process ends.
pub(crate) const ENDED: &str = "coord dashboard has ended. Start it again for a new code.";

/// What is sent to one page.
struct Sent {
    live: Arc<Live>,
    session: String,
    before: Option<Arc<Snapshot>>,
    shown: Option<SessionView>,
}

/// The body of the answer to a page that knows the moment `from` and has a session open.
pub(crate) fn body(live: &Arc<Live>, session: String, from: &str) -> Body {
    let (lines, received) = mpsc::channel(1);
    let before = live.known(from);
    let sent = Sent { live: Arc::clone(live), session, before, shown: None };
    let viewer = live.view();
    tokio::spawn(sent.send(lines, viewer));
    Body::new(Lines(received))
}

impl Sent {
    async fn send(mut self, lines: mpsc::Sender<Bytes>, viewer: Viewer) {
        let mut now = self.live.follow();
        now.mark_changed();
        loop {
            let changed = timeout(TICK, now.changed()).await;
            let line = match changed {
                Err(_) => Some("\n".into()),
                Ok(Err(_)) => return,
                Ok(Ok(())) => {
                    let now = now.borrow_and_update().clone();
                    match now {
                        Now::Unknown => None,
                        Now::Shown(snapshot) => Some(self.line(snapshot)),
                        Now::Ended => {
                            let line = format!("{}\n", serde_json::json!({ "ended": ENDED }));
                            drop(timeout(UNREAD_MAX, lines.send(line.into())).await);
                            return;
                        }
                    }
                }
            };
            let Some(line) = line else { continue };
            if !matches!(timeout(UNREAD_MAX, lines.send(line)).await, Ok(Ok(()))) {
                drop(viewer);
                return;
            }
        }
    }

    /// What the page does not know of this moment.
    fn line(&mut self, snapshot: Arc<Snapshot>) -> Bytes {
        let view = match self.session.as_str() {
            "" => None,
            id => self.live.source.session(&snapshot.answer, id),
        };
        let open = match &view {
            None if self.session.is_empty() => Open::Same,
            Some(view) if self.shown.as_ref() == Some(view) => Open::Same,
            Some(view) => Open::Changed(view),
            None => Open::None,
        };
        let update = snapshot.since(self.before.as_deref(), open, &self.live.epoch);
        let mut line = Vec::new();
        if coord_view::json::to_writer(&mut line, &update).is_err() {
            line.clear();
        }
        line.push(b'\n');
        self.before = Some(snapshot);
        self.shown = view;
        line.into()
    }
}

/// The lines, as the body of an answer.
struct Lines(mpsc::Receiver<Bytes>);

impl HttpBody for Lines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}
