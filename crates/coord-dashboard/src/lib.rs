//! `coord dashboard` (H-28): the sessions on a page, served to browsers of this machine by a process of its own. What the
//! page shows and does comes from its [`Source`], in words that are ready to be read; this crate decides who may see it,
//! when sessions are looked at, and what differs from what a page knows.

mod code;
mod gate;
mod listener;
mod live;
mod peer;
mod routes;
mod snapshot;
mod source;
mod stream;
mod view;

pub use gate::PublicOrigin;
pub use source::{Done, Look, Source, Watch};
pub use view::{
    Act, Acted, ChoiceView, Detail, EvidenceView, ExplainLine, HistoryLine, OptionView,
    QuestionView, RequestView, SessionAct, SessionView, hook_name, tone,
};

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use qrcode::{Color, QrCode};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use code::Access;
use gate::Names;
use listener::Listener;
use live::Live;
use routes::App;

/// It ends after this time without a viewer.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// How long pages are given to hear that it has ended.
const GOODBYE: Duration = Duration::from_millis(300);
/// Most threads that wait for the coordinator or the disk.
const BLOCKING_MAX: usize = 16;

/// How it is served.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The port; 0 for one that the system chooses.
    pub port: u16,
    /// The origin of the user's own tunnel.
    pub public: Option<PublicOrigin>,
    /// Whether the page acts: `coordctl dashboard`.
    pub acts: bool,
}

/// Where the page is.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its address, without the code.
    pub address: String,
    /// The line that says how it is opened.
    pub line: String,
    /// The address with the code as a QR code, where it can be reached from elsewhere.
    pub qr: Option<String>,
}

/// Serves the page until a signal comes, or until nobody has looked for 30 minutes. `opened` is told where it is.
///
/// # Errors
/// The port cannot be had, or the system refused.
pub fn serve(
    source: Arc<dyn Source>,
    options: &Options,
    opened: impl FnOnce(&Opened) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(BLOCKING_MAX).build()?;
    let served = runtime.block_on(async {
        let end = signals()?;
        serve_until(source, options, opened, end).await
    });
    // A look that hangs does not keep this process.
    runtime.shutdown_background();
    served
}

async fn serve_until(
    source: Arc<dyn Source>,
    options: &Options,
    opened: impl FnOnce(&Opened) -> std::io::Result<()>,
    end: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
    let port = listener.local_addr()?.port();
    let access = Access::new(Instant::now())?;
    let live = Live::start(Arc::clone(&source))?;
    let names = Names::new(port, options.public.as_ref());
    opened(&opening(port, options.public.as_ref(), &access.shown()))?;
    let access = Mutex::new(access);
    let unlocked_at = Mutex::default();
    let app = App { live: Arc::clone(&live), names, access, unlocked_at, acts: options.acts };
    let router = routes::router(Arc::new(app));
    let server = Arc::new(Listener::new(source, options.public.is_some()));
    tokio::select! {
        () = server.serve(listener, router) => (),
        () = end => (),
        () = nobody(|now| live.idle(now)) => (),
    }
    live.end();
    tokio::time::sleep(GOODBYE).await;
    Ok(())
}

/// How the page is opened.
fn opening(port: u16, public: Option<&PublicOrigin>, code: &str) -> Opened {
    let address = match public {
        Some(public) => format!("{}/", public.as_str()),
        None => format!("http://127.0.0.1:{port}/"),
    };
    let line = format!("Open {address}#c={code} within 2 min, or enter {code} there.");
    let qr = public.and_then(|_| qr(&format!("{address}#c={code}")));
    Opened { address, line, qr }
}

/// A QR code of half blocks: light on dark, as terminals are, with the border that cameras need.
fn qr(text: &str) -> Option<String> {
    const BORDER: usize = 2;
    let code = QrCode::new(text).ok()?;
    let (colours, width) = (code.to_colors(), code.width());
    let is_light = |x: usize, y: usize| {
        let inside = |at: usize| at.checked_sub(BORDER).filter(|at| *at < width);
        let at = inside(x).zip(inside(y)).map(|(x, y)| y * width + x);
        at.and_then(|at| colours.get(at)).is_none_or(|colour| *colour == Color::Light)
    };
    let size = width + 2 * BORDER;
    let line = |y: usize| -> String {
        let block = |x: usize| match (is_light(x, y), is_light(x, y + 1)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        };
        (0..size).map(block).collect()
    };
    Some((0..size).step_by(2).map(line).collect::<Vec<_>>().join("\n"))
}

/// Ready once a signal asks for the end.
fn signals() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
            _ = hangup.recv() => (),
        }
    })
}

/// Ready once nobody has looked for long. `idle` says for how long nobody has; none while somebody does.
async fn nobody(idle: impl Fn(Instant) -> Option<Duration>) {
    loop {
        match idle(tokio::time::Instant::now().into_std()) {
            Some(idle) if IDLE_MAX <= idle => return,
            Some(idle) => tokio::time::sleep(IDLE_MAX.saturating_sub(idle)).await,
            None => tokio::time::sleep(IDLE_MAX).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // W-01: thirty minutes after the last viewer left, whenever that was.
    #[test]
    fn w_01_it_ends_half_an_hour_after_the_last_viewer() {
        const MINUTE: Duration = Duration::from_secs(60);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        for (left_after, ends_after) in [(0, 30), (10, 40), (50, 80)] {
            let ended = runtime.block_on(async {
                let begun = tokio::time::Instant::now();
                let left_at = begun.into_std() + MINUTE * left_after;
                nobody(|now| now.checked_duration_since(left_at)).await;
                begun.elapsed()
            });
            assert_eq!(ended.as_secs() / 60, ends_after, "left after {left_after} min");
        }
    }

    #[test]
    fn the_line_says_how_the_page_is_opened() {
        let local = opening(41873, None, "K7QF-29XD");
        let line =
            "Open http://127.0.0.1:41873/#c=K7QF-29XD within 2 min, or enter K7QF-29XD there.";
        assert_eq!((local.line.as_str(), local.qr), (line, None));
        let public = PublicOrigin::parse("https://box.tail1234.ts.net").unwrap();
        let away = opening(7447, Some(&public), "K7QF-29XD");
        assert!(
            away.line.starts_with("Open https://box.tail1234.ts.net/#c=K7QF-29XD "),
            "{away:?}"
        );
        // A square of half blocks, with a light border all around.
        let qr = away.qr.unwrap();
        let lines: Vec<&str> = qr.lines().collect();
        let width = lines[0].chars().count();
        assert!(lines.len() == width.div_ceil(2) && 25 <= width, "{qr}");
        assert!(lines.iter().all(|line| line.starts_with("██") && line.ends_with("██")), "{qr}");
        assert!(qr.contains(' ') && lines[0].chars().all(|one| one == '█'), "{qr}");
    }
}
