//! Compaction: the context is summarised and its boundary moves. Nothing is deleted (design §5).
//!
//! It runs between turns. A crash before its one commit costs nothing but the summary.

use super::ask::{Asked, collect, describe, request};
use super::batch::Flow;
use super::context::Context;
use super::turn::Turn;
use crate::agent::Rendered;
use crate::prelude::*;
use crate::record::Outcome;
use crate::session::{Message, Role};
use crate::store::Stop;

/// Tokens kept free in the window for instructions, tools and the answer; never more than a third of it.
const RESERVE_TOKENS: u64 = 16_384;

/// About how many of the last tokens stay as they are; never more than a third of the window.
const KEEP_TOKENS: u64 = 20_000;

/// How often a summary that is no good is asked for again.
const TRIES: u32 = 2;

/// Whether the context has outgrown the model's window.
pub(crate) fn is_due(turn: &mut Turn, rendered: &Rendered) -> Result<bool, Stop> {
    turn.window = describe(turn, rendered)?;
    let Some(window) = turn.window else { return Ok(false) };
    if turn.context.is_none() {
        turn.context = Some(Context::load(&turn.s)?);
    }
    let tokens = turn.context.as_ref().map_or(0, |context| context.tokens(turn.window));
    Ok(tokens > window - RESERVE_TOKENS.min(window / 3))
}

/// Summarises what is before the cut, and moves the boundary in one commit (C8). What can't be summarised fails the
/// submission plainly (C3).
pub(crate) fn run(turn: &mut Turn, rendered: &Rendered) -> Result<Flow, Stop> {
    if turn.context.is_none() {
        turn.context = Some(Context::load(&turn.s)?);
    }
    let window = describe(turn, rendered)?.unwrap_or(u64::from(u32::MAX));
    // Not put back: what comes next reads it anew, or has ended.
    let mut messages = turn.context.take().map(|context| context.messages).unwrap_or_default();
    // A model may find a context too large that is small by our count: then half of it goes.
    let half = messages.iter().map(|(_, m)| m.tokens()).sum::<u64>() / 2;
    let Some(cut) = cut(&messages, KEEP_TOKENS.min(window / 3).min(half)) else {
        let text = "The context is too large for the model, and there is nothing in it that a summary could replace.";
        turn.end(Outcome::failed("overflow", text), Vec::new())?;
        return Ok(Flow::Ended);
    };
    let kept = messages[cut].0;
    messages.truncate(cut);
    let source = Context::of(messages);
    let size: usize = source.messages.iter().map(|(_, m)| m.plain_text().len()).sum();
    let mut why = String::new();
    for _ in 0..TRIES {
        let mut ask = request(turn, rendered, source.project_whole(turn.window), "[]".into(), "summary");
        ask.system =
            "Summarise the conversation so that it can go on from the summary alone: goals, decisions, facts, \
                      open ends, names and paths. Answer with the summary only."
                .into();
        match collect(turn, &ask, false)? {
            Asked::Cancelled => return Ok(Flow::Ended),
            Asked::Failed(error, _) => why = format!("{error:?}"),
            Asked::Answer(answer, stop) => match fit(&answer, stop, size) {
                Ok(text) => return store(turn, &text, kept),
                Err(reason) => why = reason.to_owned(),
            },
        }
    }
    let text = format!("The context is too large, and no usable summary could be made of it: {why}");
    turn.end(Outcome::failed("compaction", text), Vec::new())?;
    Ok(Flow::Ended)
}

fn store(turn: &mut Turn, text: &str, kept: u64) -> Result<Flow, Stop> {
    let mut summary = Message::text(Role::Summary, text, turn.s.ports.clock.now());
    summary.kept = Some(kept);
    summary.submission = Some(turn.id.clone());
    let mut writes = Vec::new();
    let n = turn.append(summary, &mut writes);
    turn.s.head.boundary = Some(n);
    turn.commit(writes)?;
    turn.context = None;
    Ok(Flow::GoOn)
}

/// Where the kept tail begins: the last place that keeps about so many tokens, never between a call and its result.
/// `None`: there is nothing before it.
fn cut(messages: &[(u64, Message)], keep: u64) -> Option<usize> {
    let mut tokens = 0;
    let mut best = None;
    for (i, (_, message)) in messages.iter().enumerate().rev() {
        tokens += message.tokens();
        let boundary = matches!(message.role, Role::User | Role::Assistant) && !message.broke_off();
        if boundary && i > 0 {
            if tokens > keep && best.is_some() {
                break;
            }
            best = Some(i);
        }
    }
    // A cut right after the previous summary would replace it by a summary of itself.
    best.filter(|i| messages[..*i].iter().any(|(_, m)| !matches!(m.role, Role::Summary | Role::Notice)))
}

/// The summary's text, or why it is no good.
fn fit(answer: &Message, stop: crate::ports::StopReason, source: usize) -> Result<String, &'static str> {
    let text = answer.plain_text();
    if stop != crate::ports::StopReason::End {
        return Err("it was cut off");
    }
    if text.trim().is_empty() {
        return Err("it is empty");
    }
    if text.len() > source.max(1024) {
        return Err("it is longer than what it summarises");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::StopReason;
    use serde_json::json;

    fn text(role: Role, n: usize) -> Message {
        Message::text(role, &"x".repeat(n * 4), 0)
    }

    fn numbered(messages: Vec<Message>) -> Vec<(u64, Message)> {
        (0..).zip(messages).collect()
    }

    /// B34: never between a call and its result.
    /// Shows A39.
    #[test]
    fn the_cut_is_at_a_pair_boundary() {
        let mut call = text(Role::Assistant, 10);
        call.content.push(json!({"type": "toolCall", "id": "1", "name": "t", "arguments": {}}));
        let messages =
            numbered(vec![text(Role::User, 500), call, text(Role::ToolResult, 300), text(Role::Assistant, 10)]);
        assert_eq!(cut(&messages, 100), Some(3));
        assert_eq!(cut(&messages, 400), Some(1));
        assert_eq!(cut(&messages, 10_000), Some(1));
    }

    /// Shows C1.
    #[test]
    fn a_lone_message_can_not_be_cut() {
        assert_eq!(cut(&numbered(vec![text(Role::User, 500)]), 100), None);
        assert_eq!(cut(&numbered(vec![text(Role::Summary, 50), text(Role::User, 500)]), 100), None);
    }

    /// C3: an empty, cut-off or longer summary is refused.
    #[test]
    fn a_summary_that_is_no_good_is_refused() {
        let answer = |t: &str| Message::text(Role::Assistant, t, 0);
        assert!(fit(&answer("short"), StopReason::End, 2000).is_ok());
        assert!(fit(&answer(" "), StopReason::End, 2000).is_err());
        assert!(fit(&answer("short"), StopReason::Length, 2000).is_err());
        assert!(fit(&answer(&"x".repeat(3000)), StopReason::End, 2000).is_err());
    }
}
