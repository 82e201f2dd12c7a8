//! `writ inspect`: what there is.

use clap::Args;
use clap::Subcommand;
use serde_json::Value;
use serde_json::json;

use super::args::Global;
use super::blocks;
use super::blocks::Detail;
use super::exit;
use super::failure::Failure;
use super::names::SubmissionId;
use super::names::Thread;
use super::open;
use super::out::BOLD;
use super::out::Out;
use super::out::safe;
use super::out::styled;
use super::progress::Progress;
use super::session::PAGE_MESSAGES;
use super::session::Session;
use super::table;
use super::table::Column;
use super::table::Kind;

/// Show threads, submissions and messages.
///
/// Nothing is run and nothing is written.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ inspect threads
  writ inspect submissions
  writ inspect submissions --thread helper/trip
  writ inspect thread helper/trip --full
  writ inspect submission 3f-k2v6…")]
pub struct InspectArgs {
    /// What to look at.
    #[command(subcommand)]
    pub what: What,
}

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum What {
    /// One submission.
    #[command(after_help = "Examples:\n  writ inspect submission 3f-k2v6…\n  writ inspect submission 3f-k2v6… --json")]
    Submission {
        /// Its id.
        id: SubmissionId,
    },
    /// The submissions of all threads, or of one.
    #[command(after_help = "Examples:\n  writ inspect submissions\n  writ inspect submissions --thread helper/trip")]
    Submissions {
        /// Only those of AGENT/THREAD.
        #[arg(long, value_name = "AGENT/THREAD")]
        thread: Option<Thread>,
    },
    /// A thread and its messages.
    #[command(
        after_help = "Examples:\n  writ inspect thread helper/trip\n  writ inspect thread helper/trip --from 40 --full"
    )]
    Thread {
        /// AGENT/THREAD.
        thread: Thread,
        /// The first message shown.
        #[arg(long, default_value_t = 0, value_name = "N")]
        from: u64,
        /// Whole arguments and results instead of a line of each.
        #[arg(long)]
        full: bool,
    },
    /// All threads.
    #[command(after_help = "Examples:\n  writ inspect threads\n  writ inspect threads --json")]
    Threads,
}

const THREADS: &[Column] = &[
    Column { title: "AGENT", pointer: "/agent", kind: Kind::Plain },
    Column { title: "THREAD", pointer: "/thread", kind: Kind::Plain },
    Column { title: "MESSAGES", pointer: "/messages", kind: Kind::Plain },
    Column { title: "SUBMISSIONS", pointer: "/submissions", kind: Kind::Plain },
    Column { title: "AT WORK ON", pointer: "/operation/submission", kind: Kind::Plain },
    Column { title: "PHASE", pointer: "/operation/phase", kind: Kind::Plain },
];

const SUBMISSIONS: &[Column] = &[
    Column { title: "SUBMISSION", pointer: "/id", kind: Kind::Plain },
    Column { title: "AGENT", pointer: "/agent", kind: Kind::Plain },
    Column { title: "THREAD", pointer: "/thread", kind: Kind::Plain },
    Column { title: "STATE", pointer: "/state", kind: Kind::Plain },
    Column { title: "OUTCOME", pointer: "/outcome/status", kind: Kind::Plain },
    Column { title: "ATTEMPTS", pointer: "/attempt", kind: Kind::Plain },
    Column { title: "ACCEPTED", pointer: "/created", kind: Kind::Time },
    Column { title: "WHY", pointer: "/reason", kind: Kind::Plain },
];

/// Shows it.
pub async fn run(args: InspectArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::to_read(global).await?;
    match args.what {
        What::Submission { id } => submission(&session, &id, out).await?,
        What::Submissions { thread } => {
            let threads = match thread {
                Some(thread) => vec![thread],
                None => named(&threads(&session, out).await?),
            };
            let rows = submissions(&session, &threads, out).await?;
            let rows = if out.json { rows } else { rows.into_iter().map(with_cause).collect() };
            list("submissions", SUBMISSIONS, rows, out)?;
        }
        What::Thread { thread, from, full } => {
            let detail = if full { Detail::Full } else { Detail::Short };
            show_thread(&session, &thread, from, detail, out).await?;
        }
        What::Threads => list("threads", THREADS, threads(&session, out).await?, out)?,
    }
    Ok(exit::DONE)
}

fn list(what: &str, columns: &[Column], rows: Vec<Value>, out: Out) -> Result<(), Failure> {
    if out.json {
        return out.value(&json!({what: rows}));
    }
    if rows.is_empty() {
        return out.line(&format!("no {what}; begin with: writ run helper 'What is in the workspace?'"));
    }
    out.line(&table::render(columns, &rows, out))
}

async fn threads(session: &Session, out: Out) -> Result<Vec<Value>, Failure> {
    let progress = Progress::counter(out, "reading threads");
    let mut rows = Vec::new();
    let mut path = "/v1/threads".to_string();
    loop {
        let page = session.get(path).await?;
        rows.extend(page["threads"].as_array().cloned().unwrap_or_default());
        progress.at(rows.len() as u64, rows.len().to_string());
        let Some(next) = page["next"].as_str() else { return Ok(rows) };
        path = format!("/v1/threads?cursor={}", encoded(next));
    }
}

