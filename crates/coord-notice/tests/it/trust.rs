//! Certificates, and where secrets may be.

use crate::command::script;
use crate::sender::{LINE, Sent, directory, notice, request, send, tell, text};
use crate::server::{Server, http, webhook};
use coord_tests::wait::wait_until;
use coord_wire::notice::{Channel, Notice, Secret, Shape, Webhook};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A certificate authority, and the configuration of a server that it vouches for.
fn authority(names: &[&str], change: fn(&mut CertificateParams)) -> (String, Arc<ServerConfig>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    let certificate = params.signed_by(&key, &issuer).unwrap();
    (pem, served(&certificate, &key))
}

fn served(certificate: &Certificate, key: &KeyPair) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    Arc::new(config)
}

fn told(webhook: Webhook) -> Sent {
    send(&request(Channel::Webhook(webhook), tell(notice(), LINE, None)))
}

/// A server with this configuration that would take a notice, and the webhook that leads there.
fn secure(config: Arc<ServerConfig>) -> (Server, Webhook) {
    let replies = std::iter::repeat_n(http("200 OK", "ok"), 4);
    let server = Server::start_with(replies, Some(config));
    let hook = webhook(Shape::Slack, &format!("https://127.0.0.1:{}/canary", server.port));
    (server, hook)
}

fn written(dir: &Path, name: &str, pem: &str) -> String {
    let file = dir.join(name);
    fs::write(&file, pem).unwrap();
    text(&file)
}

// N-02
#[test]
fn a_certificate_is_verified() {
    let dir = directory();
    let (pem, config) = authority(&["127.0.0.1"], |_| ());
    let (server, hook) = secure(config);
    let answer =
        told(Webhook { ca_file: Some(written(dir.path(), "ca", &pem)), ..hook.clone() }).sent();
    assert_eq!(answer.saying, "HTTP 200 from 127.0.0.1");
    let (other, _) = authority(&[], |_| ());
    for ca_file in [None, Some(written(dir.path(), "other", &other))] {
        let answer = told(Webhook { ca_file, ..hook.clone() }).failed();
        let expected = ("127.0.0.1: certificate not trusted", 1);
        assert_eq!((answer.saying.as_str(), answer.tries), expected);
    }
    assert_eq!(server.requests().len(), 1, "nothing was sent to the others");
}

#[test]
fn what_is_wrong_with_a_certificate_is_said() {
    let dir = directory();
    let refused = |pem: &str, config| {
        let (server, hook) = secure(config);
        let hook = Webhook { ca_file: Some(written(dir.path(), "ca", pem)), ..hook };
        let answer = told(hook).never_says("canary").failed();
        assert!(server.requests().is_empty());
        assert_eq!(answer.tries, 1);
        answer.saying
    };
    let (pem, config) = authority(&["example.org"], |_| ());
    assert_eq!(refused(&pem, config), "127.0.0.1: certificate is for another host");
    let (pem, config) =
        authority(&["127.0.0.1"], |params| params.not_after = date_time_ymd(2020, 1, 1));
    assert_eq!(refused(&pem, config), "127.0.0.1: certificate expired");
    // One that vouches for itself is taken, unless it says that it is an authority.
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let own = params.self_signed(&key).unwrap();
    let (_server, hook) = secure(served(&own, &key));
    told(Webhook { ca_file: Some(written(dir.path(), "own", &own.pem())), ..hook }).sent();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = params.self_signed(&key).unwrap();
    let why = refused(&own.pem(), served(&own, &key));
    assert!(why.contains("is that of an authority"), "{why}");
}

#[test]
fn a_server_without_tls_gets_nothing() {
    let plain = Server::start([http("200 OK", "ok")]);
    let hook = webhook(Shape::Slack, &format!("https://127.0.0.1:{}/canary", plain.port));
    told(hook).never_says("canary").failed();
    assert!(plain.requests().is_empty());
}

