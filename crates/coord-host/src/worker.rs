//! The coordinator's worker threads, and what happens if one of them ends unexpectedly (H-52).
//!
//! The loop cannot work without its workers: without the disk thread nothing becomes durable, and without the
//! others nothing is observed or done. If a worker ends unexpectedly, its name is noted, the loop is woken,
//! and the coordinator ends. The next hook or the service manager starts it again. A panic on any thread ends
//! the process at once, with one line that names the thread.

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

/// Lives on the worker's thread, and notes the end of the thread, whatever ends it.
struct Watch {
    name: &'static str,
    is_asked_to_end: Arc<AtomicBool>,
    supervisor: Supervisor,
}

impl Supervisor {
    /// Creates a supervisor that wakes the loop with `waker`.
    pub fn new(waker: Arc<Waker>) -> Self {
        Self { lost: Arc::default(), waker }
    }

    /// The name of the first worker that ended unexpectedly, if any did.
    pub fn lost(&self) -> Option<&'static str> {
        self.lost.get().copied()
    }

    /// Wakes the loop. If that fails, the loop still turns at its next heartbeat.
    pub(crate) fn wake(&self) {
        let _woken = self.waker.wake();
    }

    /// Starts a worker without which the coordinator cannot work.
    ///
    /// # Errors
    /// The system cannot create another thread.
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
            // Only the first lost worker is recorded.
            let _named = self.supervisor.lost.set(self.name);
            self.supervisor.wake();
        }
    }
}

impl Worker {
    /// Notes that the worker is meant to end, so that its end is no loss.
    pub fn expect_end(&self) {
        self.is_asked_to_end.store(true, Ordering::SeqCst);
    }

    /// Waits until the worker has ended, as expected.
    pub fn join(&mut self) {
        self.expect_end();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a worker thread panicked");
        }
    }
}

/// The tasks that wait for a worker. The implementation chooses their order, and may merge them.
pub(crate) trait Waiting: Default + Send + 'static {
    /// The unit of work that the worker takes at once.
    type Task;

    /// The next task, if there is one.
    fn next(&mut self) -> Option<Self::Task>;

    /// Whether no task waits.
    fn is_empty(&self) -> bool;
}

/// A worker thread and its queue. The thread ends when this value is dropped.
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
        // A poisoned lock is safe to use: no change under it can be left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next task. Returns none once the worker is asked to end; queued tasks are then not
    /// started.
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
    /// Starts the thread. It sends what `work` returns for a task to `answers`, and wakes the loop.
    ///
    /// # Errors
    /// The system cannot create another thread.
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

    /// Adds to the queue.
    pub(crate) fn put(&self, put: impl FnOnce(&mut W)) {
        put(&mut self.queue.state().waiting);
        self.queue.more.notify_one();
    }

    /// Whether no task is queued and none is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.queue.state();
        !state.is_busy && state.waiting.is_empty()
    }

    /// Makes the worker appear busy with a task that does not end.
    #[cfg(test)]
    pub(crate) fn seem_busy(&self) {
        self.queue.state().is_busy = true;
    }

    /// Asks the thread to end after the present task.
    pub(crate) fn end(&self) {
        self.worker.expect_end();
        self.queue.state().is_over = true;
        self.queue.more.notify_one();
    }

    /// Makes the drop not wait for the thread: it may be waiting for a disk that does not answer.
    pub(crate) fn detach(&mut self) {
        self.worker.thread = None;
    }
}

impl<W: Waiting> Drop for QueueWorker<W> {
    /// Ends the thread, and waits for the present task.
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
