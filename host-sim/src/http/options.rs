//! What a server is given.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

/// What `writ serve` needs to know besides its host. It can be filled from anywhere: options, a file, a test.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where to listen; port 0 takes any that is free.
    pub addr: SocketAddr,
    /// Whether a client token is configured. Without one the component lets nobody in, and the server listens on
    /// loopback addresses only.
    pub has_token: bool,
    /// How long runs may go on once the server drains.
    pub drain: Duration,
    /// Connections at the same time; more wait in the system's queue until one ends.
    pub connections: usize,
    /// Requests that the component answers, or that wait for it, at the same time; more get 503.
    pub requests: usize,
    /// Streams at the same time; more get 503.
    pub streams: usize,
    /// How long a connection may take none of the bytes that are ready for it, before it is closed.
    pub stall: Duration,
    /// How long a request's head may take to come; also how long a connection may be idle.
    pub head: Duration,
    /// How long a request's body may take to come.
    pub body: Duration,
    /// After how much silence a stream sends a comment, and looks again without having been woken.
    pub heartbeat: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 8787)),
            has_token: false,
            drain: Duration::from_secs(30),
            connections: 1024,
            requests: 512,
            streams: 256,
            stall: Duration::from_secs(30),
            head: Duration::from_secs(20),
            body: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
        }
    }
}

/// The secret that clients send as `authorization: Bearer TOKEN`. It shows itself nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientToken(String);

/// Longest client token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// Below so many bytes a client token can be guessed.
pub const TOKEN_BYTES_GOOD: usize = 16;

impl ClientToken {
    /// A token of 1 to 4,096 visible ASCII characters. The error says what is wrong, and never the token.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > TOKEN_BYTES_MAX {
            return Err(format!("a client token has 1 to {TOKEN_BYTES_MAX} characters, this one has {}", text.len()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a client token is made of visible ASCII characters, without spaces".into());
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether it is so short that it can be guessed.
    pub fn is_weak(&self) -> bool {
        self.0.len() < TOKEN_BYTES_GOOD
    }

    /// The component's setting `auth`, which lets in who has this token, as `principal` (`realm/subject`). It holds a
    /// digest, not the token.
    pub fn auth_setting(&self, principal: &str) -> String {
        let digest: String = Sha256::digest(&self.0).iter().map(|byte| format!("{byte:02x}")).collect();
        json!({"clients": [{"digest": digest, "principal": principal}]}).to_string()
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_shows_itself_nowhere() {
        let token = ClientToken::new("s3cret").unwrap();
        assert!(!format!("{token:?}").contains("s3cret"));
        let setting = token.auth_setting("local/operator");
        assert!(!setting.contains("s3cret"));
        // printf s3cret | sha256sum
        assert!(setting.contains("1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0"), "{setting}");
        for bad in ["", "two words", "s3cret\n", "é"] {
            let error = ClientToken::new(bad).unwrap_err();
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
    }
}
