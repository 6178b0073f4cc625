//! Asks for a passphrase on the controlling terminal without echo.
//!
//! The terminal gets its modes back however the reading ends: with an answer, an error, or a signal such as
//! that of Ctrl-C or Ctrl-Z, which takes effect after that.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, anyhow, bail};
use coord_host::passphrase::Passphrase;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::low_level::{emulate_default_handler, pipe};

/// Longest line that a terminal hands out, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// The controlling terminal.
pub(super) struct Terminal(File);

/// How the reading of a line ended.
enum Read {
    Line(Passphrase),
    Signal(i32),
}

impl Terminal {
    /// Opens the controlling terminal.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn open() -> anyhow::Result<Self> {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
        let refused =
            "Refused: no terminal, so nothing shows that a person asks. Run this command in one.";
        terminal.map(Self).map_err(|_| anyhow!(refused))
    }

    /// Asks one question, and reads the answer without showing it. What was typed before is discarded.
    ///
    /// # Errors
    /// The terminal cannot be used, or the answer is empty, no UTF-8 or too long.
    pub(super) fn ask(&self, question: &str) -> anyhow::Result<Passphrase> {
        let signals = Signals::taken().context("signals")?;
        loop {
            // Dropped in reverse order: the terminal is right before a signal takes effect.
            let caught = signals.catch();
            let silence = Silence::begin(&self.0).context("/dev/tty")?;
            (&self.0).write_all(question.as_bytes()).context("/dev/tty")?;
            let read = self.read(signals);
            drop(silence);
            // The line break was not shown either.
            (&self.0).write_all(b"\n").context("/dev/tty")?;
            drop(caught);
            match read? {
                Read::Line(line) => return Ok(line),
                // Ends the program, or stops it. Once it continues, the question is asked again.
                Read::Signal(signal) => emulate_default_handler(signal).context("signals")?,
            }
        }
    }

    fn read(&self, signals: &Signals) -> anyhow::Result<Read> {
        // Never moved, so that no copy of it stays in memory.
        let mut bytes = Vec::with_capacity(LINE_BYTES_MAX);
        while !bytes.ends_with(b"\n") {
            let came = PollFd::new(&signals.came, PollFlags::IN);
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN), came], None) {
                Ok(_) | Err(Errno::INTR) => (),
                Err(error) => return Err(error.into()),
            }
            if let Some(signal) = signals.next() {
                return Ok(Read::Signal(signal));
            }
            if bytes.len() == bytes.capacity() {
                bail!("The passphrase is too long; nothing was changed.");
            }
            match rustix::io::read(&self.0, spare_capacity(&mut bytes)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR | Errno::AGAIN) => (),
                Err(error) => return Err(error.into()),
            }
        }
        while bytes.ends_with(b"\n") || bytes.ends_with(b"\r") {
            bytes.pop();
        }
        if bytes.is_empty() {
            bail!("No passphrase was given; nothing was changed.");
        }
        let line = String::from_utf8(bytes);
        // What the error says would quote the passphrase.
        let line =
            line.map_err(|_| anyhow!("The passphrase is not UTF-8; nothing was changed."))?;
        Ok(Read::Line(Passphrase::new(line)))
    }
}

/// Keeps the terminal from showing what is typed, until it is dropped.
struct Silence<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silence<'a> {
    fn begin(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ECHO | LocalModes::ECHONL;
        modes.local_modes |= LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(terminal, OptionalActions::Flush, &modes)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        // The rest of a line that was too long must not reach the shell. A terminal that is gone needs no modes.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// The signals that would leave the terminal without echo.
struct Signals {
    /// Whether they have their default effect.
    have_effect: Arc<AtomicBool>,
    /// Becomes readable when one arrives.
    came: UnixStream,
    /// Each, and whether it has arrived.
    each: Vec<(i32, Arc<AtomicBool>)>,
}

/// Holds signals back until it is dropped.
struct Caught<'a>(&'a Signals);

impl Signals {
    /// The handlers, installed once: they stay for the life of the program.
    fn taken() -> io::Result<&'static Self> {
        static TAKEN: OnceLock<Signals> = OnceLock::new();
        if let Some(taken) = TAKEN.get() {
            return Ok(taken);
        }
        let taken = Self::take()?;
        Ok(TAKEN.get_or_init(|| taken))
    }

    fn take() -> io::Result<Self> {
        let have_effect = Arc::new(AtomicBool::new(true));
        let (came, send) = UnixStream::pair()?;
        came.set_nonblocking(true)?;
        let mut each = Vec::new();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP] {
            let has_come = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&has_come))?;
            pipe::register(signal, send.try_clone()?)?;
            let have_effect = Arc::clone(&have_effect);
            signal_hook::flag::register_conditional_default(signal, have_effect)?;
            each.push((signal, has_come));
        }
        Ok(Self { have_effect, came, each })
    }

    fn catch(&self) -> Caught<'_> {
        self.have_effect.store(false, Ordering::SeqCst);
        // One that has had its effect, such as Ctrl-Z, is over.
        while self.next().is_some() {}
        Caught(self)
    }

    /// A signal that has arrived, if one has.
    fn next(&self) -> Option<i32> {
        let mut buffer = [0; 64];
        while rustix::io::read(&self.came, &mut buffer).is_ok_and(|n| 0 < n) {}
        let mut each = self.each.iter();
        let found = each.find(|(_, has_come)| has_come.swap(false, Ordering::SeqCst));
        found.map(|(signal, _)| *signal)
    }
}

impl Drop for Caught<'_> {
    fn drop(&mut self) {
        self.0.have_effect.store(true, Ordering::SeqCst);
    }
}
