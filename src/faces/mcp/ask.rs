//! A call that waits: what of the request its answer needs, when the time has come.

use super::envelope::Era;
use super::questions;
use super::results;
use crate::approval;
use crate::error::{Problem, Refusal};
use crate::faces::rpc::{self, Fault};
use crate::ports::Ports;
use crate::prelude::*;
use crate::view;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What of a call its answer needs. It travels in the name of a feed and in the path of a wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Id of the request.
    pub id: Value,
    /// Its era.
    pub era: Era,
    /// Whether the client can be asked something.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub elicit: bool,
    /// What progress is told under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Value>,
    /// Hash of the call: a state that is given out is good for this call only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

impl Ask {
    /// Reads one.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As text, for a feed.
    pub fn text(&self) -> String {
        // It has string keys only: nothing in it can refuse.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The path that gives the answer.
    pub fn path(&self, id: &str) -> String {
        let mut path = format!("/mcp/calls/{id}?ask=");
        for byte in self.text().bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
                _ => path.push_str(&format!("%{byte:02X}")),
            }
        }
        path
    }

    /// The answer as things stand: the outcome, what is asked, or that it is not done yet; with its HTTP status. `owner`
    /// must have it; `None` trusts the name of a feed, which only this face makes.
    pub fn answer(&self, ports: &Ports, owner: Option<&str>, id: &str) -> Result<(u16, Value), Refusal> {
        let Some(record) = view::record(ports, id)? else {
            return match owner {
                Some(_) => Err(Problem::not_found().into()),
                None => Ok((200, gone().response(&self.id))),
            };
        };
        if owner.is_some_and(|owner| owner != record.address.owner) {
            return Err(Problem::not_found().into());
        }
        let questions = approval::questions(ports, id, &record)?;
        let result = match self.elicit && !questions.is_empty() {
            true => questions::required(ports, id, &record, &questions, &self.digest)?,
            false => results::tool_result(ports, id, &record)?,
        };
        Ok((200, rpc::response(&self.id, self.era.dressed(result))))
    }
}

fn gone() -> Fault {
    Fault::new(rpc::INVALID_PARAMS, "The session was deleted, and this submission with it.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_ask_survives_its_path() {
        let ask =
            Ask { id: json!("é /?#&%"), era: Era::Modern, elicit: true, token: Some(json!(7)), digest: "00".into() };
        let path = ask.path("50-k71a5bvrh7j2aspdem614x068y");
        let path = crate::faces::path::Path::parse(&path).unwrap();
        assert_eq!(path.query("ask").and_then(Ask::parse), Some(ask));
        assert_eq!(Ask::parse("{}"), None);
    }
}
