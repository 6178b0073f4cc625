//! `coord dashboard` and `coordctl dashboard` over real sockets: who may see the page and act on it, and that every other
//! attempt is refused and changes nothing (H-28, W-01, W-03). `browsers` is the same page in real browsers.

mod attacks;
mod browsers;
mod live;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

use coord_host::passphrase::{Passphrase, PassphraseHash};
use coord_tests::coord::{Coordinator, install, programs};
use coord_tests::home::Home;
use coord_tests::process::Running;
use coord_tests::wait::{PATIENCE, wait_until};
use serde_json::{Value, json};

use super::harness::Tmux;

const PASSPHRASE: &str = "violet-anchor-1";

/// A page: where it is, and its code.
pub(super) struct Page {
    at: SocketAddr,
    code: String,
    /// What runs it, unless a pane does.
    process: Option<Running>,
}

/// The code and the port in the line that is printed.
fn printed(text: &str) -> Option<(SocketAddr, String)> {
    let line = text.lines().find(|line| line.starts_with("Open http://127.0.0.1:"))?;
    let (address, rest) = line.strip_prefix("Open http://")?.split_once("/#c=")?;
    let code = rest.split(' ').next()?;
    let expected = format!("Open http://{address}/#c={code} within 2 min, or enter {code} there.");
    assert_eq!(line, expected);
    Some((address.parse().ok()?, code.to_owned()))
}

impl Page {
    /// `coord dashboard`, which needs no terminal.
    #[track_caller]
    fn looks(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(programs().join("coord"));
        command.arg("dashboard").args(arguments).env("COORD_HOME", home.root());
        command.stdin(Stdio::null());
        let process = Running::start(command, &home.tmp(), "dashboard");
        let (at, code) = wait_until("the page is served", || {
            let [out, err] = process.output();
            printed(&out).ok_or_else(|| format!("{out}{err}"))
        });
        Self { at, code, process: Some(process) }
    }

    /// `coordctl dashboard` at a person's terminal.
    #[track_caller]
    fn acts(home: &Home, tmux: &Tmux<'_>) -> Self {
        let file = home.tmp().join("acts");
        let line = format!(
            "COORD_HOME='{}' exec '{}' dashboard >'{}' 2>&1",
            home.root().display(),
            programs().join("coordctl").display(),
            file.display()
        );
        tmux.run(&["new-window", "-d", &line]);
        let (at, code) = wait_until("the page is served", || {
            let said = fs::read_to_string(&file).unwrap_or_default();
            printed(&said).ok_or(said)
        });
        Self { at, code, process: None }
    }

    /// The address with the code.
    fn url(&self) -> String {
        format!("http://{}/#c={}", self.at, self.code)
    }

    #[track_caller]
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.at, PATIENCE).expect("the page takes us");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// What is answered to these bytes, until the connection is closed.
    #[track_caller]
    fn said(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A request that is refused unread may be answered before all of it is sent.
        let _refused_early = stream.write_all(bytes);
        let mut text = Vec::new();
        let _closed = stream.read_to_end(&mut text);
        Answer::of(&String::from_utf8_lossy(&text))
    }

    /// A request as the page itself sends it, with these fields instead of or beside its own; `NAME:` leaves one out.
    #[track_caller]
    fn ask(&self, method: &str, path: &str, fields: &[&str], body: &str) -> Answer {
        self.said(self.request(method, path, fields, body).as_bytes())
    }

    fn request(&self, method: &str, path: &str, fields: &[&str], body: &str) -> String {
        let own = [
            format!("Host: {}", self.at),
            format!("Origin: http://{}", self.at),
            "Sec-Fetch-Site: same-origin".to_owned(),
            "Content-Type: application/json".to_owned(),
            format!("Content-Length: {}", body.len()),
            "Connection: close".to_owned(),
        ];
        let name = |field: &str| field.split(':').next().unwrap_or_default().to_owned();
        let kept = own.iter().filter(|own| !fields.iter().any(|one| name(one) == name(own)));
        let added = fields.iter().filter(|one| !one.ends_with(':')).map(|one| (*one).to_owned());
        let head: String = kept.cloned().chain(added).map(|field| field + "\r\n").collect();
        format!("{method} {path} HTTP/1.1\r\n{head}\r\n{body}")
    }

    /// Trades the code for the token, and returns the field with it.
    #[track_caller]
    fn token(&self) -> String {
        let body = json!({"code": self.code}).to_string();
        let answer = self.ask("POST", "/api/token", &[], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        format!("Coord-Token: {}", answer.json()["token"].as_str().unwrap())
    }

    /// An act, or what would be confirmed.
    #[track_caller]
    fn act(&self, token: &str, dry_run: bool, what: &Value) -> Answer {
        let body = json!({"dry_run": dry_run, "what": what}).to_string();
        self.ask("POST", "/api/act", &[token], &body)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    /// 0 if the connection was closed without one.
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|one| one.parse().ok()).unwrap_or_default();
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    #[track_caller]
    fn json(&self) -> Value {
        // A body in pieces has their lengths between them.
        let begin = self.body.find(['{', '[']).unwrap_or_default();
        let mut all = serde_json::Deserializer::from_str(&self.body[begin..]).into_iter();
        all.next().unwrap_or_else(|| panic!("{self:?}")).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// A home with a coordinator.
fn started() -> (Home, Coordinator) {
    let home = Home::new();
    install(&home);
    let coordinator = Coordinator::start(&home);
    (home, coordinator)
}

/// A terminal and a coordinator where prompts can be answered from elsewhere.
fn answerable(home: &Home) -> (Tmux<'_>, Coordinator) {
    install(home);
    let tmux = Tmux::start(home);
    home.write_config(&format!(
        "[tracking]\nconfig_dirs = ['{}']\ntmux_sockets = ['{}']\n[approvals]\nremote = true\n",
        home.config_dir().display(),
        tmux.socket().display()
    ));
    set_passphrase(home);
    let coordinator = Coordinator::start(home);
    (tmux, coordinator)
}

/// Sets the passphrase, as `coordctl passphrase` does.
fn set_passphrase(home: &Home) {
    let hash = PassphraseHash::of(&Passphrase::new(PASSPHRASE.to_owned())).unwrap();
    hash.write(&home.paths().passphrase()).unwrap();
}