#[test]
fn a_file_of_certificates_holds_some() {
    let dir = directory();
    let file = dir.path().join("ca.pem");
    let told = || {
        told(Webhook {
            ca_file: Some(text(&file)),
            ..webhook(Shape::Slack, "https://127.0.0.1:1/")
        })
    };
    let answer = told().failed();
    assert!(answer.is_refused && answer.saying.ends_with("ca.pem: entity not found"), "{answer:?}");
    for content in ["", "canary", "-----BEGIN CERTIFICATE-----\ncanary"] {
        fs::write(&file, content).unwrap();
        let sent = told();
        let answer = sent.never_says("canary").failed();
        assert!(answer.saying.ends_with("holds no certificate in PEM"), "{answer:?}");
    }
}

fn secret_file(dir: &Path, name: &str, secret: &str, mode: u32) -> PathBuf {
    let file = dir.join(name);
    fs::write(&file, format!("{secret}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    file
}

// N-02: secrets come from files and programs.
#[test]
fn addresses_and_tokens_come_from_files_and_programs() {
    let dir = directory();
    let server = Server::start([http("200 OK", ""), http("403 Forbidden", "canary")]);
    let file = secret_file(dir.path(), "hook", &server.url("/canary"), 0o600);
    let program = script(dir.path(), "token", "printf 'tk_canary\\nsecond'");
    let hook = Webhook {
        url: Secret::File(text(&file)),
        token: Some(Secret::Command(vec![text(&program)])),
        ..webhook(Shape::Generic, "")
    };
    told(hook.clone()).never_says("canary").sent();
    let request = server.request();
    assert_eq!(request.line, "POST /canary");
    assert!(request.head.contains("authorization: bearer tk_canary\r\n"), "{request:?}");
    let answer = told(hook.clone()).never_says("canary").failed();
    assert_eq!(answer.saying, "HTTP 403 from 127.0.0.1");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let answer = told(hook.clone()).never_says("canary").failed();
    let expected = format!("{}: readable by others (mode 644); chmod 600 it", file.display());
    assert_eq!((answer.saying, answer.is_refused, answer.tries), (expected, true, 0));
    let broken = script(dir.path(), "broken", "echo tk_canary; echo tk_canary >&2; exit 1");
    let token = Some(Secret::Command(vec![text(&broken)]));
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let answer = told(Webhook { token, ..hook }).never_says("canary").failed();
    assert!(!answer.is_refused && answer.saying.contains("exit status: 1"), "{answer:?}");
}

/// Has a child record what others can read of it, and of the program that started it.
const SPY: &str = "for pid in $$ $PPID; do cat /proc/$pid/cmdline /proc/$pid/environ; done >> ";

// N-02, N-05: neither a secret nor a text is where other users or programs see it.
#[test]
fn nothing_secret_is_in_an_argument_or_an_environment() {
    let dir = directory();
    let seen = dir.path().join("seen");
    let spy = |name: &str, then: &str| {
        text(&script(dir.path(), name, &format!("{SPY}'{}'; {then}", seen.display())))
    };
    let server = Server::start([http("200 OK", "")]);
    let file = secret_file(dir.path(), "hook", &server.url("/url-canary"), 0o600);
    let hook = Webhook {
        url: Secret::File(text(&file)),
        token: Some(Secret::Command(vec![spy("token", "echo token-canary")])),
        ..webhook(Shape::Generic, "")
    };
    let inner = crate::terminal::Server::start();
    let tmux = spy("tmux", &format!("exec {} \"$@\"", crate::sender::program("tmux")));
    let channels = [
        Channel::Webhook(hook),
        Channel::Command { program: spy("command", "cat >/dev/null") },
        Channel::Tmux { program: tmux, sockets: vec![inner.socket()], bell: false },
    ];
    for channel in channels {
        let told = Notice { text: "prompt-canary".to_owned(), ..notice() };
        let sent = send(&request(channel, tell(told, "coord: prompt-canary", None)));
        sent.answer();
        sent.never_says("canary");
    }
    let seen = wait_until("they were seen", || fs::read(&seen));
    let seen = String::from_utf8_lossy(&seen);
    for child in ["token", "command", "tmux"] {
        assert!(seen.contains(&text(&dir.path().join(child))), "{child} was not seen: {seen:?}");
    }
    assert!(seen.contains("coord-notice-send"), "{seen:?}");
    assert!(!seen.contains("canary"), "{seen:?}");
}
