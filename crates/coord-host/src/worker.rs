//! The coordinator's worker threads, and what happens when one of them ends unasked (H-52).
//!
//! The loop cannot work without its workers: without the disk's thread nothing becomes durable, without
//! the others nothing is seen or done. A worker that ends unasked is therefore noted, the loop is woken,
//! and the coordinator ends; the next hook or the service manager starts it anew. A panic in any thread
//! ends the process at once, with one line that names the thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use mio::Waker;

/// Starts workers, and knows whether one was lost. Clones share this knowledge.
#[derive(Debug, Clone)]
pub struct Supervisor {
    lost: Arc<OnceLock<&'static str>>,
    waker: Arc<Waker>,
}

/// A running worker thread.
#[derive(Debug)]
pub struct Worker {
    is_asked_to_end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Lives in a worker's thread, and notes its end however it comes.
struct Watch {
    name: &'static str,
    is_asked_to_end: Arc<AtomicBool>,
    supervisor: Supervisor,
}

impl Supervisor {
    /// `waker` wakes the loop.
    pub fn new(waker: Arc<Waker>) -> Self {
        Self { lost: Arc::default(), waker }
    }

    /// The name of the first worker that ended unasked, if one did.
    pub fn lost(&self) -> Option<&'static str> {
        self.lost.get().copied()
    }

    /// Wakes the loop; one that cannot be woken turns by its heartbeat.
    pub(crate) fn wake(&self) {
        let _woken = self.waker.wake();
    }

    /// Starts a worker that the coordinator cannot work without.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub fn start(
        &self,
        name: &'static str,
        work: impl FnOnce(&Waker) + Send + 'static,
    ) -> io::Result<Worker> {
        let is_asked_to_end = Arc::new(AtomicBool::new(false));
        let watch =
            Watch { name, is_asked_to_end: Arc::clone(&is_asked_to_end), supervisor: self.clone() };
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(&watch.supervisor.waker))?;
        Ok(Worker { is_asked_to_end, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_asked_to_end.load(Ordering::SeqCst) {
            // The first one lost is named.
            let _named = self.supervisor.lost.set(self.name);
            self.supervisor.wake();
        }
    }
}

impl Worker {
    /// Its end is no loss from here on.
    pub fn expect_end(&self) {
        self.is_asked_to_end.store(true, Ordering::SeqCst);
    }

    /// Waits for its end, which is expected.
    pub fn join(&mut self) {
        self.expect_end();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a worker thread panicked");
        }
    }
}

/// What waits for a worker, in whatever order and with whatever is folded into one.
pub(crate) trait Waiting: Default + Send + 'static {
    /// What the worker takes at once.
    type Task;

    /// The next task, if there is one.
    fn next(&mut self) -> Option<Self::Task>;

    /// Whether there is none.
    fn is_empty(&self) -> bool;
}

/// A worker thread and the queue before it. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct QueueWorker<W: Waiting> {
    queue: Arc<WorkQueue<W>>,
    worker: Worker,
}

#[derive(Debug, Default)]
struct WorkQueue<W> {
    state: Mutex<QueueState<W>>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct QueueState<W> {
    waiting: W,
    is_busy: bool,
    is_over: bool,
}

impl<W: Waiting> WorkQueue<W> {
    fn state(&self) -> MutexGuard<'_, QueueState<W>> {
        // Nothing is left half done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task, once there is one; none when it is over: what is not begun is not done.
    fn take(&self) -> Option<W::Task> {
        let mut state = self.state();
        state.is_busy = false;
        let nothing = |state: &mut QueueState<W>| !state.is_over && state.waiting.is_empty();
        let mut state =
            self.more.wait_while(state, nothing).unwrap_or_else(PoisonError::into_inner);
        state.is_busy = true;
        if state.is_over { None } else { state.waiting.next() }
    }
}

impl<W: Waiting> QueueWorker<W> {
    /// Starts the thread. What `work` returns for a task goes to `answers`, and the loop is woken.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub(crate) fn start<A: Send + 'static, I: IntoIterator<Item = A>>(
        supervisor: &Supervisor,
        name: &'static str,
        answers: Sender<A>,
        mut work: impl FnMut(W::Task) -> I + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Arc::new(WorkQueue::<W>::default());
        let tasks = Arc::clone(&queue);
        let worker = supervisor.start(name, move |waker| {
            while let Some(task) = tasks.take() {
                let mut n_answers = 0;
                for answer in work(task) {
                    n_answers += 1;
                    if answers.send(answer).is_err() {
                        return;
                    }
                }
                if 0 < n_answers && waker.wake().is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { queue, worker })
    }

    /// Puts something in.
    pub(crate) fn put(&self, put: impl FnOnce(&mut W)) {
        put(&mut self.queue.state().waiting);
        self.queue.more.notify_one();
    }

    /// Whether nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.queue.state();
        !state.is_busy && state.waiting.is_empty()
    }

