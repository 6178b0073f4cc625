//! A real NATS server for one test, on a port of its own, with TLS, keys and a store that are gone with it (F-11).

use crate::process::Running;
use crate::wait::{PATIENCE, wait_until};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Who may do what at a server, as its configuration says it.
#[derive(Debug, Clone, Default)]
pub struct Users {
    /// The public key (`U…`) of whoever may do everything.
    pub administrator: String,
    /// Further entries of the list `users`, each in braces.
    pub others: Vec<String>,
}

/// How a server takes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Not encrypted.
    None,
    /// The server shows a certificate.
    Tls,
    /// The server shows a certificate, and demands one.
    MutualTls,
}

/// A server. Dropping it kills it.
#[derive(Debug)]
pub struct NatsServer {
    dir: TempDir,
    running: Option<Running>,
    encryption: Encryption,
    users: Users,
    /// Chosen by the server at its first start.
    port: Option<u16>,
    /// Where it tells of itself; chosen at each start.
    monitor: Option<u16>,
}

impl NatsServer {
    /// Starts one.
    #[track_caller]
    pub fn start(encryption: Encryption, users: Users) -> Self {
        let dir = tempfile::tempdir().expect("a directory for the server");
        certificates(dir.path());
        let mut server = Self { dir, running: None, encryption, users, port: None, monitor: None };
        server.start_again();
        server
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        let scheme = if self.encryption == Encryption::None { "nats" } else { "tls" };
        format!("{scheme}://127.0.0.1:{}", self.port.expect("it has started"))
    }

    /// The certificate of the authority that vouches for the server and for its clients.
    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A certificate for a client, and its key.
    pub fn client_certificate(&self) -> (PathBuf, PathBuf) {
        (self.dir.path().join("client.pem"), self.dir.path().join("client.key"))
    }

    /// What it has logged since it was last started.
    pub fn log(&self) -> String {
        self.running.as_ref().map(|running| running.output().concat()).unwrap_or_default()
    }

    /// What it says of a stream and of its consumers; it must not hang.
    #[track_caller]
    pub fn stream(&self, name: &str) -> Value {
        let said = self.told("/jsz?accounts=1&streams=1&consumers=1");
        let streams = said["account_details"].as_array().into_iter().flatten();
        let mut streams = streams.filter_map(|one| one["stream_detail"].as_array()).flatten();
        let found = streams.find(|stream| stream["name"] == name);
        found.unwrap_or_else(|| panic!("no stream {name}: {said}")).clone()
    }

    /// How many connections it has; it must not hang.
    #[track_caller]
    pub fn connections(&self) -> u64 {
        self.told("/connz")["num_connections"].as_u64().expect("a number")
    }

