//! Decides which requests are answered at all (H-28): by Host, Origin, Sec-Fetch-Site and the kind of the body, against
//! exact lists. A page of another origin, and a name that someone points at this machine, come no further.

use axum::http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use axum::http::{Method, StatusCode, Uri};

use crate::peer::Peer;

/// Why a request is not answered.
pub(crate) type Refused = (StatusCode, &'static str);

/// The names by which the page is reached.
#[derive(Debug)]
pub(crate) struct Names {
    /// What a Host field may say.
    hosts: Vec<String>,
    /// What an Origin field may say.
    origins: Vec<String>,
    /// The Host of the user's own tunnel.
    public_host: Option<String>,
}

impl Names {
    /// The names of a page on this port of 127.0.0.1, and behind the user's own tunnel.
    pub(crate) fn new(port: u16, public: Option<&PublicOrigin>) -> Self {
        let mut hosts = vec![format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let mut origins: Vec<String> = hosts.iter().map(|host| format!("http://{host}")).collect();
        let public_host = public.map(|one| one.host().to_owned());
        hosts.extend(public_host.clone());
        origins.extend(public.map(|one| one.0.clone()));
        Self { hosts, origins, public_host }
    }
}

/// An origin such as `https://box.tail1234.ts.net`, through which the user reaches the page from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicOrigin(String);

impl PublicOrigin {
    /// Reads one.
    ///
    /// # Errors
    /// It is none: why, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "use one such as https://box.tail1234.ts.net";
        let host = text.strip_prefix("https://").ok_or(EXAMPLE)?;
        let (name, port) = host.split_once(':').unwrap_or((host, "8443"));
        let is_name = |one: char| {
            one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-' || one == '.'
        };
        let is_fine = !name.is_empty()
            && name.len() <= 253
            && name.chars().all(is_name)
            && port.parse::<u16>().is_ok_and(|port| port != 443 && port != 0);
        if is_fine {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{EXAMPLE}, in lower case, without a path"))
        }
    }

    /// The origin, as browsers write it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn host(&self) -> &str {
        self.0.trim_start_matches("https://")
    }
}

/// Checks the head of a request.
///
/// # Errors
/// Why it is not answered.
pub(crate) fn check(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    peer: Peer,
    names: &Names,
) -> Result<(), Refused> {
    const WRONG: StatusCode = StatusCode::FORBIDDEN;
    if uri.authority().is_some() {
        return Err((StatusCode::BAD_REQUEST, "coord dashboard is no proxy."));
    }
    let host = only(headers, HOST).ok_or((StatusCode::BAD_REQUEST, "One Host is needed."))?;
    if !names.hosts.iter().any(|one| one == host) {
        return Err((
            WRONG,
            "This Host is not one of coord dashboard's. → coord dashboard --public-origin",
        ));
    }
    if peer == Peer::Root && names.public_host.as_deref() != Some(host) {
        return Err((
            WRONG,
            "Another user's process may connect only as the tunnel of --public-origin.",
        ));
    }
    match only(headers, HeaderName::from_static("sec-fetch-site")) {
        Some("same-origin" | "none") => (),
        Some(_) => return Err((WRONG, "Another page asked for this. Type the address instead.")),
        None => return Err((WRONG, "This is not a browser that coord dashboard knows.")),
    }
    let is_post = method == Method::POST;
    let origins = headers.get_all(ORIGIN).iter().count();
    match only(headers, ORIGIN) {
        Some(origin) if names.origins.iter().any(|one| one == origin) => (),
        None if origins == 0 && !is_post => (),
        Some(_) | None => return Err((WRONG, "This Origin is not coord dashboard's.")),
    }
    if is_post {
        let kind = only(headers, CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "Only application/json is taken."));
        }
    }
    if is_post || method == Method::GET {
        return Ok(());
    }
    Err((StatusCode::METHOD_NOT_ALLOWED, "Only GET and POST are answered."))
}

