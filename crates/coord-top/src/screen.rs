//! Keeps the screen as it should be: enters and leaves the terminal, and draws when something changed, four times
//! a second at most.

use std::io::{self, IsTerminal as _, Stdout, Write as _, stdout};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::Event;
use ratatui_crossterm::crossterm::{cursor, execute, terminal};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use crate::app::{App, Ask};
use crate::draw::draw;
use crate::looks::Looks;
use crate::source::Source;
use crate::threads::{News, Threads, report_panics};
use crate::{Failure, Options};

/// Between two reads of a pane.
const AGAIN: Duration = Duration::from_secs(1);

/// The terminal, while it is ours.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    fn enter() -> io::Result<Self> {
        enter()?;
        Ok(Self { terminal: Terminal::new(CrosstermBackend::new(stdout()))? })
    }

    /// Enters again, whatever was set and shown in between.
    fn enter_again(&mut self) -> io::Result<()> {
        terminal::disable_raw_mode()?;
        enter()?;
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<()> {
    terminal::enable_raw_mode()?;
    let all = terminal::Clear(terminal::ClearType::All);
    execute!(stdout(), terminal::EnterAlternateScreen, all, cursor::Hide)
}

/// Leaves the terminal as it was found.
fn leave() {
    // A terminal that is gone needs nothing.
    drop(execute!(stdout(), cursor::Show, terminal::LeaveAlternateScreen));
    drop(terminal::disable_raw_mode());
}

pub(crate) fn run(source: &dyn Source, options: Options) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !stdout().is_terminal() {
        return Err(Failure::NoTerminal);
    }
    let (threads, news) = Threads::start()?;
    report_panics(leave);
    let mut screen = Screen::enter()?;
    let next_key = threads.read_keys()?;
    let mut live = Live {
        source,
        options,
        threads,
        next_key,
        app: App::new(options),
        looks: Looks::new(),
        is_screen_running: false,
        screen_at: None,
    };
    let ended = live.run(&mut screen, &news);
    drop(screen);
    ended
}

struct Live<'a> {
    source: &'a dyn Source,
    options: Options,
    threads: Threads,
    /// Told when a key was taken.
    next_key: Sender<()>,
    app: App,
    looks: Looks,
    is_screen_running: bool,
    screen_at: Option<Instant>,
}

