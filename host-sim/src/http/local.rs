//! Who may speak to a server on a loopback address: pages of other sites can reach it from a browser on this machine, by
//! a name of theirs that they point at it (DNS rebinding). What names another host, or comes from another site, is
//! refused before it is looked at.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{StatusCode, Uri, header};

use super::problem::Problem;

/// Checks the names in a request. `Host` may have any port: a forwarded one is another than ours.
pub(super) fn check(parts: &Parts) -> Result<(), Problem> {
    let hosts: Vec<_> = parts.headers.get_all(header::HOST).iter().collect();
    let [host] = hosts.as_slice() else {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-host", "A request has one header `host`."));
    };
    let named = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    // A target in absolute form names a host, too.
    let foreign = |authority: &Authority| !is_loopback(authority);
    if named.as_ref().is_none_or(foreign) || parts.uri.authority().is_some_and(foreign) {
        let text = "This server listens on a loopback address, and the request names another host. Ask for \
                    127.0.0.1, [::1] or localhost.";
        return Err(Problem::new(StatusCode::FORBIDDEN, "foreign-host", text));
    }
    let own = |origin: &str| origin.parse::<Uri>().is_ok_and(|origin| origin.authority().is_some_and(is_loopback));
    if parts.headers.get_all(header::ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(own)) {
        let text = "This server listens on a loopback address, and the request comes from another site's page.";
        return Err(Problem::new(StatusCode::FORBIDDEN, "foreign-origin", text));
    }
    Ok(())
}

/// `localhost`, `127.0.0.0/8` or `[::1]`, with any port or none, and nothing else.
fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let six = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let named = host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || six.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()));
    let port = authority.as_str().strip_prefix(host).unwrap_or("@");
    named && (port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn refused(uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap().into_parts().0).is_err()
    }

    #[test]
    fn only_loopback_names_are_served() {
        for good in ["localhost", "LOCALHOST:8787", "127.0.0.1:80", "127.9.9.9", "[::1]:8787", "[::1]"] {
            assert!(!refused("/", &[("host", good)]), "{good}");
            assert!(!refused("/", &[("host", "localhost"), ("origin", &format!("http://{good}"))]), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:8787",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "localhost@evil.example",
            "evil@localhost",
            "[::2]",
            "::1",
            "0.0.0.0",
            "2130706433",
            "localhost:x",
        ] {
            assert!(refused("/", &[("host", bad)]), "{bad}");
            assert!(refused("/", &[("host", "localhost"), ("origin", &format!("http://{bad}"))]), "{bad}");
        }
        assert!(refused("/", &[("host", "localhost"), ("origin", "null")]));
        assert!(refused("/", &[]));
        assert!(refused("/", &[("host", "localhost"), ("host", "localhost")]));
        assert!(refused("http://evil.example/", &[("host", "localhost")]));
        assert!(!refused("http://127.0.0.1:1/", &[("host", "localhost")]));
    }
}
