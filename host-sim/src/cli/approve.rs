//! `writ approve` and `writ deny`: answer a call that waits for a person, durably.

use clap::Args;
use serde_json::Value;
use serde_json::json;

use super::args::Global;
use super::blocks;
use super::exit;
use super::failure::Failure;
use super::names::SubmissionId;
use super::open;
use super::out::Out;
use super::record::Question;
use super::record::Record;
use super::session::Session;

/// Let a call run that waits for a person.
///
/// The answer is stored before the command says so, counts once, and only for the call and the arguments that are shown. The
/// submission goes on here until nothing is left to do.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ inspect submissions                 what waits
  writ approve 3f-k2v6…                    the only call that waits
  writ approve 3f-k2v6… --call 3.1")]
pub struct ApproveArgs {
    /// The id of a submission.
    pub id: SubmissionId,
    /// The call, MESSAGE.INDEX, if several wait.
    #[arg(long)]
    pub call: Option<String>,
}

/// Refuse a call that waits for a person.
///
/// The call is not run; the model is told so, with the reason, and goes on.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ deny 3f-k2v6… --reason 'Ask the customer first.'")]
pub struct DenyArgs {
    /// The id of a submission.
    pub id: SubmissionId,
    /// The call, MESSAGE.INDEX, if several wait.
    #[arg(long)]
    pub call: Option<String>,
    /// Why: the model sees it. At most 1,000 bytes.
    #[arg(long)]
    pub reason: Option<String>,
}

/// Approves and shows how the submission stands.
pub async fn approve(args: ApproveArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    decide(&args.id, args.call, json!({"decision": "approve"}), global, out).await
}

/// Denies and shows how the submission stands.
pub async fn deny(args: DenyArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    decide(&args.id, args.call, json!({"decision": "deny", "reason": args.reason}), global, out).await
}

async fn decide(
    id: &SubmissionId,
    call: Option<String>,
    mut answer: Value,
    global: &Global,
    out: Out,
) -> Result<u8, Failure> {
    let session = open::to_go_on(global, id).await?;
    let record = session.record(id).await?;
    // A call that does not wait is left to the component to judge: it may have been answered alike before.
    let question = match &call {
        Some(call) => record.questions.iter().find(|q| q.call == *call),
        None => Some(only(&record)?),
    };
    if let Some(question) = question {
        out.note(&format!("writ: {}", line(question)), &json!({"question": question}));
        answer["hash"] = json!(question.hash);
    }
    answer["call"] = json!(call.or_else(|| question.map(|q| q.call.clone())));
    session.ask("POST", id.path("/answer"), None, Some(&answer)).await?;
    session.runtime().idle().await;
    let record = session.record(id).await?;
    if out.json {
        out.line(std::str::from_utf8(&record.body).unwrap_or("null"))?;
    } else {
        let status = record.outcome.as_ref().map(|o| o.status.clone()).unwrap_or(record.state);
        out.line(&format!("{}: {status}{}", record.id, record.reason.map(|r| format!(" ({r})")).unwrap_or_default()))?;
    }
    Ok(exit::DONE)
}

/// A question, for people.
pub fn line(question: &Question) -> String {
    format!("call {}: {}", question.call, blocks::call_line(&question.tool, &question.arguments))
}

/// Answers one question of a submission.
pub async fn answer(session: &Session, id: &SubmissionId, question: &Question, approve: bool) -> Result<(), Failure> {
    let decision = if approve { "approve" } else { "deny" };
    let body = json!({"call": question.call, "hash": question.hash, "decision": decision});
    session.ask("POST", id.path("/answer"), None, Some(&body)).await.map(drop)
}

fn only(record: &Record) -> Result<&Question, Failure> {
    match record.questions.as_slice() {
        [question] => Ok(question),
        [] => {
            let reason = record.reason.as_deref().unwrap_or("the component gives no reason");
            let text = format!("no call of submission {} waits for an answer: {reason}", record.id);
            Err(Failure::new(exit::CONFLICT, "closed", text))
        }
        several => {
            let calls: Vec<String> = several.iter().map(line).collect();
            let text = format!("{} calls of submission {} wait: {}", several.len(), record.id, calls.join("; "));
            Err(Failure::new(exit::CONFLICT, "which-call", text).advise("Say which one with --call."))
        }
    }
}
