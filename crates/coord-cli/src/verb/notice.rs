//! `coord notice test [CHANNEL]`: sends a notice through the configured channels, and prints what each answered
//! (N-06). It needs no coordinator.

use std::io::Write;

use anyhow::anyhow;
use coord_config::{ChannelConfig, Config};
use coord_host::notices::{self, Programs};
use coord_host::registry::Readable;
use coord_view::lookup::nearest;
use coord_view::notice::{Words, test};
use coord_wire::api::InstallRecord;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use coord_wire::notice::{SendAct, SendAnswer, SendRequest};
use serde::Serialize;

use crate::context::Context;
use crate::out::{Colour, Failure, Painter, escape, print_json};
use crate::verb::inspect::look;

/// How long a channel may take, milliseconds.
const WITHIN_MS: u64 = 10_000;

/// Test the channels through which coord tells you that a session needs you
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord notice test          every channel of config.toml\n  coord notice test phone    only this one\n\nExit code 1: a channel did not send the notice; its line says why."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Send a notice through each channel, and print what it answered
    Test {
        /// Only this channel
        channel: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What a channel answered.
#[derive(Debug, Serialize)]
struct Tested {
    channel: String,
    is_sent: bool,
    is_nobody_there: bool,
    saying: String,
    tries: u32,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let What::Test { channel, json } = &args.what;
    let file = context.paths.config_file();
    let config = Config::load(&file).map_err(|error| anyhow!("{}: {error}", file.display()))?;
    let programs = programs(&config, context);
    let channels = chosen(&config, channel.as_deref())?;
    let sockets = sockets(context);
    let width = channels.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let mut out = std::io::stdout().lock();
    let mut all = Vec::new();
    for channel in &channels {
        let request = programs.complete(request(channel, &sockets, context));
        let answer = notices::run(programs.sender.as_deref(), &request);
        let SendAnswer { is_sent, is_nobody_there, saying, tries, .. } = answer;
        let tested =
            Tested { channel: channel.name.clone(), is_sent, is_nobody_there, saying, tries };
        if !json {
            print(&mut out, &tested, width)?;
        }
        all.push(tested);
    }
    if *json {
        print_json(&mut out, &serde_json::json!({"schema": 1, "channels": all}))?;
    }
    if all.iter().all(|one| one.is_sent) { Ok(()) } else { Err(Failure::Told) }
}

fn print(out: &mut impl Write, tested: &Tested, width: usize) -> std::io::Result<()> {
    let painter = Painter::for_stdout();
    let Tested { channel, is_sent, saying, tries, .. } = tested;
    let saying = escape(saying);
    let words = match (is_sent, tries) {
        (true, _) => painter.paint(Colour::Green, &saying),
        (false, _) if tested.is_nobody_there => format!("not shown: {saying}"),
        (false, 0 | 1) => painter.paint(Colour::Red, &format!("failed: {saying}")),
        (false, n) => painter.paint(Colour::Red, &format!("failed: {saying}, {n} tries")),
    };
    writeln!(out, "{channel:width$}  {words}")
}

fn chosen(config: &Config, wanted: Option<&str>) -> Result<Vec<ChannelConfig>, Failure> {
    let all = config.channels();
    let Some(wanted) = wanted else { return Ok(all) };
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    if !names.contains(&wanted) {
        let remedy = match nearest(wanted, names) {
            Some(meant) => format!("Did you mean {meant}?"),
            None => "→ coord config show notice.channel".to_owned(),
        };
        return Err(anyhow!("No channel {wanted:?}. {remedy}").into());
    }
    Ok(all.into_iter().filter(|one| one.name == wanted).collect())
}

fn request(channel: &ChannelConfig, sockets: &[String], context: &Context) -> SendRequest {
    let Words { notice, line } = test(&context.here.host);
    let act = SendAct::Tell { notice: Box::new(notice), line, handle: None };
    SendRequest { channel: channel.channel(sockets.to_vec()), act, within_ms: WITHIN_MS }
}

/// The tmux servers of the known sessions, and the one that this is run in.
fn sockets(context: &Context) -> Vec<String> {
    let own = std::env::var("TMUX").ok();
    let own = own.and_then(|tmux| tmux.split(',').next().map(str::to_owned));
    let sessions = look(None, context).map(|looked| looked.answer.sessions).unwrap_or_default();
    let known = sessions.into_iter().filter_map(|session| session.tmux.map(|pane| pane.socket));
    own.into_iter().filter(|socket| !socket.is_empty()).chain(known).collect()
}

/// The programs that channels use.
pub(crate) fn programs(config: &Config, context: &Context) -> Programs {
    let recorded =
        coord_store::read_small_file(&context.paths.install_record(), SMALL_FILE_BYTES_MAX);
    let recorded: Option<InstallRecord> =
        recorded.ok().and_then(|text| serde_json::from_slice(&text).ok());
    let named = config.tracking.tmux_sockets.0.clone();
    let readable = Readable { root: context.root.clone(), named };
    Programs::find(std::env::current_exe(), recorded, &config.tracking.tmux.0, readable)
}
