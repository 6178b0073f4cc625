//! Decides when the sessions are looked at: while a page is open and shown, after a change, four times a second at most.
//! Without a viewer nothing is looked at.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::code::{hex, random};
use crate::snapshot::{Known, Ring, Snapshot};
use crate::source::{Source, Watch};

/// Between two looks.
const PACE: Duration = Duration::from_millis(250);
/// A look that takes long is not repeated before this many times as long.
const PACE_FACTOR: u32 = 20;
/// But after this at the latest.
const PACE_MAX: Duration = Duration::from_secs(2);
/// Ages are renewed this often, and so is what no record tells of: whether a hook waits.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// What viewers follow.
#[derive(Debug, Clone, Default)]
pub(crate) enum Now {
    /// Nothing was looked at yet, or nobody looked for a while.
    #[default]
    Unknown,
    /// This is shown.
    Shown(Arc<Snapshot>),
    /// The page has ended.
    Ended,
}

/// Who looks, and what there is to see.
#[derive(Debug)]
pub(crate) struct Live {
    /// What tells the moments of this process from those of another.
    pub(crate) epoch: String,
    pub(crate) source: Arc<dyn Source>,
    now: watch::Sender<Now>,
    ring: Mutex<Ring>,
    viewers: Mutex<Viewers>,
    changed: Condvar,
}

#[derive(Debug)]
struct Viewers {
    count: usize,
    /// When the last one left.
    left_at: Instant,
    has_ended: bool,
}

/// A page that is shown. Dropping it says that it is not any more.
#[derive(Debug)]
pub(crate) struct Viewer(Arc<Live>);

impl Drop for Viewer {
    fn drop(&mut self) {
        let mut viewers = self.0.viewers();
        viewers.count = viewers.count.saturating_sub(1);
        viewers.left_at = Instant::now();
        self.0.changed.notify_all();
    }
}

impl Live {
    /// Begins; the thread ends with [`Self::end`].
    pub(crate) fn start(source: Arc<dyn Source>) -> io::Result<Arc<Self>> {
        let epoch = hex(random::<6>()?);
        let viewers = Viewers { count: 0, left_at: Instant::now(), has_ended: false };
        let live = Arc::new(Self {
            epoch,
            source,
            now: watch::Sender::new(Now::Unknown),
            ring: Mutex::default(),
            viewers: Mutex::new(viewers),
            changed: Condvar::new(),
        });
        let own = Arc::clone(&live);
        std::thread::Builder::new().name("looks".to_owned()).spawn(move || own.run())?;
        Ok(live)
    }

    fn viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more page is shown.
    pub(crate) fn view(self: &Arc<Self>) -> Viewer {
        self.viewers().count += 1;
        self.changed.notify_all();
        Viewer(Arc::clone(self))
    }

    /// What is shown, and what comes.
    pub(crate) fn follow(&self) -> watch::Receiver<Now> {
        self.now.subscribe()
    }

    /// A moment that a page knows.
    pub(crate) fn known(&self, id: &str) -> Option<Arc<Snapshot>> {
        let id = id.strip_prefix(&self.epoch)?.strip_prefix('-')?.parse().ok()?;
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).get(id)
    }

    /// For how long nobody has looked; none while somebody does.
    pub(crate) fn idle(&self, now: Instant) -> Option<Duration> {
        let viewers = self.viewers();
        (viewers.count == 0).then(|| now.saturating_duration_since(viewers.left_at))
    }

    /// Tells all pages that this has ended.
    pub(crate) fn end(&self) {
        self.viewers().has_ended = true;
        self.changed.notify_all();
        self.now.send_replace(Now::Ended);
    }

    /// Waits for a viewer; false at the end.
    fn await_viewer(&self) -> bool {
        let viewers = self.viewers();
        let nobody = |viewers: &mut Viewers| viewers.count == 0 && !viewers.has_ended;
        let viewers = self.changed.wait_while(viewers, nobody);
        !viewers.unwrap_or_else(PoisonError::into_inner).has_ended
    }

    /// Waits for a time, or until nobody looks; whether somebody still does.
    fn pause(&self, time: Duration) -> bool {
        let viewers = self.viewers();
        let looked_at = |viewers: &mut Viewers| viewers.count != 0 && !viewers.has_ended;
        let waited = self.changed.wait_timeout_while(viewers, time, looked_at);
        let (mut viewers, _) = waited.unwrap_or_else(PoisonError::into_inner);
        looked_at(&mut viewers)
    }

    fn run(&self) {
        let mut id = 0;
        let mut known = Known::default();
        while self.await_viewer() {
            let mut looks = Looks::default();
            while self.pause(Duration::ZERO) {
                looks.turn(&mut known, self.source.as_ref());
                id += 1;
                self.publish(Arc::new(Snapshot::of(&known, id, self.source.as_ref())));
                looks.wait(self);
            }
            // What is known grows old; whoever comes next waits for a look.
            self.now.send_if_modified(|now| {
                let is_shown = matches!(now, Now::Shown(_));
                if is_shown {
                    *now = Now::Unknown;
                }
                is_shown
            });
        }
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&snapshot));
        self.now.send_if_modified(|now| match now {
            Now::Ended => false,
            Now::Unknown | Now::Shown(_) => {
                *now = Now::Shown(snapshot);
                true
            }
        });
    }
}

