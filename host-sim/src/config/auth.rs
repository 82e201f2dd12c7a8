//! Who is let in: of tokens, only digests are kept.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::secret::Secret;

/// Whom the plain client token stands for.
pub const OPERATOR: &str = "local/operator";

/// Who is let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    /// Tokens, and whom they stand for.
    pub clients: Vec<Client>,
    /// Signs stream tokens, in hex.
    pub stream_key: Option<Secret>,
}

/// A token, and whom it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The token's SHA-256, in hex.
    pub digest: String,
    /// `realm/subject`.
    pub principal: String,
}

impl Auth {
    /// Whether there are several users, so that one must not see what is another's.
    pub fn is_multi_user(&self) -> bool {
        self.clients.iter().map(|client| &client.principal).collect::<BTreeSet<_>>().len() > 1
    }

    /// Lets one more token in, for whom the first one stands for.
    pub fn admit(&mut self, token: &Secret) {
        let principal = self.clients.first().map_or_else(|| OPERATOR.to_owned(), |client| client.principal.clone());
        self.clients.push(Client { digest: digest(token), principal });
    }

    /// The component's setting `auth`; `None` when nothing is set, and nobody is let in.
    pub fn setting(&self) -> Option<Value> {
        if self.clients.is_empty() && self.stream_key.is_none() {
            return None;
        }
        let client = |client: &Client| json!({"digest": client.digest, "principal": client.principal});
        let mut setting = json!({"clients": self.clients.iter().map(client).collect::<Vec<_>>()});
        if let Some(key) = &self.stream_key {
            setting["stream_key"] = key.expose().into();
        }
        Some(setting)
    }
}

/// The SHA-256 of a token, in hex.
pub(super) fn digest(token: &Secret) -> String {
    Sha256::digest(token.expose()).iter().map(|byte| format!("{byte:02x}")).collect()
}
