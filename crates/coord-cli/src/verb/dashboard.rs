//! `coord dashboard` and `coordctl dashboard` (H-28): what the page shows and does, by the same steps as the verbs that a
//! person would type.

mod session;

use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::anyhow;
use coord_daemon::operator::{check_person, check_process};
use coord_dashboard::{
    Act, Done, ExplainLine, HistoryLine, Look, Opened, Options, PublicOrigin, RequestView,
    SessionView, Source, Watch,
};
use coord_model::ProcessRef;
use coord_view::list::{Ended, List};
use coord_wire::api::OpenRequests;
use coord_wire::inspect::Inspect;
use std::io::Write as _;
use std::sync::Mutex;

use crate::client;
use crate::context::Context;
use crate::out::{Failure, escape};
use crate::verb::control::page;
use crate::verb::inspect::{clock_time, list_of, nothing, tilde};
use crate::verb::live::{Changes, newest};
use crate::verb::status::warn_elsewhere;
use crate::verb::{events, explain};
use session::OnDemand;

/// Entries of a session's history that the page shows.
const HISTORY_MAX: usize = 200;
/// What opens an address in the user's browser.
const OPENERS: [&str; 2] = ["xdg-open", "x-www-browser"];

/// Show the list on a page that a browser opens, on this machine or a phone
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord dashboard              prints the address of the page and its code\n  coordctl dashboard           the same, and the page can answer\n  coordctl dashboard --port 7447 --public-origin https://box.tail1234.ts.net\n                               also through your own tunnel; prints a QR code for the phone\n\nThe page is served to browsers of this machine, by this command alone. The code opens one tab, once,\nand is good for 2 minutes. The page ends with Ctrl-C, or after 30 minutes without a viewer."
)]
pub(crate) struct Args {
    /// The port on 127.0.0.1; without it, the system chooses one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the page in your browser; enter the code there
    #[arg(long)]
    open: bool,
    /// Also take requests for this origin, such as that of `tailscale serve`; prints a QR code
    #[arg(long, value_name = "ORIGIN", value_parser = PublicOrigin::parse)]
    public_origin: Option<PublicOrigin>,
}

/// `acts` is true for `coordctl dashboard`.
pub(crate) fn run(args: &Args, acts: bool, context: &Context) -> Result<(), Failure> {
    warn_elsewhere(context);
    if acts {
        check_person("`coordctl dashboard`", &[]).map_err(|why| anyhow!(why))?;
        // The coordinator knows more clients than a name tells of. Without one, it checks each act.
        if let Ok(checked) = client::get::<OpenRequests>(context, "/v1/requests") {
            checked?;
        }
    }
    let source =
        Here { context: context.clone(), known: Mutex::default(), looks: OnDemand::default() };
    let options = Options { port: args.port, public: args.public_origin.clone(), acts };
    let opened = |opened: &Opened| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", opened.line)?;
        if let Some(qr) = &opened.qr {
            writeln!(out, "\n{qr}\n")?;
        }
        out.flush()?;
        if args.open {
            open_browser(&opened.address);
        }
        Ok(())
    };
    Ok(coord_dashboard::serve(Arc::new(source), &options, opened)?)
}

/// Opens the page, without the code: arguments can be read by every user of the machine.
fn open_browser(address: &str) {
    let begun = OPENERS.iter().any(|program| {
        let mut command = Command::new(program);
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                let wait = move || drop(child.wait());
                drop(std::thread::Builder::new().name("browser".to_owned()).spawn(wait));
                true
            }
            Err(_) => false,
        }
    });
    if !begun {
        crate::out::complain("coord", "no browser was found; open the address yourself");
    }
}

/// This machine's coordinator and files.
#[derive(Debug)]
struct Here {
    context: Context,
    /// The clients that the last look named.
    known: Mutex<Vec<ProcessRef>>,
    looks: OnDemand,
}

impl Here {
    fn known(&self) -> std::sync::MutexGuard<'_, Vec<ProcessRef>> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Source for Here {
    fn look(&self, reads_files: bool) -> anyhow::Result<Look> {
        let context = self.context.at_present();
        let (answer, is_live) = newest(reads_files, &context)?;
        let owners = answer.sessions.iter().filter_map(|one| one.owner.as_ref());
        *self.known() =
            owners.map(|one| ProcessRef { pid: one.pid, start_time: one.start_time }).collect();
        Ok(Look { answer, is_live })
    }

    fn watch(&self, pid: u32) -> anyhow::Result<Box<dyn Watch>> {
        Ok(Box::new(Changes::watch(pid, &self.context)?))
    }

    fn list(&self, answer: &Inspect, now_ms: u64) -> List {
        list_of(answer, now_ms, Ended::Newest)
    }

    fn directory(&self, answer: &Inspect, id: &str) -> String {
        let session = answer.sessions.iter().find(|one| one.session_id == id);
        session.map(|session| tilde(&session.cwd)).unwrap_or_default()
    }

    fn session(&self, answer: &Inspect, id: &str) -> Option<SessionView> {
        session::view(answer, id, &self.looks, &self.context.at_present())
    }

    fn requests(&self) -> Result<Vec<RequestView>, String> {
        page::requests(&self.context).map_err(words)
    }

    fn history(&self, id: &str) -> Result<Vec<HistoryLine>, String> {
        let entries =
            events::newest_of(id, HISTORY_MAX, &self.context.at_present()).map_err(words)?;
        Ok(entries.iter().rev().map(session::history_line).collect())
    }

    fn explain(&self, id: &str) -> Result<Vec<ExplainLine>, String> {
        let lines = explain::lines_of(id, &self.context.at_present()).map_err(words)?;
        let line = |(name, words, ago): (String, String, String)| ExplainLine {
            name,
            words: escape(&words),
            ago,
        };
        Ok(lines.into_iter().map(line).collect())
    }

    fn act(&self, act: &Act, dry_run: bool) -> Result<Done, String> {
        page::act(act, dry_run, &self.context.at_present()).map_err(words)
    }

    fn unlock(&self, passphrase: String) -> Result<(), String> {
        page::unlock(passphrase, &self.context).map_err(words)
    }

    fn check_peer(&self, pid: u32) -> Result<(), String> {
        check_process(pid, "a browser", &self.known())
    }

    fn nothing(&self) -> String {
        nothing(&self.context).to_owned()
    }

    fn now_ms(&self) -> u64 {
        coord_store::now().wall_ms
    }

    fn clock(&self, at_ms: u64) -> String {
        clock_time(at_ms)
    }
}

/// The words of a failure, for the page.
fn words(failure: Failure) -> String {
    escape(&format!("{:#}", failure.into_error()))
}
