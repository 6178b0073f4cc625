//! Who gets a connection, and who does not (F-07, F-11).

use crate::fleet::Fleet;
use coord_fleet::EngineError;
use coord_model::MachineId;
use coord_relay::login::Login;
use coord_relay::{Connection, Settings};
use coord_tests::nats::{Encryption, NatsServer, Users};

#[track_caller]
fn refused(fleet: &Fleet, settings: &Settings) -> EngineError {
    fleet.run(Connection::open(settings, MachineId(1))).map(|_| ()).expect_err("it is refused")
}

#[test]
fn f_07_an_unknown_login_is_refused() {
    let fleet = Fleet::bare(1);
    let unknown = Login::new().unwrap();
    let error = refused(&fleet, &fleet.settings(&unknown));
    assert!(matches!(&error, EngineError::Other(why) if why.contains("login")), "{error}");
    // Without any key.
    let (cert, key) = fleet.server.client_certificate();
    let keyless = async_nats::ConnectOptions::new()
        .add_root_certificates(fleet.server.ca())
        .add_client_certificate(cert, key);
    let error = fleet.run(keyless.connect(fleet.server.url())).unwrap_err();
    assert_eq!(error.kind(), async_nats::ConnectErrorKind::AuthorizationViolation);
}

#[test]
fn f_07_a_key_without_a_certificate_is_refused_where_one_is_demanded() {
    let fleet = Fleet::bare(1);
    let settings = Settings { cert: None, key: None, ..fleet.settings(&fleet.machines[0].1) };
    let error = refused(&fleet, &settings);
    assert!(error.to_string().contains("ertificate"), "{error}");
}

#[test]
fn f_07_a_server_with_another_certificate_is_refused() {
    let fleet = Fleet::bare(1);
    let other = NatsServer::start(
        Encryption::Tls,
        Users { administrator: fleet.administrator.public_key().to_owned(), others: Vec::new() },
    );
    let own = fleet.settings(&fleet.administrator);
    let settings = Settings { url: other.url(), cert: None, key: None, ..own };
    let error = refused(&fleet, &settings);
    assert!(error.to_string().contains("ertificate"), "{error}");
    // The one that its own authority vouches for, where no certificate is demanded.
    let settings = Settings { ca: Some(other.ca()), ..settings };
    fleet.run(Connection::open(&settings, MachineId(1))).unwrap();
}

#[test]
fn f_07_nothing_plain_gets_in() {
    let fleet = Fleet::bare(1);
    let plain = fleet.server.url().replace("tls://", "nats://");
    let (machine, login) = &fleet.machines[0];
    let settings = Settings { url: plain.clone(), ..fleet.settings(login) };
    // The server demands TLS, and the client then speaks it.
    fleet.run(Connection::open(&settings, *machine)).unwrap();
    // One that does not is cut off.
    let address = plain.strip_prefix("nats://").unwrap().parse().unwrap();
    let limit = core::time::Duration::from_secs(60);
    let mut stream = std::net::TcpStream::connect_timeout(&address, limit).unwrap();
    stream.set_read_timeout(Some(limit)).unwrap();
    let mut said = Vec::new();
    std::io::Write::write_all(&mut stream, b"CONNECT {\"verbose\":true}\r\nPING\r\n").unwrap();
    // The server may reset the connection instead of closing it.
    _ = std::io::Read::read_to_end(&mut stream, &mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.starts_with("INFO ") && !said.contains("+OK") && !said.contains("PONG"), "{said}");
    // A server without encryption is refused where a URL demands it.
    let bare = NatsServer::start(
        Encryption::None,
        Users { administrator: login.public_key().to_owned(), others: Vec::new() },
    );
    let encrypted = bare.url().replace("nats://", "tls://");
    let error = refused(&fleet, &Settings { url: encrypted, ..settings.clone() });
    assert!(matches!(&error, EngineError::Unreachable(_)), "{error}");
    let settings = Settings { url: bare.url(), ca: None, cert: None, key: None, ..settings };
    fleet.run(Connection::open(&settings, *machine)).unwrap();
}

#[test]
fn f_07_nobody_listening_is_unreachable() {
    let mut fleet = Fleet::bare(1);
    fleet.server.kill();
    let error = refused(&fleet, &fleet.settings(&fleet.machines[0].1));
    assert!(matches!(&error, EngineError::Unreachable(_)), "{error}");
}

/// F-07: a file that is not there is named.
#[test]
fn f_07_a_file_that_cannot_be_read_is_named() {
    let fleet = Fleet::bare(1);
    let good = fleet.settings(&fleet.machines[0].1);
    let missing = || Some(std::path::PathBuf::from("/nowhere/at/all.pem"));
    for settings in [
        Settings { ca: missing(), ..good.clone() },
        Settings { cert: missing(), ..good.clone() },
        Settings { key: missing(), ..good.clone() },
    ] {
        let error = refused(&fleet, &settings).to_string();
        assert!(error.starts_with("/nowhere/at/all.pem: "), "{error}");
    }
}
