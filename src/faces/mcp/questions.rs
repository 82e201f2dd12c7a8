//! Questions to a person, as elicitations; the answers; and the state that leads from one to the other.

use super::envelope::Asked;
use super::fail::Fail;
use crate::approval::{self, Decision, Question, REASON_BYTES_MAX, Reply};
use crate::auth;
use crate::error::Refusal;
use crate::faces::answer::Work;
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::Submission;
use crate::view;
use serde_json::{Map, Value, json};

/// How long a call may be taken up again with the state that it was given, in milliseconds.
const STATE_MS: u64 = 60 * 60 * 1000;

/// Longest state that is looked at, in bytes.
const STATE_BYTES_MAX: usize = 256;

/// Longest part of arguments that is shown in a question, in characters.
const SHOWN_CHARS_MAX: usize = 2000;

/// What signs a state.
const DOMAIN: &str = "writ/mcp/state/1";

/// The requests for open questions, by key.
pub fn requests(questions: &[Question]) -> Value {
    let request = |q: &Question| {
        let arguments = q.arguments.to_string();
        let mut shown: String = arguments.chars().take(SHOWN_CHARS_MAX).collect();
        if shown.len() < arguments.len() {
            shown.push('…');
        }
        let params = json!({
            "mode": "form",
            "message": format!("May {} be called with {shown}?", q.tool),
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "confirm": {"type": "boolean", "title": "Confirm", "description": "Whether the call may run."},
                    "reason": {"type": "string", "title": "Reason", "description": "Why not, for the agent to read."},
                },
                "required": ["confirm"],
            },
        });
        (key(q), json!({"method": "elicitation/create", "params": params}))
    };
    Value::Object(questions.iter().map(request).collect())
}

/// The key of a question: a call is asked about once, so it is never used again.
fn key(question: &Question) -> String {
    let hash = question.hash.trim_start_matches("sha256:");
    format!("{}-{}", question.call, hash.get(..16).unwrap_or(hash))
}

/// Gives answers to open questions. What is not open (any more), and what is no answer, is passed over. What has to run then.
pub fn answer(
    ports: &Ports,
    id: &str,
    sub: &Submission,
    responses: &Map<String, Value>,
) -> Result<Option<Work>, Refusal> {
    let mut work = None;
    for question in approval::questions(ports, id, sub)? {
        let Some(decision) = responses.get(&key(&question)).and_then(decision) else { continue };
        let owner = &sub.address.owner;
        let reply = Reply { call: &question.call, hash: Some(&question.hash), decision, message: None };
        match approval::answer(*ports, owner, id, reply) {
            Ok(accepted) => work = Some(Work::run(&accepted)),
            // Somebody else was first.
            Err(Refusal::Problem(problem)) if problem.status == 409 => {}
            // What was answered before it counts; the others are asked again.
            Err(_) if work.is_some() => break,
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(work)
}

fn decision(response: &Value) -> Option<Decision> {
    let cut = |reason: &str| reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
    let reason = || response["content"]["reason"].as_str().filter(|r| !r.is_empty()).map(cut);
    match (response["action"].as_str()?, response["content"]["confirm"].as_bool()) {
        ("accept", Some(true)) => Some(Decision::Approve),
        ("accept", Some(false)) => Some(Decision::Deny(reason())),
        ("decline" | "cancel", _) => Some(Decision::Deny(None)),
        _ => None,
    }
}

/// The result that asks before it goes on.
pub fn required(
    ports: &Ports,
    id: &str,
    sub: &Submission,
    questions: &[Question],
    digest: &str,
) -> Result<Value, Refusal> {
    let expires = ports.clock.now().saturating_add(STATE_MS);
    let signed = auth::signature(ports, &[DOMAIN, &expires.to_string(), &sub.address.owner, id, digest])?;
    Ok(json!({
        "resultType": "input_required",
        "inputRequests": requests(questions),
        "requestState": format!("{expires}.{id}.{signed}"),
    }))
}

/// The submission that a state leads back to, if this client may take it up with this call now.
pub fn taken_up(asked: &Asked, state: &Value, digest: &str) -> Result<(String, Submission), Fail> {
    let bad = || Fail::params("`requestState` is not one that was given for this call. Call again without it.");
    let state = state.as_str().filter(|state| state.len() <= STATE_BYTES_MAX).ok_or_else(bad)?;
    let (ports, owner) = (&asked.call.ports, asked.call.owner.as_str());
    let mut parts = state.split('.');
    let (Some(until), Some(id), Some(signed), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(bad());
    };
    if !auth::is_signed(ports, &[DOMAIN, until, owner, id, digest], signed)? {
        return Err(bad());
    }
    if until.parse().is_ok_and(|until: u64| until <= ports.clock.now()) {
        return Err(Fail::params("`requestState` has expired. Call again without it."));
    }
    Ok((id.to_owned(), view::find(ports, owner, id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_decisions() {
        let deny = |reason: Option<&str>| Some(Decision::Deny(reason.map(str::to_owned)));
        for (response, expected) in [
            (json!({"action": "accept", "content": {"confirm": true}}), Some(Decision::Approve)),
            (json!({"action": "accept", "content": {"confirm": false}}), deny(None)),
            (json!({"action": "accept", "content": {"confirm": false, "reason": "no"}}), deny(Some("no"))),
            (json!({"action": "decline"}), deny(None)),
            (json!({"action": "cancel"}), deny(None)),
            (json!({"action": "accept"}), None),
            (json!({"action": "accept", "content": {"confirm": "yes"}}), None),
            (json!({"action": "run"}), None),
            (json!("accept"), None),
        ] {
            assert_eq!(decision(&response), expected, "{response}");
        }
    }
}
