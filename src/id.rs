//! Names that are derived, never looked up: partitions, tags, submission ids and effect keys.
//!
//! All are SHA-256 over length-prefixed parts, so that no two lists of parts can run together. The written form is
//! Crockford's base32 in lower case, 26 characters of it: 130 bits.

use crate::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Length of a tag in characters.
pub const TAG_CHARS: usize = 26;

/// Longest name of an agent or a thread, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// Longest idempotency key, in bytes.
pub const KEY_BYTES_MAX: usize = 256;

/// Who and what a thread is: an instance's full name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// `realm/subject` of whom it belongs to.
    pub owner: String,
    /// The agent.
    pub agent: String,
    /// The instance: the thread's name.
    pub thread: String,
}

impl Address {
    /// The thread's place in the store, in a store of `partitions` partitions.
    pub fn place(&self, partitions: u16) -> Place {
        let hash = digest("writ/thread/1", &[&self.owner, &self.agent, &self.thread]);
        Place { partition: (u16::from_be_bytes([hash[0], hash[1]]) % partitions) as u8, tag: base32(&hash[2..]) }
    }

    /// The id of the submission that `key` names in this thread. Its scope is owner and thread.
    pub fn submission_id(&self, place: &Place, key: &str) -> String {
        let hash = digest("writ/sub/1", &[&self.owner, &self.agent, &self.thread, key]);
        format!("{:02x}-{}", place.partition, base32(&hash))
    }
}

/// Where a thread's keys are: its partition and its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The partition's number.
    pub partition: u8,
    /// The tag that stands in its keys. The owner is in it.
    pub tag: String,
}

/// The id of a submission without a key: `entropy` is at least 17 random bytes, minted once a request.
pub fn random_id(place: &Place, entropy: &[u8]) -> String {
    format!("{:02x}-{}", place.partition, base32(entropy))
}

/// The partition that an id embeds; `None` if it isn't an id.
pub fn partition_of_id(id: &str) -> Option<u8> {
    let (partition, tag) = id.split_once('-')?;
    let lower_hex = partition.len() == 2 && partition.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !lower_hex || tag.len() != TAG_CHARS || !tag.bytes().all(|b| ALPHABET.contains(&b)) {
        return None;
    }
    u8::from_str_radix(partition, 16).ok()
}

/// The tag of an owner in the keys of lists.
pub fn owner_tag(owner: &str) -> String {
    base32(&digest("writ/owner/1", &[owner]))
}

/// The stable name of an effect: of a tool call, or of a step in it. `born` tells one incarnation of a thread from
/// the next; `call` is `<message>.<index>`, since the ids that models give to calls repeat.
pub fn effect_key(tag: &str, born: u64, submission: &str, call: &str, step: Option<&str>) -> String {
    let born = born.to_string();
    base32(&digest("writ/effect/1", &[tag, &born, submission, call, step.unwrap_or("")]))
}

/// The stable name of one answer of a model: the same on every try, by whatever attempt. `turn` counts the answers that
/// the thread has stored, `boundary` tells a summary from the next one.
pub fn answer_key(tag: &str, born: u64, turn: u64, boundary: Option<u64>, purpose: &str) -> String {
    let boundary = boundary.map(|n| n.to_string()).unwrap_or_default();
    base32(&digest("writ/answer/1", &[tag, &born.to_string(), &turn.to_string(), &boundary, purpose]))
}

/// SHA-256 over a domain and parts, each with its length before it.
pub fn digest(domain: &str, parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in core::iter::once(&domain).chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// SHA-256 of bytes, in hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Whether a name of an agent or a thread is fit: 1 to 128 of `A–Z a–z 0–9 . _ -`, not starting with a dot.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// The first 26 characters of the base32 form of at least 17 bytes.
pub fn base32(bytes: &[u8]) -> String {
    let bit = |i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
    (0..TAG_CHARS)
        .map(|c| (0..5).fold(0u8, |value, b| value << 1 | bit(c * 5 + b)))
        .map(|value| char::from(ALPHABET[usize::from(value)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(thread: &str) -> Address {
        Address { owner: "local/ada".into(), agent: "helper".into(), thread: thread.into() }
    }

    /// Frozen: a change of these would lose every stored id.
    #[test]
    fn derived_names_are_frozen() {
        let a = address("t");
        let place = a.place(256);
        assert_eq!((place.partition, place.tag.as_str()), (0x50, "qk7gs2xesb5748nz7hxck0m882"));
        assert_eq!(a.submission_id(&place, "k"), "50-k71a5bvrh7j2aspdem614x068y");
    }

    #[test]
    fn an_id_names_its_partition() {
        let a = address("t");
        let place = a.place(256);
        assert_eq!(partition_of_id(&a.submission_id(&place, "k")), Some(place.partition));
        for bad in [
            "",
            "00",
            "zz-00000000000000000000000000",
            "00-0",
            "00-l0000000000000000000000000",
            "AA-00000000000000000000000000",
        ] {
            assert_eq!(partition_of_id(bad), None, "{bad}");
        }
    }

    /// Trap 8: a key is scoped to owner and thread, and parts can't run together.
    #[test]
    fn one_key_in_two_threads_gives_two_ids() {
        let id = |a: &Address| a.submission_id(&Place { partition: 0, tag: String::new() }, "k");
        assert_ne!(id(&address("t")), id(&address("u")));
        let shifted = Address { owner: "local/adah".into(), agent: "elper".into(), thread: "t".into() };
        assert_ne!(id(&address("t")), id(&shifted));
    }

    #[test]
    fn names_are_checked() {
        for good in ["a", "A-b_c.9", &"x".repeat(128)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".a", "a/b", "a b", "é", &"x".repeat(129)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