impl Live<'_> {
    fn run(&mut self, screen: &mut Screen, news: &Receiver<News>) -> Result<(), Failure> {
        loop {
            self.start_what_is_due()?;
            self.app.arrange(self.source);
            let (app, options) = (&mut self.app, self.options);
            screen.terminal.draw(|frame| draw(app, options, frame.area(), frame.buffer_mut()))?;
            let mut next = self.next_news(news);
            // What came at once is drawn at once.
            while let Some(one) = next {
                if self.take(one, screen)? {
                    return Ok(());
                }
                next = news.try_recv().ok();
            }
        }
    }

    /// Waits for something to happen, or until something is due.
    fn next_news(&self, news: &Receiver<News>) -> Option<News> {
        let ages_ms = ages_in_ms(&self.app, self.source.now_ms());
        let ages_at = Instant::now() + Duration::from_millis(ages_ms);
        let due = [self.looks.next_at(), self.screen_at, self.app.settles_at()];
        let at = due.into_iter().flatten().fold(ages_at, Instant::min);
        news.recv_timeout(at.saturating_duration_since(Instant::now())).ok()
    }

    fn start_what_is_due(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.looks.starts(now) {
            let is_empty = self.app.look.answer.sessions.is_empty();
            self.threads.run(self.source.look(is_empty), News::Looked)?;
        }
        if self.screen_at.is_some_and(|at| at <= now) && !self.is_screen_running {
            self.screen_at = None;
            self.read_screen()?;
        }
        Ok(())
    }

    fn read_screen(&mut self) -> io::Result<()> {
        let Some(session) = self.app.screen_of() else { return Ok(()) };
        self.is_screen_running = true;
        self.threads.run(self.source.screen(session), News::Screen)
    }

    /// Takes what happened. Returns whether the program ends.
    fn take(&mut self, news: News, screen: &mut Screen) -> Result<bool, Failure> {
        match news {
            News::Input(event) => {
                let ends = self.take_input(&event, screen)?;
                // Without its thread no key comes any more, which that thread has said.
                let _is_read_on = self.next_key.send(());
                return Ok(ends);
            }
            News::Line(_) => (),
            News::Signal(SIGTSTP) => suspend(screen)?,
            News::Signal(SIGCONT) => screen.enter_again()?,
            News::Signal(signal) => return Err(Failure::Signal(signal)),
            News::Changed => self.looks.changed(Instant::now()),
            News::Unwatched => self.looks.unwatched(Instant::now()),
            News::Looked(found) => {
                self.app.looked(found, self.source);
                let pid = self.app.look.answer.coordinator.pid;
                let pid = Some(pid).filter(|_| self.app.lost_at.is_none());
                self.looks.ended(pid, self.source, &self.threads)?;
            }
            News::Screen(read) => {
                self.is_screen_running = false;
                self.app.screen(read);
                let is_open = self.app.screen_of().is_some();
                self.screen_at = is_open.then(|| Instant::now() + AGAIN);
            }
            News::Ran(purpose, ran) => self.app.ran(purpose, ran),
            News::Panicked(report) => return Err(Failure::Panicked(report)),
        }
        Ok(false)
    }

    /// Takes a key, or another size. Returns whether the program ends.
    fn take_input(&mut self, event: &Event, screen: &mut Screen) -> Result<bool, Failure> {
        let ask = match event {
            Event::Key(key) => self.app.key(*key),
            Event::Resize(..) => {
                screen.terminal.autoresize()?;
                None
            }
            Event::FocusGained | Event::FocusLost | Event::Mouse(_) | Event::Paste(_) => None,
        };
        match ask {
            Some(Ask::Quit) => return Ok(true),
            Some(Ask::Suspend) => suspend(screen)?,
            Some(Ask::Converse(words)) => self.converse(&words, screen)?,
            Some(Ask::Run { acts, words, purpose }) => {
                let job = self.source.command(acts, &words);
                self.threads.run(job, |ran| News::Ran(purpose, ran))?;
            }
            Some(Ask::Screen(_)) if !self.is_screen_running => self.read_screen()?,
            Some(Ask::Screen(_)) | None => (),
        }
        Ok(false)
    }

    /// Leaves the terminal to a command until the person has read what it said.
    fn converse(&mut self, words: &[String], screen: &mut Screen) -> Result<(), Failure> {
        leave();
        let source = self.source;
        let ran = self.threads.lend(|| {
            let ran = source.converse(words);
            write!(stdout(), "\nEnter goes back to the list. ")?;
            stdout().flush()?;
            io::stdin().read_line(&mut String::new())?;
            ran
        });
        screen.enter_again()?;
        if let Err(error) = ran {
            self.app.notice = Some(format!("coordctl could not be run: {error}"));
        }
        Ok(())
    }
}

/// Stops the program as Ctrl-Z stops others, and comes back when it is continued.
fn suspend(screen: &mut Screen) -> Result<(), Failure> {
    leave();
    emulate_default_handler(SIGTSTP)?;
    screen.enter_again()?;
    Ok(())
}

/// Milliseconds until an age that is shown, or the clock, changes.
fn ages_in_ms(app: &App, now_ms: u64) -> u64 {
    const MINUTE_MS: u64 = 60_000;
    let is_second = app.rows.all().iter().any(|one| one.row.age_s < 60);
    let is_read = app.screen_of().is_some();
    if is_second || is_read { 1_000 - now_ms % 1_000 } else { MINUTE_MS - now_ms % MINUTE_MS }
}