/// The looks of one time during which somebody looks.
#[derive(Default)]
struct Looks {
    watch: Option<(u32, Box<dyn Watch>)>,
    /// Whether the sessions have to be looked at.
    has_seen: bool,
    /// No look before this.
    not_before: Option<Instant>,
}

impl Looks {
    /// Looks at what may have changed.
    fn turn(&mut self, known: &mut Known, source: &dyn Source) {
        let began = Instant::now();
        if !self.has_seen {
            self.look(known, source);
            let pace = (began.elapsed() * PACE_FACTOR).clamp(PACE, PACE_MAX);
            self.not_before = Some(Instant::now() + pace);
        }
        let is_prompt = |kind: &str| matches!(kind, "permission" | "question" | "plan" | "dialog");
        let mut needs = known.answer.sessions.iter().flat_map(|session| &session.needs);
        if known.lost_at.is_none() && needs.any(|need| is_prompt(&need.kind)) {
            match source.requests() {
                Ok(open) => (known.requests, known.why_no_requests) = (open, String::new()),
                Err(why) => (known.requests, known.why_no_requests) = (Vec::new(), why),
            }
        } else if known.lost_at.is_none() {
            (known.requests, known.why_no_requests) = (Vec::new(), String::new());
        }
    }

    fn look(&mut self, known: &mut Known, source: &dyn Source) {
        // What a coordinator said last is newer than what the files say without it.
        let reads_files = known.answer.sessions.is_empty();
        let looked = source.look(reads_files);
        let lost_now = || Some(source.clock(source.now_ms()));
        match looked {
            Ok(look) => {
                let was_lost = known.lost_at.take();
                known.lost_at = if look.is_live { None } else { was_lost.or_else(lost_now) };
                let pid = look.answer.coordinator.pid;
                known.answer = Arc::new(look.answer);
                if look.is_live {
                    self.has_seen = true;
                    self.follow(pid, source);
                } else {
                    self.watch = None;
                }
            }
            Err(_) => {
                known.lost_at = known.lost_at.take().or_else(lost_now);
                self.watch = None;
            }
        }
    }

    fn follow(&mut self, pid: u32, source: &dyn Source) {
        if self.watch.as_ref().is_some_and(|(watched, _)| *watched == pid) {
            return;
        }
        self.watch = source.watch(pid).ok().map(|watch| (pid, watch));
        // What changed between the look and the watch is looked at as well.
        self.has_seen = false;
    }

    /// Waits for news, or until ages change.
    fn wait(&mut self, live: &Live) {
        let news = match &mut self.watch {
            Some((_, watch)) if self.has_seen => match watch.wait(TICK) {
                Ok(news) => news,
                Err(_) => {
                    self.watch = None;
                    true
                }
            },
            Some(_) => true,
            None => {
                live.pause(TICK);
                true
            }
        };
        if news {
            self.has_seen = false;
            let left = self.not_before.map(|at| at.saturating_duration_since(Instant::now()));
            live.pause(left.unwrap_or_default());
        }
    }
}
