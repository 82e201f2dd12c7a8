//! A call that waits: what of the request its answer needs, when the time has come.

use super::envelope::Era;
use super::questions;
use super::results;
use crate::approval;
use crate::auth;
use crate::error::Refusal;
use crate::faces::call::Call;
use crate::faces::path::encode;
use crate::faces::rpc::{self, Fault};
use crate::ports::Ports;
use crate::prelude::*;
use crate::view;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What signs the path of a wait.
const DOMAIN: &str = "writ/mcp/ask/1";

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

    /// The path that gives the answer. Signed: what it says was read from a request, and is not to be said by others.
    pub fn path(&self, ports: &Ports, owner: &str, id: &str) -> Result<String, Refusal> {
        let text = self.text();
        let signed = auth::signature(ports, &[DOMAIN, owner, id, &text])?;
        Ok(format!("/mcp/calls/{id}?signed={signed}&ask={}", encode(&text)))
    }

    /// The one of a path, if it was given for this submission of this owner.
    pub fn taken(call: &Call, id: &str) -> Result<Option<Self>, Refusal> {
        let (Some(text), Some(signed)) = (call.path.query("ask"), call.path.query("signed")) else { return Ok(None) };
        let is_given = auth::is_signed(&call.ports, &[DOMAIN, &call.owner, id, text], signed)?;
        Ok(Self::parse(text).filter(|_| is_given))
    }

    /// The answer as things stand: the outcome, what is asked, or that it is not done yet. `owner` must have it, or it has
    /// gone; `None` trusts the name of a feed, which only this face makes.
    pub fn answer(&self, ports: &Ports, owner: Option<&str>, id: &str) -> Result<Value, Refusal> {
        let record = view::record(ports, id)?;
        let Some(record) = record.filter(|record| owner.is_none_or(|owner| owner == record.address.owner)) else {
            return Ok(gone().response(&self.id));
        };
        let questions = approval::questions(ports, id, &record)?;
        let result = match self.elicit && !questions.is_empty() {
            true => questions::required(ports, id, &record, &questions, &self.digest)?,
            false => results::tool_result(ports, id, &record)?,
        };
        Ok(rpc::response(&self.id, self.era.dressed(result)))
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
    fn an_ask_is_read_as_it_was_written() {
        let ask =
            Ask { id: json!("é /?#&%"), era: Era::Modern, elicit: true, token: Some(json!(7)), digest: "00".into() };
        assert_eq!(Ask::parse(&ask.text()), Some(ask));
        assert_eq!(Ask::parse("{}"), None);
    }
}
