//! Where the server is, and how this machine proves to it who it is.

use core::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use async_nats::ServerAddr;

use crate::login::{Login, SeedError};

/// Where the server is, and how this machine proves to it who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `tls://HOST:PORT`, or `nats://` without encryption on this machine itself. Servers of one cluster are separated by commas.
    pub url: String,
    /// The seed of the login (`SU…`).
    pub login_seed: String,
    /// The certificate authorities that may vouch for the server, as PEM; none for those that the system trusts.
    pub ca: Option<PathBuf>,
    /// This machine's certificate, as PEM, if the server asks for one.
    pub cert: Option<PathBuf>,
    /// The certificate's key, as PEM.
    pub key: Option<PathBuf>,
}

/// Why nothing connects with these settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsError {
    /// The URL is not one of a server.
    NotAServer(String),
    /// The URL has a password or a token in it. The URL is not repeated, since it is secret then.
    SecretInUrl,
    /// The connection would not be encrypted, and leaves this machine.
    Plain(String),
    /// The login is not one.
    Seed(SeedError),
    /// There is a certificate without a key, or a key without a certificate.
    HalfACertificate,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAServer(url) => {
                write!(f, "{url:?} is not the URL of a NATS server: write tls://HOST:PORT")
            }
            Self::SecretInUrl => f.write_str(
                "the URL contains a user name, password or token: remove it; coord logs in with a key",
            ),
            Self::Plain(url) => write!(
                f,
                "{url} is not encrypted, which is allowed on a loopback address only: write tls://"
            ),
            Self::Seed(error) => write!(f, "the login is {error}"),
            Self::HalfACertificate => {
                f.write_str("a client certificate needs both `cert` and `key`: set both or neither")
            }
        }
    }
}

impl core::error::Error for SettingsError {}

impl Settings {
    /// The servers' addresses, if all is well with the settings. No file is read.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&self) -> Result<Vec<ServerAddr>, SettingsError> {
        Login::from_seed(&self.login_seed).map_err(SettingsError::Seed)?;
        if self.cert.is_some() != self.key.is_some() {
            return Err(SettingsError::HalfACertificate);
        }
        self.url.split(',').map(|url| address(url.trim())).collect()
    }

    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(addresses: &[ServerAddr]) -> bool {
        addresses.iter().all(ServerAddr::tls_required)
    }
}

/// The address that a URL names.
fn address(url: &str) -> Result<ServerAddr, SettingsError> {
    // Before it is parsed: what follows may print it.
    if url.contains('@') {
        return Err(SettingsError::SecretInUrl);
    }
    let not_a_server = || SettingsError::NotAServer(url.to_owned());
    if !url.contains("://") {
        return Err(not_a_server());
    }
    let address: ServerAddr = url.parse().map_err(|_| not_a_server())?;
    let host = address.host();
    let is_loopback =
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match address.scheme() {
        _ if host.is_empty() => Err(not_a_server()),
        "tls" => Ok(address),
        "nats" if is_loopback => Ok(address),
        "nats" => Err(SettingsError::Plain(url.to_owned())),
        _ => Err(not_a_server()),
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, login_seed: _, ca, cert, key } = self;
        let mut debug = f.debug_struct("Settings");
        debug.field("url", url).field("ca", ca).field("cert", cert).field("key", key);
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(url: &str) -> Result<(), SettingsError> {
        let login_seed = Login::new().unwrap().seed().to_owned();
        let settings =
            Settings { url: url.to_owned(), login_seed, ca: None, cert: None, key: None };
        settings.check().map(|_| ())
    }

    #[test]
    fn only_what_is_encrypted_leaves_the_machine() {
        for good in [
            "tls://fleet.example",
            "tls://fleet.example:4333",
            "tls://a.example:4222, tls://b.example:4222",
            "nats://127.0.0.1:4222",
            "nats://[::1]:4222",
            "nats://localhost",
        ] {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        for plain in
            ["nats://fleet.example", "nats://192.0.2.7", "tls://a.example,nats://b.example"]
        {
            assert!(matches!(checked(plain), Err(SettingsError::Plain(_))), "{plain}");
        }
        for odd in ["", "fleet.example", "wss://fleet.example", "http://fleet.example", "tls://"] {
            assert!(matches!(checked(odd), Err(SettingsError::NotAServer(_))), "{odd}");
        }
    }

    #[test]
    fn a_secret_in_the_url_is_refused_and_not_repeated() {
        for secret in ["tls://me:secret@fleet.example", "tls://secret@fleet.example"] {
            let error = checked(secret).unwrap_err();
            assert_eq!(error, SettingsError::SecretInUrl);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
