//! Permission prompts of the real client that are answered from elsewhere than their terminal (A-01 to A-07, H-23, H-38).

use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_tests::wait::wait_until;
use serde_json::Value;
use std::path::Path;

use crate::notices::recorder;
use crate::request_place::dismiss;

/// On the screen while the dialog is open.
pub(crate) const DIALOG: &str = "Do you want to proceed?";
/// What the hook's process is called.
const HOOK: &[u8] = b"coord-hook-permission-request";

/// A client whose dialog is open, and beside which a hook waits.
pub(crate) fn asked(turns: impl IntoIterator<Item = Turn>) -> Place {
    let place = started(&MANUAL, turns);
    place.prompt("Make it.");
    place.pane.wait_screen(DIALOG);
    place
}

/// A client whose prompts can be answered from elsewhere.
pub(crate) fn started(arguments: &[&str], turns: impl IntoIterator<Item = Turn>) -> Place {
    let mut place = prepared("", turns);
    place.pid = place.pane.start(arguments);
    place.learn_id();
    place
}

/// Where prompts can be answered from elsewhere. `approvals` are further lines for that table of the configuration.
pub(crate) fn prepared(approvals: &str, turns: impl IntoIterator<Item = Turn>) -> Place {
    let mut place = Place::open("", turns);
    let config = std::fs::read_to_string(place.home.paths().config_file()).expect("its config");
    let (program, _) = recorder(&place.home);
    place.home.write_config(&format!(
        "{config}[approvals]\nremote = true\n{approvals}\n[notice]\ndelays = {{}}\n\
         [notice.channel.brief]\nvia = 'command'\nprogram = '{program}'\n\
         [notice.channel.whole]\nvia = 'command'\nprogram = '{program}'\ndetail = 'input'\n",
        program = program.display()
    ));
    place.unlock();
    place
}

/// The open request, once it can be answered.
pub(crate) fn request(place: &mut Place) -> Value {
    wait_until("a request that can be answered", || {
        let text = place.runs("coordctl", &["requests", "--json"]);
        let json = text.lines().next().unwrap_or_default();
        let all: Value = serde_json::from_str(json).map_err(|_| text.clone())?;
        let first = all["requests"][0].clone();
        if first["hook"].is_object() && first["why_not"].is_null() { Ok(first) } else { Err(text) }
    })
}

/// The hooks of permission requests that wait below the client.
pub(crate) fn hooks(place: &Place) -> usize {
    let children = std::fs::read_dir("/proc").expect("the process table").flatten();
    let is_hook = |pid: &str| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let line = read("cmdline");
        let root = place.home.root().to_string_lossy().into_owned().into_bytes();
        let has = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
        has(HOOK) && has(&root)
    };
    children.filter(|entry| entry.file_name().to_str().is_some_and(is_hook)).count()
}

/// Presses Enter until the dialog is gone: the client ignores keys for a moment after a dialog appears.
pub(crate) fn answer_at_the_terminal(place: &Place) {
    wait_until("the dialog is answered", || {
        let screen = place.pane.screen();
        if screen.contains(DIALOG) {
            place.pane.keys(&["Enter"]);
            return Err(screen);
        }
        Ok(())
    });
}

/// Whether any file of coord's, below its state and run directories, has these words.
pub(crate) fn is_stored(place: &Place, words: &str) -> bool {
    fn any(dir: &Path, words: &[u8]) -> bool {
        std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                return any(&path, words);
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            bytes.windows(words.len()).any(|part| part == words)
        })
    }
    let paths = place.home.paths();
    [paths.state.clone(), paths.run.clone()].iter().any(|dir| any(dir, words.as_bytes()))
}

