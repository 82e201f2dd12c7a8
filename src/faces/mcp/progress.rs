//! The frames of a call: progress from the journal, and its answer as the last one.

use super::ask::Ask;
use crate::error::{Problem, Refusal};
use crate::faces::frames::{Frame, Frames};
use crate::faces::rpc;
use crate::follow::{Feed, What, follow};
use crate::ports::Ports;
use crate::prelude::*;
use crate::view;
use serde_json::{Value, json};

/// A page of a call's frames.
pub fn frames(ports: &Ports, feed: &Feed, ask: &str, after: u64) -> Result<Frames, Refusal> {
    let ask = Ask::parse(ask).ok_or_else(Problem::not_found)?;
    let id = match &feed.what {
        // Waited for, not shown.
        What::Outcome(id) => return Ok(Frames { next: after, end: view::is_due(ports, id)?, ..Frames::default() }),
        What::Submission(id) => id,
        What::Thread => return Err(Problem::not_found().into()),
    };
    let page = follow(ports, feed, after)?;
    let mut told: Vec<Frame> = Vec::new();
    if let Some(token) = &ask.token {
        for (number, event) in &page.frames {
            if let Some(message) = message(event) {
                let params = json!({"progressToken": token, "progress": number, "message": message});
                let event = rpc::notification("notifications/progress", params);
                told.push(Frame { number: *number, name: None, event });
            }
        }
    }
    let end = page.end || view::is_due(ports, id)?;
    if end {
        let event = ask.answer(ports, None, id)?;
        told.push(Frame { number: page.next, name: None, event });
    }
    Ok(Frames { frames: told, next: page.next, end })
}

/// What an event says to people; `None`: nothing.
fn message(event: &Value) -> Option<String> {
    let text = |name: &str| event[name].as_str().map(str::to_owned);
    match event["type"].as_str()? {
        "attempt" => Some(format!("Attempt {} begins.", event["attempt"])),
        "text" => text("text"),
        "messages" => event["messages"].as_array()?.iter().rev().find_map(of_message),
        "retrying" | "waiting" => text("reason"),
        "paused" => Some("It is paused.".into()),
        "resumed" => Some("It goes on.".into()),
        "question" => Some("It waits for an approval.".into()),
        "answered" => Some("A question was answered.".into()),
        _ => None,
    }
}

/// Calls and results are worth a line; texts were told as they came.
fn of_message(shown: &Value) -> Option<String> {
    let message = &shown["message"];
    match shown["role"].as_str()? {
        "assistant" => {
            let calls = message["content"].as_array()?.iter().filter(|block| block["type"] == "toolCall");
            let names: Vec<&str> = calls.filter_map(|call| call["name"].as_str()).collect();
            (!names.is_empty()).then(|| format!("It calls {}.", names.join(", ")))
        }
        "toolResult" => Some(format!("{} has answered.", message["toolName"].as_str()?)),
        _ => None,
    }
}