/// The value of a field that is there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let one = all.next()?;
    if all.next().is_some() { None } else { one.to_str().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [(&str, &str); 2] = [("host", "127.0.0.1:4000"), ("sec-fetch-site", "same-origin")];

    fn said(method: &Method, fields: &[(&'static str, &str)], peer: Peer) -> u16 {
        let public = PublicOrigin::parse("https://box.example").unwrap();
        let names = Names::new(4000, Some(&public));
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        let uri = Uri::from_static("/api/act");
        check(method, &uri, &headers, peer, &names)
            .map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    fn get(fields: &[(&'static str, &str)]) -> u16 {
        said(&Method::GET, fields, Peer::Own)
    }

    // H-28
    #[test]
    fn h_28_a_get_names_this_host_and_no_other_page() {
        assert_eq!(get(&OWN), 200);
        assert_eq!(get(&[("host", "localhost:4000"), ("sec-fetch-site", "none")]), 200);
        assert_eq!(get(&[("host", "box.example"), ("sec-fetch-site", "none")]), 200);
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:4001",
            "evil.example:4000",
            "127.0.0.1:4000.evil.example",
            "[::1]:4000",
            "box.example:4000",
            "BOX.example",
        ] {
            assert_eq!(get(&[("host", host), ("sec-fetch-site", "none")]), 403, "{host}");
        }
        assert_eq!(get(&[("sec-fetch-site", "none")]), 400);
        assert_eq!(get(&[OWN[0], OWN[0], OWN[1]]), 400);
        for site in ["cross-site", "same-site", "", "None"] {
            assert_eq!(get(&[OWN[0], ("sec-fetch-site", site)]), 403, "{site}");
        }
        assert_eq!(get(&[OWN[0]]), 403, "no Sec-Fetch-Site");
        for origin in
            ["null", "https://evil.example", "http://127.0.0.1:4001", "https://127.0.0.1:4000", ""]
        {
            assert_eq!(get(&[OWN[0], OWN[1], ("origin", origin)]), 403, "{origin}");
        }
        for method in [Method::OPTIONS, Method::PUT, Method::DELETE, Method::HEAD, Method::TRACE] {
            assert_eq!(said(&method, &OWN, Peer::Own), 405);
        }
    }

    #[test]
    fn h_28_a_post_comes_from_the_page_with_json() {
        let post = |more: &[(&'static str, &str)]| {
            said(&Method::POST, &[&OWN[..], more].concat(), Peer::Own)
        };
        let (origin, json) =
            (("origin", "http://127.0.0.1:4000"), ("content-type", "application/json"));
        assert_eq!(post(&[origin, json]), 200);
        assert_eq!(post(&[("origin", "https://box.example"), json]), 200);
        assert_eq!(post(&[json]), 403, "no Origin");
        assert_eq!(post(&[("origin", "null"), json]), 403);
        assert_eq!(post(&[origin, origin, json]), 403);
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/jsonx",
        ] {
            assert_eq!(post(&[origin, ("content-type", kind)]), 415, "{kind}");
        }
        assert_eq!(post(&[origin]), 415);
    }

    // A tunnel that runs as root reaches the page by its public name alone.
    #[test]
    fn h_28_root_comes_through_the_tunnel_only() {
        let none = ("sec-fetch-site", "none");
        assert_eq!(said(&Method::GET, &[("host", "box.example"), none], Peer::Root), 200);
        assert_eq!(said(&Method::GET, &[("host", "127.0.0.1:4000"), none], Peer::Root), 403);
    }

    #[test]
    fn a_public_origin_is_one_https_origin() {
        for text in ["https://box.tail1234.ts.net", "https://a-b.example:8443"] {
            assert_eq!(PublicOrigin::parse(text).map(|one| one.0).as_deref(), Ok(text));
        }
        for text in [
            "http://box.example",
            "https://",
            "https://Box.example",
            "https://a/",
            "https://a:443",
            "https://a@b",
            "https://a:b",
            "box",
            "null",
            "*",
        ] {
            assert!(PublicOrigin::parse(text).is_err(), "{text}");
        }
    }
}
