//! Which addresses are spoken to: HTTPS ones, and without TLS only this machine.

use std::net::IpAddr;

use ureq::http::Uri;
use ureq::http::uri::Scheme;

use crate::answer::Failure;

/// Longest host that is repeated, in characters.
const HOST_CHARS_MAX: usize = 100;

/// A checked address. It may be a secret; its host is not.
pub(super) struct Address {
    uri: Uri,
    host: String,
}

impl Address {
    /// Checks an address. The reason of a failure has nothing of it but the host.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let refused = |why: &str| Failure::refused(why);
        let uri: Uri = text.parse().map_err(|_| refused("the address is not a URL"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(refused("the address is not a URL"));
        };
        if authority.as_str().contains('@') {
            return Err(refused("the address holds a user name; use a token"));
        }
        let host: String = authority.host().chars().take(HOST_CHARS_MAX).collect();
        let is_plain = scheme == &Scheme::HTTP;
        if !is_plain && scheme != &Scheme::HTTPS {
            return Err(refused("the address does not begin with https://"));
        }
        if is_plain && !is_this_machine(&host) {
            return Err(Failure::refused(format!("{host}: http:// is for this machine only")));
        }
        if host.is_empty() {
            return Err(refused("the address has no host"));
        }
        Ok(Self { uri, host })
    }

    /// The host, for people.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is spoken to by TLS.
    pub(super) fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    /// The whole address.
    pub(super) fn whole(&self) -> String {
        self.uri.to_string()
    }

    /// The address with `more` after its path, and `query` beside its own.
    pub(super) fn with(&self, more: &str, query: Option<&str>) -> String {
        let queries: Vec<&str> = self.uri.query().into_iter().chain(query).collect();
        let path = format!("{}{more}", self.uri.path().trim_end_matches('/'));
        let query =
            if queries.is_empty() { String::new() } else { format!("?{}", queries.join("&")) };
        format!("{}{path}{query}", self.origin())
    }

    /// The path without its last segment, and that segment.
    pub(super) fn parts(&self) -> (String, &str) {
        let path = self.uri.path().trim_end_matches('/');
        let (parent, last) = path.rsplit_once('/').unwrap_or(("", path));
        (format!("{}{parent}/", self.origin()), last)
    }

    fn origin(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        format!("{scheme}://{authority}")
    }
}

/// Whether a host is this machine by its name alone. What a name server says does not count.
fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        Address::parse(text).map(|address| address.whole()).map_err(|failure| {
            assert!(failure.is_refused);
            failure.why
        })
    }

    #[test]
    fn without_tls_only_this_machine_is_spoken_to() {
        for text in [
            "https://ntfy.sh/topic",
            "https://10.0.0.1:8443/x",
            "http://127.0.0.1:80/x",
            "http://127.9.9.9/x",
            "http://[::1]:80/x",
            "http://localhost:80/x",
        ] {
            assert_eq!(parsed(text).unwrap(), text);
        }
        for text in [
            "http://ntfy.sh/topic",
            "http://10.0.0.1/x",
            "http://127.0.0.1.example.org/x",
            "http://localhost.example.org/x",
            "http://[::2]/x",
            "http://0.0.0.0/x",
            "http://user@127.0.0.1/x",
            "ftp://127.0.0.1/x",
            "https://user:word@ntfy.sh/topic",
            "ntfy.sh/topic",
            "https:///x",
            "https://a b/",
            "",
        ] {
            let why = parsed(text).unwrap_err();
            assert!(!why.contains("topic") && !why.contains("word"), "{text}: {why}");
        }
    }

    #[test]
    fn parts_and_queries_are_kept_apart() {
        let address = Address::parse("https://h:1/a/b?thread_id=7").unwrap();
        assert_eq!(address.with("/c", None), "https://h:1/a/b/c?thread_id=7");
        assert_eq!(address.with("", Some("wait=true")), "https://h:1/a/b?thread_id=7&wait=true");
        assert_eq!(address.parts(), ("https://h:1/a/".to_owned(), "b"));
        assert_eq!(Address::parse("https://h/t/").unwrap().parts().1, "t");
        assert_eq!(Address::parse("https://h").unwrap().with("/x", None), "https://h/x");
    }
}