    /// As if a task were under way that does not end.
    #[cfg(test)]
    pub(crate) fn seem_busy(&self) {
        self.queue.state().is_busy = true;
    }

    /// Has the thread end after the task that is under way.
    pub(crate) fn end(&self) {
        self.worker.expect_end();
        self.queue.state().is_over = true;
        self.queue.more.notify_one();
    }

    /// Its end will not be waited for: it may be at a disk that does not answer.
    pub(crate) fn detach(&mut self) {
        self.worker.thread = None;
    }
}

impl<W: Waiting> Drop for QueueWorker<W> {
    /// Ends the thread, and waits for the task that is under way.
    fn drop(&mut self) {
        self.end();
        self.worker.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::sync::mpsc::channel;

    fn supervisor() -> (Poll, Supervisor) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        (poll, Supervisor::new(waker))
    }

    // H-52
    #[test]
    fn a_worker_that_ends_unasked_is_named_and_the_loop_is_woken() {
        let (mut poll, supervisor) = supervisor();
        let (end, ended) = channel::<()>();
        let lasting = supervisor.start("lasting", move |_| assert!(ended.recv().is_err())).unwrap();
        assert_eq!(supervisor.lost(), None);
        let _brief = supervisor.start("brief", |_| ()).unwrap();
        poll.poll(&mut Events::with_capacity(4), None).unwrap();
        assert_eq!(supervisor.lost(), Some("brief"));
        drop((lasting, end));
        assert_eq!(supervisor.lost(), Some("brief"), "the first one lost is the cause");
    }

    // H-52
    #[test]
    fn a_worker_that_is_asked_to_end_is_not_missed() {
        let (_poll, supervisor) = supervisor();
        let (end, ended) = channel::<()>();
        let mut worker =
            supervisor.start("worker", move |_| assert!(ended.recv().is_err())).unwrap();
        worker.expect_end();
        drop(end);
        worker.join();
        assert_eq!(supervisor.lost(), None);
    }

    #[derive(Debug, Default)]
    struct Numbers(Vec<u32>);

    impl Waiting for Numbers {
        type Task = u32;

        fn next(&mut self) -> Option<u32> {
            self.0.pop()
        }

        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }

    #[test]
    fn a_queue_worker_answers_and_does_not_begin_what_waits_when_it_ends() {
        let (_poll, supervisor) = supervisor();
        let (answers, answered) = channel();
        let (begun, is_begun) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let work = move |n: u32| {
            begun.send(()).unwrap();
            may_go_on.recv().ok().map(|()| n)
        };
        let worker = QueueWorker::<Numbers>::start(&supervisor, "numbers", answers, work).unwrap();
        worker.put(|waiting| waiting.0.push(1));
        is_begun.recv().unwrap();
        assert!(!worker.is_idle(), "a task is under way");
        worker.put(|waiting| waiting.0.push(2));
        worker.end();
        go_on.send(()).unwrap();
        drop(worker);
        assert_eq!(answered.iter().collect::<Vec<_>>(), [1]);
        assert_eq!(supervisor.lost(), None);
    }
}
