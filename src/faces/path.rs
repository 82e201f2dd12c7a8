//! A path and its query, taken apart.

use crate::prelude::*;

/// Longest path with query, in bytes.
const PATH_BYTES_MAX: usize = 8 * 1024;

/// A path: its segments and the query's pairs, decoded.
pub struct Path {
    segments: Vec<String>,
    query: Vec<(String, String)>,
}

impl Path {
    /// Takes a path apart; `None` for bad escapes, and for what is too long or not a path.
    pub fn parse(path: &str) -> Option<Self> {
        if path.len() > PATH_BYTES_MAX || !path.starts_with('/') {
            return None;
        }
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let segments = path[1..].split('/').map(decode).collect::<Option<_>>()?;
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decode(name)?, decode(value)?))
            })
            .collect::<Option<_>>()?;
        Some(Self { segments, query })
    }

    /// What stands for each `{name}` of a route's path; `None` if this is another path.
    pub fn matches(&self, route: &str) -> Option<Vec<String>> {
        let pattern: Vec<&str> = route[1..].split('/').collect();
        if pattern.len() != self.segments.len() {
            return None;
        }
        let mut params = Vec::new();
        for (part, segment) in pattern.into_iter().zip(&self.segments) {
            if let Some((_, verb)) = part.split_once('}').filter(|_| part.starts_with('{')) {
                let name = segment.strip_suffix(verb).filter(|name| verb.is_empty() || !name.is_empty())?;
                params.push(name.to_owned());
            } else if part != segment {
                return None;
            }
        }
        Some(params)
    }

    /// A value of the query.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A text as a value of a query.
pub fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'%' {
            let hex = text.get(i + 1..i + 3).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))?;
            out.push(u8::from_str_radix(hex, 16).ok()?);
            i += 3;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_gives_its_parameters() {
        let path = Path::parse("/v1/agents/a%2Fb/threads/t?x").unwrap();
        assert_eq!(path.matches("/v1/agents/{agent}/threads/{thread}"), Some(vec!["a/b".into(), "t".into()]));
        let path = Path::parse("/a2a/tasks/x:y%3acancel").unwrap();
        assert_eq!(path.matches("/a2a/tasks/{id}:cancel"), Some(vec!["x:y".into()]));
        assert_eq!(path.matches("/a2a/tasks/{id}"), Some(vec!["x:y:cancel".into()]));
        assert_eq!(path.matches("/a2a/tasks/{id}:subscribe"), None);
        assert_eq!(Path::parse("/a2a/tasks/:cancel").unwrap().matches("/a2a/tasks/{id}:cancel"), None);
        let path = Path::parse("/v1/agents/a%2Fb/threads/t?x").unwrap();
        for other in ["/v1/agents/{agent}/threads", "/v1/agents/{agent}/thread/{thread}", "/v1"] {
            assert_eq!(path.matches(other), None, "{other}");
        }
    }

    #[test]
    fn a_path_is_taken_apart() {
        let path = Path::parse("/v1/a%2Fb/c?after=3&x=%20").unwrap();
        assert_eq!(path.segments, ["v1", "a/b", "c"]);
        assert_eq!((path.query("after"), path.query("x"), path.query("y")), (Some("3"), Some(" "), None));
        for bad in ["", "v1", "/%", "/%zz", "/%+1", "/%ff", "/é%c3"] {
            assert!(Path::parse(bad).is_none(), "{bad}");
        }
    }
}
