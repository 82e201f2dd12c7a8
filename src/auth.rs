//! Who asks: whom the host names, or who has a client token; and stream tokens, for viewers that can send no header.
//!
//! It fails closed: with no client token configured nobody is let in (design §7).

use crate::error::{Error, Problem, Refusal};
use crate::faces::Request;
use crate::id::{Address, Place, hex};
use crate::ports::Ports;
use crate::prelude::*;
use crate::store::read_format;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// How long a stream token is good for, in milliseconds.
pub const STREAM_TOKEN_MS: u64 = 10 * 60 * 1000;

/// Longest principal, in bytes.
const PRINCIPAL_BYTES_MAX: usize = 256;

/// Longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// The setting `auth`. It holds no token, only their digests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Auth {
    #[serde(default)]
    clients: Vec<Client>,
    /// Key of stream tokens, in hex; the store's own when there is none.
    #[serde(default)]
    stream_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    /// SHA-256 of the token, in hex.
    digest: String,
    /// Whom it stands for, `realm/subject`.
    principal: String,
}

/// The principal of a request: `realm/subject`.
pub fn principal(ports: &Ports, request: &Request) -> Result<String, Problem> {
    if let Some(principal) = &request.principal {
        return checked(principal.clone());
    }
    let auth = settings(ports)?;
    if auth.clients.is_empty() {
        let text = "No client token is configured, so nobody is let in. Set one where this server is configured.";
        return Err(Problem::new(503, "no-client-token", text));
    }
    let header = request.header("authorization").ok_or_else(|| unauthorized("Send `authorization: Bearer TOKEN`."))?;
    let token = header
        .split_once(' ')
        .filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token.len() <= TOKEN_BYTES_MAX)
        .map(|(_, token)| token.trim())
        .ok_or_else(|| unauthorized("The header `authorization` is not `Bearer TOKEN`."))?;
    let digest = hex(&Sha256::digest(token));
    // All are compared, each in constant time: how long it takes tells nothing.
    let mut found = u32::MAX;
    for (i, client) in (0u32..).zip(&auth.clients) {
        let same: Choice = client.digest.as_bytes().ct_eq(digest.as_bytes());
        found.conditional_assign(&i, same);
    }
    let client = auth.clients.get(found as usize).ok_or_else(|| unauthorized("This token is not known."))?;
    checked(client.principal.clone())
}

/// A token that lets its bearer read the streams of one thread for ten minutes, and when it ends (Unix ms).
pub fn stream_token(ports: &Ports, address: &Address, place: &Place) -> Result<(String, u64), Refusal> {
    let expires = ports.clock.now().saturating_add(STREAM_TOKEN_MS);
    let signed = mac(ports, expires, &address.owner, place)?.finalize().into_bytes();
    Ok((format!("{expires}.{}.{}", hex(address.owner.as_bytes()), hex(&signed)), expires))
}

/// The owner that a stream token names, if it is good for this thread now. `place` finds the thread of an owner.
pub fn stream_owner(ports: &Ports, token: &str, place: impl Fn(&str) -> Place) -> Result<String, Refusal> {
    let bad = || Refusal::from(unauthorized("The stream token is not good for this thread. Ask for a new one."));
    if token.len() > TOKEN_BYTES_MAX {
        return Err(bad());
    }
    let mut parts = token.split('.');
    let (Some(expires), Some(owner), Some(signed), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad());
    };
    let owner = unhex(owner).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(bad)?;
    let (expires, signed) = (expires.parse().map_err(|_| bad())?, unhex(signed).ok_or_else(bad)?);
    mac(ports, expires, &owner, &place(&owner))?.verify_slice(&signed).map_err(|_| bad())?;
    if expires <= ports.clock.now() {
        return Err(unauthorized("The stream token has expired. Ask for a new one.").into());
    }
    Ok(checked(owner)?)
}

/// The signature of parts, in hex. The first one says what it is for.
pub fn signature(ports: &Ports, parts: &[&str]) -> Result<String, Refusal> {
    Ok(hex(&signed(ports, parts)?.finalize().into_bytes()))
}

/// Whether parts have this signature.
pub fn is_signed(ports: &Ports, parts: &[&str], signature: &str) -> Result<bool, Refusal> {
    let Some(signature) = unhex(signature) else { return Ok(false) };
    Ok(signed(ports, parts)?.verify_slice(&signature).is_ok())
}

fn mac(ports: &Ports, expires: u64, owner: &str, place: &Place) -> Result<Hmac<Sha256>, Refusal> {
    signed(ports, &["writ/stream/1", &expires.to_string(), owner, &place.head()])
}

fn signed(ports: &Ports, parts: &[&str]) -> Result<Hmac<Sha256>, Refusal> {
    let key = match settings(ports)?.stream_key {
        Some(key) => key,
        None => read_format(ports)?.token_key,
    };
    let key = unhex(&key).filter(|key| key.len() >= 16).ok_or_else(|| {
        Error::Unavailable("the key of stream tokens is not at least 16 bytes in hex: mend the setting `auth`".into())
    })?;
    // An HMAC takes keys of any length; without one nothing is signed.
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key)
        .map_err(|_| Error::Unavailable("the key of stream tokens can't be used".into()))?;
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    Ok(mac)
}

fn settings(ports: &Ports) -> Result<Auth, Problem> {
    let Some(text) = ports.host.setting("auth") else { return Ok(Auth { clients: Vec::new(), stream_key: None }) };
    // What is wrong with it is not told: it may show a secret.
    serde_json::from_str(&text).map_err(|_| {
        Problem::new(503, "bad-settings", "The setting `auth` can't be read, so nobody is let in. Mend it.")
    })
}

fn checked(principal: String) -> Result<String, Problem> {
    let fit = principal.len() <= PRINCIPAL_BYTES_MAX
        && principal
            .split_once('/')
            .is_some_and(|(realm, subject)| !realm.is_empty() && !subject.is_empty() && !subject.contains('/'));
    if fit {
        return Ok(principal);
    }
    let text = format!("A principal is `realm/subject`, of at most {PRINCIPAL_BYTES_MAX} bytes.");
    Err(Problem::new(401, "bad-principal", text))
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(401, "unauthorized", detail)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect()
}