fn named(threads: &[Value]) -> Vec<Thread> {
    let name = |row: &Value| format!("{}/{}", row["agent"].as_str()?, row["thread"].as_str()?).parse().ok();
    threads.iter().filter_map(name).collect()
}

async fn submissions(session: &Session, threads: &[Thread], out: Out) -> Result<Vec<Value>, Failure> {
    let progress = Progress::bar(out, "reading submissions", threads.len() as u64);
    let mut rows = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        let mut after = 0;
        loop {
            let page = session.get(thread.path(&format!("/submissions?after={after}&limit={PAGE_MESSAGES}"))).await?;
            rows.extend(page["submissions"].as_array().cloned().unwrap_or_default());
            match page["next"].as_u64() {
                Some(next) if next > after => after = next,
                _ => break,
            }
        }
        progress.at(index as u64 + 1, "");
    }
    Ok(rows)
}

/// A submission with the cause of its outcome as the reason; an outcome that is good needs none.
fn with_cause(mut row: Value) -> Value {
    let Some(outcome) = row.get("outcome").filter(|outcome| outcome.is_object()) else { return row };
    let cause = outcome.pointer("/error/message").or(outcome.get("reason")).cloned().unwrap_or(Value::Null);
    row["reason"] = cause;
    row
}

async fn submission(session: &Session, id: &SubmissionId, out: Out) -> Result<(), Failure> {
    let record = session.record(id).await?;
    if out.json {
        return out.line(std::str::from_utf8(&record.body).unwrap_or("null"));
    }
    let value: Value = serde_json::from_slice(&record.body).unwrap_or(Value::Null);
    out.line(&fields(&value))
}

async fn show_thread(session: &Session, thread: &Thread, from: u64, detail: Detail, out: Out) -> Result<(), Failure> {
    let head = session.get(thread.path("")).await?;
    let count = head["messages"].as_u64().unwrap_or(0);
    if out.json {
        out.text(&format!("{{\"head\":{head},\"messages\":["))?;
    } else {
        out.line(&fields(&head))?;
    }
    let mut at = from;
    while at < count {
        let page = session.messages(thread, at, PAGE_MESSAGES.min(count - at)).await?;
        if page.is_empty() {
            break;
        }
        for raw in &page {
            if out.json {
                out.text(&format!("{}{raw}", if at > from { "," } else { "" }))?;
            } else {
                let message = serde_json::from_str(raw).unwrap_or(Value::Null);
                out.line(&blocks::message(at, &message, detail))?;
            }
            at += 1;
        }
    }
    if out.json { out.line("]}") } else { Ok(()) }
}

/// The fields of an object, one a line.
fn fields(object: &Value) -> String {
    let Some(map) = object.as_object() else { return object.to_string() };
    let width = map.keys().map(String::len).max().unwrap_or(0);
    let shown = |name: &str, value: &Value| match value {
        Value::String(text) => safe(text),
        Value::Number(number) if matches!(name, "created" | "deadline" | "due" | "settled") => {
            number.as_u64().map_or_else(|| number.to_string(), super::time::stamp)
        }
        other => safe(&other.to_string()),
    };
    let line = |(name, value): (&String, &Value)| {
        format!("{} {}", styled(BOLD, &format!("{name:width$}")), shown(name, value).replace('\n', "\n  "))
    };
    map.iter().filter(|(_, v)| !v.is_null()).map(line).collect::<Vec<_>>().join("\n")
}

/// A text as a value of a query.
fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_encoded() {
        assert_eq!(encoded("a/b=c é"), "a%2Fb%3Dc%20%C3%A9");
    }

    #[test]
    fn only_well_named_threads_are_asked_for() {
        let rows = [json!({"agent": "a", "thread": "t"}), json!({"agent": ".", "thread": "t"}), json!(1)];
        assert_eq!(named(&rows).len(), 1);
    }

    #[test]
    fn the_cause_of_an_outcome_is_the_reason() {
        let failed = json!({"reason": "r", "outcome": {"status": "failed", "error": {"message": "m"}}});
        assert_eq!(with_cause(failed)["reason"], "m");
        assert_eq!(with_cause(json!({"reason": "r", "outcome": {"reason": "cancelled"}}))["reason"], "cancelled");
        assert_eq!(with_cause(json!({"reason": "r", "outcome": {"status": "completed"}}))["reason"], Value::Null);
        assert_eq!(with_cause(json!({"reason": "r"}))["reason"], "r");
    }

    #[test]
    fn fields_are_readable() {
        let text =
            anstream::adapter::strip_str(&fields(&json!({"created": 0, "state": "settled", "x": null}))).to_string();
        assert_eq!(text, "created 1970-01-01 00:00:00Z\nstate   settled");
    }
}