// shown whole, allowed once, and proved by the client's own note.
pub(crate) fn a_request_is_approved_from_elsewhere() {
    let mut place = asked([Turn::bash("touch made-from-afar"), Turn::text("Made it.").lasting()]);
    let request = request(&mut place);
    assert_eq!(request["input"]["command"], "touch made-from-afar");
    let id = request["id"].as_str().expect("its id").to_owned();
    // another terminal is locked, and nothing is sent from there without the passphrase.
    let (locked, program) =
        (place.terminal.pane(), coord_tests::coord::programs().join("coordctl"));
    let root = place.home.root();
    locked.command(&format!("{} --root {} approve {id} --yes", program.display(), root.display()));
    locked.wait_screen("Passphrase:");
    locked.type_text("a wrong one");
    locked.keys(&["Enter"]);
    locked.wait_screen("Wrong passphrase; nothing was sent.");
    place.pane.wait_screen(DIALOG);
    let listed = place.runs("coordctl", &["requests"]);
    assert!(listed.contains("        touch made-from-afar\n"), "{listed}");
    assert!(listed.contains(&format!("→ coordctl approve {id}")), "{listed}");
    // U-03: what bash asks for on Tab, by the script that `coordctl completions bash` prints.
    let asks = format!(
        "COORD_COMPLETE=bash _CLAP_COMPLETE_INDEX=2 COORD_HOME={} {} -- coordctl approve r_",
        root.display(),
        program.display()
    );
    let order = place.begins_line(&asks);
    assert_eq!(place.ends(&order), format!("{id}code 0\n"));
    let said = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(said.contains("Taken: the client allowed Bash.\ncode 0"), "{said}");
    place.when_at_rest();
    assert!(place.home.project().join("made-from-afar").exists());
    // The client shows this, and not the hook's `systemMessage` (measured, 2.1.328).
    let screen = place.pane.screen();
    assert!(screen.contains("Allowed by PermissionRequest hook"), "{screen}");
    // H-22
    wait_until("the reply is told", || {
        let log = std::fs::read_to_string(place.home.tmp().join("told")).unwrap_or_default();
        let told = log.contains("project got an answer from coordctl: Bash allowed");
        if told { Ok(()) } else { Err(log) }
    });
    // H-23: a reply is for one hook: nothing is left to decide.
    let again = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(again.contains("No open request") && again.contains("code 3"), "{again}");
    // who was told, who decided, from where, and what the transcript proved.
    let explained = place.runs("coord", &["explain", &id]);
    for expected in [
        "begins: a person is needed",
        "a person replied with coordctl on /dev/pts/",
        "the transcript has the client's own note",
        "is over",
    ] {
        assert!(explained.contains(expected), "{expected}: {explained}");
    }
    assert!(is_stored(&place, &format!("approve {id}")), "the decision is recorded");
    assert!(!is_stored(&place, "made-from-afar"), "the input is not");
}

// H-50: where the passphrase is for all, no order is taken from a terminal on which it was not given.
pub(crate) fn a_request_and_every_order_need_the_passphrase() {
    let mut place = prepared("passphrase_for = 'all'", []);
    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    let (locked, program) =
        (place.terminal.pane(), coord_tests::coord::programs().join("coordctl"));
    let root = place.home.root();
    locked.command(&format!("{} --root {} hold --all", program.display(), root.display()));
    locked.wait_screen("Passphrase:");
    locked.type_text("a wrong one");
    locked.keys(&["Enter"]);
    locked.wait_screen("Wrong passphrase; nothing was sent.");
    assert!(place.when("it", |_| true).hold.is_none());
    let dry = place.order(&["hold", "--all", "--dry-run"]);
    assert!(dry.contains("Dry run: nothing was changed."), "{dry}");
    // The pane in which orders are given is unlocked; a wrong try delays only further tries.
    let held = place.order(&["hold", "--all"]);
    assert!(held.contains("code 0"), "{held}");
    place.when("its hold", |session| session.hold.is_some());
}

// a key of `coordctl top` runs the verb at its own terminal, and goes back to the list.
pub(crate) fn a_request_is_approved_in_top() {
    let mut place = asked([Turn::bash("touch made-from-top"), Turn::text("Made it.").lasting()]);
    request(&mut place);
    let (top, program) = (place.terminal.pane(), coord_tests::coord::programs().join("coordctl"));
    top.command(&format!("{} --root {} top", program.display(), place.home.root().display()));
    top.wait_screen("→ coordctl approve");
    top.keys(&["a"]);
    top.wait_screen("    touch made-from-top");
    top.wait_screen("Allow this one call? [y/N]");
    top.type_text("y");
    top.keys(&["Enter"]);
    top.wait_screen("Passphrase:");
    top.type_text("correct horse battery");
    top.keys(&["Enter"]);
    top.wait_screen("Taken: the client allowed Bash.");
    top.wait_screen("Enter goes back to the list.");
    place.when_at_rest();
    assert!(place.home.project().join("made-from-top").exists());
    top.keys(&["Enter"]);
    top.wait_screen("1 idle");
    // What is typed there is for the list again.
    top.keys(&["?"]);
    top.wait_screen("answer (in coordctl top)");
}

