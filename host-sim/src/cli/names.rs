//! Names on the command line, parsed into types that can't hold a bad value.

use std::fmt;
use std::str::FromStr;

/// Longest name of an agent or thread.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest idempotency key.
pub const KEY_BYTES_MAX: usize = 256;
/// Longest submission id that is asked for.
pub const ID_BYTES_MAX: usize = 128;

/// The name of an agent or a thread: 1 to 128 of `A–Z a–z 0–9 . _ -`, not starting with a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A fresh name: a prefix of letters and 80 random bits.
    pub fn fresh(prefix: &str) -> Self {
        Self(format!("{prefix}-{}", random_text()))
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            return Err(format!("a name has 1 to {NAME_BYTES_MAX} characters, this one has {}", text.len()));
        }
        if text.starts_with('.') || !text.bytes().all(good) {
            return Err("a name is made of A–Z a–z 0–9 . _ - and doesn't start with a dot".into());
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A thread: `agent/thread`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The agent.
    pub agent: Name,
    /// The thread's name within the agent.
    pub thread: Name,
}

impl Thread {
    /// The path of the thread in the thread API, with a tail such as `/messages`.
    pub fn path(&self, tail: &str) -> String {
        format!("/v1/agents/{}/threads/{}{tail}", self.agent, self.thread)
    }
}

impl FromStr for Thread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((agent, thread)) = text.split_once('/') else {
            return Err("a thread is written AGENT/THREAD, for example helper/demo".into());
        };
        Ok(Self { agent: agent.parse()?, thread: thread.parse()? })
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent, self.thread)
    }
}

/// The id of a submission, as a receipt shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionId(String);

impl SubmissionId {
    /// The path of the submission in the thread API, with a tail such as `/cancel`.
    pub fn path(&self, tail: &str) -> String {
        format!("/v1/submissions/{}{tail}", self.0)
    }
}

impl FromStr for SubmissionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > ID_BYTES_MAX || !text.bytes().all(good) {
            return Err("an id is what a receipt shows, such as 3f-k2v…; see `writ inspect submissions`".into());
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A thread, or a submission whose thread is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A submission.
    Submission(SubmissionId),
    /// A thread.
    Thread(Thread),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') { text.parse().map(Self::Thread) } else { text.parse().map(Self::Submission) }
    }
}

/// An idempotency key: 1 to 256 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A fresh key: 80 random bits.
    pub fn fresh() -> Self {
        Self(random_text())
    }

    /// The key of an import, from the digest of its file: the same file again is the same import.
    pub fn of_import(digest: &str) -> Self {
        Self(format!("import-{digest}"))
    }

    /// The key of the n-th user message of a recording.
    pub fn of_replay(n: usize) -> Self {
        Self(format!("replay-{n}"))
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > KEY_BYTES_MAX || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!("a key has 1 to {KEY_BYTES_MAX} visible ASCII characters and no spaces"));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 80 random bits as 16 letters and digits. Without a source of randomness the time and the process id stand in: a
/// name that is not secret only has to be new.
fn random_text() -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0u8; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let seed = now.as_nanos() ^ (u128::from(std::process::id()) << 96);
        bytes = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_le_bytes();
    }
    bytes.iter().map(|b| char::from(DIGITS[usize::from(b & 31)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_only_good_values() {
        for good in ["a", "run-1", "A.b_c-9", &"x".repeat(128)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", ".a", "a b", "a/b", "ä", &"x".repeat(129)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_target_with_a_slash_is_a_thread() {
        assert!(
            matches!("helper/demo".parse(), Ok(Target::Thread(t)) if t.path("/fork").ends_with("/threads/demo/fork"))
        );
        assert!(matches!("3f-abc".parse(), Ok(Target::Submission(_))));
        assert!("helper/".parse::<Target>().is_err());
        assert!("a b".parse::<Target>().is_err());
        assert!("a/b/c".parse::<Target>().is_err());
    }

    #[test]
    fn keys_are_visible_ascii() {
        assert!("k1".parse::<Key>().is_ok());
        for bad in ["", "a b", "ü", &"k".repeat(257)] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
        assert_ne!(Key::fresh(), Key::fresh());
        assert!(Name::fresh("run").as_str().parse::<Name>().is_ok());
    }
}