    /// What it tells of itself.
    #[track_caller]
    fn told(&self, path: &str) -> Value {
        let port = self.monitor.expect("it has started");
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut http = TcpStream::connect_timeout(&place, PATIENCE).expect("it listens");
        let ask = format!("GET {path} HTTP/1.0\r\n\r\n");
        http.write_all(ask.as_bytes()).expect("it takes a request");
        let mut answer = String::new();
        http.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).expect("JSON")
    }

    /// Its process.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("it is running").pid()
    }

    /// Kills it as `kill -9` does.
    #[track_caller]
    pub fn kill(&mut self) {
        self.running.take().expect("it is running").kill();
    }

    /// Makes it hang: its connections stay open, and nothing is answered.
    #[track_caller]
    pub fn hang(&self) {
        self.signal(Signal::STOP);
        // Its threads go on until each has taken notice.
        let pid = self.pid();
        wait_until("every thread of the NATS server has stopped", || {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
            let states = threads.flatten().map(|thread| {
                let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
                stat.rsplit(") ").next().unwrap_or_default().chars().next()
            });
            let states: Vec<Option<char>> = states.collect();
            if states.iter().all(|state| *state == Some('T')) { Ok(()) } else { Err(states) }
        });
    }

    /// Lets it go on after it hung.
    #[track_caller]
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        self.running.as_ref().expect("it is running").signal(signal);
    }

    /// Starts it on the same port, with what its disk holds.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.running.is_none(), "it is running");
        self.configure();
        let mut command = Command::new(program());
        command.arg("--config").arg(self.dir.path().join("server.conf"));
        let running = Running::start(command, self.dir.path(), "nats-server");
        let ports = self.dir.path().join(format!("nats-server_{}.ports", running.pid()));
        let (port, monitor) = wait_until("the NATS server listens", || {
            assert!(!running.has_ended(), "the NATS server ended: {}", running.output().concat());
            let text = fs::read_to_string(&ports).map_err(|error| error.to_string())?;
            listening(&text, "nats").zip(listening(&text, "monitoring")).ok_or(text)
        });
        fs::remove_file(&ports).expect("remove the file with its port");
        (self.port, self.monitor) = (Some(port), Some(monitor));
        self.running = Some(running);
    }

    /// Makes it lose everything: kills it, empties its disk, and starts it.
    #[track_caller]
    pub fn wipe(&mut self) {
        if self.running.is_some() {
            self.kill();
        }
        fs::remove_dir_all(self.dir.path().join("store")).expect("remove its store");
        self.start_again();
    }

    /// Lets other users in, and drops the connections of those that are not among them.
    #[track_caller]
    pub fn set_users(&mut self, users: Users) {
        self.users = users;
        self.configure();
        let reloads = |server: &Self| server.log().matches("Reloaded server configuration").count();
        let before = reloads(self);
        self.signal(Signal::HUP);
        wait_until("the NATS server reloads its configuration", || {
            if before < reloads(self) { Ok(()) } else { Err(self.log()) }
        });
    }

    fn configure(&self) {
        let dir = self.dir.path().display();
        // Port -1 is any that is free.
        let port = self.port.map_or(-1, i32::from);
        let mut text = format!(
            "listen: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:-1\"\nports_file_dir: \"{dir}\"\n\
             jetstream {{ store_dir: \"{dir}/store\", max_file_store: 10GB, max_memory_store: 64MB }}\n"
        );
        if self.encryption != Encryption::None {
            let verify = self.encryption == Encryption::MutualTls;
            _ = writeln!(
                text,
                "tls {{ cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\", \
                 ca_file: \"{dir}/ca.pem\", verify: {verify} }}"
            );
        }
        let Users { administrator, others } = &self.users;
        let others = others.join("\n");
        _ = writeln!(
            text,
            "authorization {{\nusers: [\n{{ nkey: \"{administrator}\" }}\n{others}\n]\n}}"
        );
        fs::write(self.dir.path().join("server.conf"), text).expect("write its configuration");
    }
}

/// The program of the server: the one that `COORD_TEST_NATS` names, or `nats-server`.
fn program() -> OsString {
    let named = std::env::var_os("COORD_TEST_NATS").filter(|path| !path.is_empty());
    let program = named.unwrap_or_else(|| "nats-server".into());
    let runs = Command::new(&program).arg("--version").output();
    let runs = runs.is_ok_and(|output| output.status.success());
    assert!(runs, "{} does not run; tests/install-nats brings nats-server", program.display());
    program
}

/// The port for this purpose that a server wrote down; none while it is still writing.
fn listening(text: &str, purpose: &str) -> Option<u16> {
    let ports: Value = serde_json::from_str(text).ok()?;
    let url = ports.get(purpose)?.get(0)?.as_str()?;
    url.rsplit(':').next()?.parse().ok()
}

/// An authority, and certificates that it signed: one of the server and one of a client.
fn certificates(dir: &Path) {
    let write = |name: &str, text: String| {
        fs::write(dir.join(name), text).expect("write a certificate or a key");
    };
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority of a test");
    write("ca.pem", params.self_signed(&key).expect("signed by itself").pem());
    let issuer = Issuer::new(params, key);
    for (name, of) in [("server", "127.0.0.1"), ("client", "client.example")] {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![of.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, of);
        let certificate = params.signed_by(&key, &issuer).expect("signed");
        write(&format!("{name}.pem"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}
