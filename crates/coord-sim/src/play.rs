//! `coord-sim play`: plays scenario files and prints what happened. Decides nothing but the exit
//! code.

mod client;
mod clock;
mod compare;
mod doings;
mod launch;
mod messages;
mod player;
mod run;

use std::fmt::Display;
use std::io::{Read, Write};
use std::process::ExitCode;

use clap::Args;

pub use player::{Played, Sampled, play, play_and_sample};

const HELP: &str = r#"A scenario is a JSON file: what the client does, step by step, and what must hold. The real
coordinator runs on a simulated machine, in simulated time; nothing outside is touched.

  {"schema": 1, "name": "an interrupt", "proves": ["R-01"], "why": "no hook tells of one",
   "steps": [
    {"at": 0, "start": {"session": "s1", "pid": 100, "pane": "%1"}},
    {"at": 0.1, "hook": {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"}},
    {"at": 5, "hook": {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt_id": "p1"}},
    {"at": 5.1, "registry": {"pid": 100, "status": "busy"}},
    {"at": 8, "registry": {"pid": 100, "status": "idle"}},
    {"at": 8.1, "expect": {"session": "s1", "state": "idle"}}]}

Run it:  coord-sim play interrupt.json
         coord-sim play tests/scenarios/*.json
         coord-sim play - < interrupt.json

Optional: "proves" (ids of requirements) and "why" (what would be wrong without it), for readers;
"config" (keys of config.toml); "world" (see below).
Steps, with "at" in seconds, in order; steps of one time happen one after another:
  start        session, pid, pane, argv; unattended: true (marked so as soon as it is known);
               parent: shell, tmux (it is its pane's first process), "inner shell", or the name of
               what else started it; unfit: why its command line cannot be used again; tmux_pane:
               what TMUX_PANE says, if not the pane whose terminal it has; without a pane it is a
               headless run, with terminal: true one outside tmux; provider: another one than claude
               fires no hook; tool_of: no harness, but a tool of the one with this pid
  hook         the payload. Beside it: "pid" (whose, where the session is new to it), "emitted_at"
               (it fired then and arrives now), "id" (the same word: the same event once more),
               "forged": true (not sent by a child of the harness)
  registry     an entry; what it leaves out is filled in. null removes it ("pid" beside it)
  pane         pane, text; front: harness, shell (over a living harness: Ctrl-Z), child, editor;
               key: true (a client's key comes to it); mode, synchronized, kept: true or false;
               line: what is typed behind its shell's prompt; prompt: that prompt, empty: none that
               is known as one; closed: true; respawned: true (its first process is another one)
  transcript   a line with its sessionId
  file         path, text: a file of a task directory (.auto-signal, .auto-stop); null removes it
  exit         pid; signal or code. The tmux server is pid 90, its successors 91, 92, …
  run          a headless run begins: run (its name), pid, provider: claude, other; resume: true;
               ends_daemons: true
  stream, eof  run; line: what it prints, as JSON or as a text; eof: its output is at its end
  stderr       run, text
  tree         run; processes: what lives beside its own process from now on, each with pid, parent,
               group, session (its own where they are left out), role: plain, harness, mcp,
               terminals, coordinator; holds_output: true; cpu: hundredths of a core that it uses;
               unreadable: true
  forward      run, signal: a signal from outside is passed on to it
  command      what coordctl is told: hold (for: seconds), release, recover, reset_failed, attend
               (unattended, recover, answers: true or false; name, parent, task_dir, accept), each with
               a session, "--all" or a directory where coordctl takes one; restore with a list of
               sessions. Or a message: send (to which session), text, name (what the file calls it),
               from: operator, program:NAME, or a session; key, ttl (seconds), urgent: true
  coordinator  "kill" (SIGKILL), "stop" (SIGTERM), "start"; it runs when the scenario begins
  config_file  "wrong" (it is saved with an error), "right" (as it was at the start)
  clock        jump: the wall clock is set, or the machine slept so many seconds
  boot         {}; lost_power: true loses what was not synced. The coordinator stays down
  disk         fail: the n-th operation on its disk from now on fails; sync: fails or works (runs
               can write down nothing while it fails); room: none, little
               or plenty; pace: slow or normal
  world        the words of "world", from now on
  expect       session and fields of its `coord inspect --json` object, or absent: true. Of an
               object the named fields count, of a list the named items; an empty list is empty.
               Or run and fields of: state, hold (reason, remaining: seconds), session_id, results,
               background, spared (pids), exit_reason, status, outcome. Or message (its name) and
               fields of `coord queue show --json`; or inbox (a session), totals and messages
  expect_needs sessions, each with the kinds of all its open needs, the oldest first:
               {"s1": ["permission"], "s2": []}
  expect_effects, forbid_effects
               since the last such step, in this order; what was carried out: signal (signal, pid),
               type_text, respawn_pane, new_window (pane, text), spawn (the client that the line
               became: pid, text), notify (pane, text), answer_hook (a hook was
               answered with a text for its agent: session, event, text; or, with no event, the wake
               hook of an interactive client, which waits from its SessionStart, Stop or StopFailure
               on. The client writes it to its transcript 0.2 s later; what it does then are steps); of runs signal (signal, pids), record
               (reason, quarantine, kept) and note (name, warning, text), each with run; write_file, remove_file (path, text: the
               .auto-stop of a task directory), and the looks: capture_pane
World: registry present, absent; client_keys_age: so many seconds ago came the newest key of a
client of tmux (without it there never was a client); front as of every pane; draft: what stands
in the clients' input lines; dialog none, permission, question (on the clients there are), trust
(on a resumed one); terminates_on TERM, KILL; resume works, fails, no_session, other_id, silent:
what becomes of a client that resumes a session; they have the pids 3000001, 3000002, …; clients
hang, run (the main threads of those there are); tmux answers, hangs; enter sent, lost (behind a
typed line); coordctl plain, odd (its path); want: what the machine is short of; gone:
["directory", "program"]; locked: sessions whose transcripts another process has locked;
config_dir free, locked (by another coordinator).
Output: {"t", "session", "state", "because"}, {"t", "session", "rule", "saw", "did"} and
{"t", "effect"}; with several files {"file"} before each.
Exit codes: 0 all held, 1 an expectation did not hold, 2 a file cannot be played."#;

/// Play scenario files and print what happened, as lines of JSON
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Play {
    /// Scenario files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

impl Play {
    /// Plays them all. 0 if every expectation held, 1 if one did not, 2 if a file cannot be played.
    pub fn run(&self) -> ExitCode {
        let mut worst = 0;
        let mut out = std::io::stdout().lock();
        for file in &self.files {
            let (lines, code, why) = self.play(file);
            worst = worst.max(code);
            let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
            // Who closed the pipe wants no more lines; the exit code still counts.
            drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
            if let Some(why) = why {
                drop(writeln!(std::io::stderr(), "{}", plain(&format!("{file}: {why}"))));
            }
        }
        ExitCode::from(worst)
    }

    fn play(&self, file: &str) -> (Vec<String>, u8, Option<String>) {
        let text = match read(file) {
            Ok(text) => text,
            Err(error) => return (Vec::new(), 2, Some(error.to_string())),
        };
        let Played { mut lines, end } = play(&text);
        if 1 < self.files.len() {
            lines.insert(0, serde_json::json!({ "file": file }).to_string());
        }
        match end {
            Ok(None) => (lines, 0, None),
            Ok(Some(failed)) => (lines, 1, Some(failed)),
            Err(error) => (lines, 2, Some(format!("{error:#}"))),
        }
    }
}

fn read(file: &str) -> std::io::Result<String> {
    if file != "-" {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// One line without anything that a terminal obeys: the words come from a file.
fn plain(text: &impl Display) -> String {
    let shown = |c: char| match c {
        '"' | '\'' | '\\' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    text.to_string().chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_in_the_help_holds() {
        let (_, example) = HELP.split_once("\n\n").unwrap();
        let (example, _) = example.split_once("\n\n").unwrap();
        assert!(matches!(play(example).end, Ok(None)), "{example}");
    }
}