// a denial is read by the agent, and its turn goes on.
pub(crate) fn a_request_is_denied_with_a_message() {
    let mut place = asked([Turn::bash("touch made-from-afar"), Turn::text("Then not.").lasting()]);
    let request = request(&mut place);
    let id = request["id"].as_str().expect("its id").to_owned();
    // N-05: the input is told through the channel that is to tell it, and through no other.
    let texts = wait_until("both channels tell", || {
        let log = std::fs::read_to_string(place.home.tmp().join("told")).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut texts: Vec<String> =
            lines.filter_map(|line| Some(line["text"].as_str()?.to_owned())).collect();
        texts.sort();
        if texts.len() == 2 { Ok(texts) } else { Err(log) }
    });
    assert!(texts[0].ends_with(" asks to run Bash"), "{texts:?}");
    assert!(texts[1].ends_with(" asks to run Bash: touch made-from-afar"), "{texts:?}");
    let words = ["deny", &id, "--message", "'not in production'", "--yes"];
    let said = place.runs("coordctl", &words);
    assert!(
        said.contains("Taken: the client denied Bash and passed on your message.\ncode 0"),
        "{said}"
    );
    place.when_at_rest();
    assert!(!place.home.project().join("made-from-afar").exists());
    place.when_written("not in production");
    assert!(!is_stored(&place, "not in production") && !is_stored(&place, "made-from-afar"));
}

// the terminal answers at once; the hook then ends, and a late reply finds nothing.
pub(crate) fn a_request_is_answered_at_the_terminal() {
    let mut place = asked([Turn::bash("touch made-there"), Turn::text("Made it.").lasting()]);
    let request = request(&mut place);
    let id = request["id"].as_str().expect("its id").to_owned();
    assert_eq!(hooks(&place), 1);
    answer_at_the_terminal(&place);
    wait_until("the hook ends", || if hooks(&place) == 0 { Ok(()) } else { Err("it waits") });
    let late = place.runs("coordctl", &["deny", &id, "--yes"]);
    assert!(late.contains("No open request") && late.contains("code 3"), "{late}");
    place.when_at_rest();
    assert!(place.home.project().join("made-there").exists());
}

// Esc ends the turn and the hook, and decides nothing else.
pub(crate) fn a_request_that_is_interrupted() {
    let mut place = asked([Turn::bash("touch never-made"), Turn::text("Made it.").lasting()]);
    let request = request(&mut place);
    let need = request["need"].as_str().expect("its need").to_owned();
    dismiss(&place);
    wait_until("the hook ends", || if hooks(&place) == 0 { Ok(()) } else { Err("it waits") });
    place.when("the end of its turn", |session| session.needs.is_empty());
    let late = place.runs("coordctl", &["approve", &need, "--yes"]);
    assert!(late.contains("No open request") && late.contains("code 3"), "{late}");
    assert!(!place.home.project().join("never-made").exists());
}

// no hook outlives its coordinator, and the dialog is as it was.
pub(crate) fn a_request_whose_coordinator_is_killed() {
    let mut place = asked([Turn::bash("touch made-there"), Turn::text("Made it.").lasting()]);
    request(&mut place);
    assert_eq!(hooks(&place), 1);
    drop(place.coordinator.take());
    wait_until("the hook ends", || if hooks(&place) == 0 { Ok(()) } else { Err("it waits") });
    place.pane.wait_screen(DIALOG);
    answer_at_the_terminal(&place);
    place.pane.wait_screen("Made it.");
    assert!(place.home.project().join("made-there").exists());
}
