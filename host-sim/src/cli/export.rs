//! `writ export`: a thread as JSON Lines.

use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use clap::Args;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::names::Target;
use super::names::Thread;
use super::open;
use super::out::Out;
use super::progress::Progress;
use super::session::PAGE_MESSAGES;
use super::session::Session;

/// Write a thread as JSON Lines.
///
/// The file is a `session` line and then every message, each exactly as it is stored. `writ import`, `writ check` and
/// `writ replay` read it. Nothing is run, nothing is written to the store.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ export helper/trip > trip.jsonl
  writ export helper/trip -o trip.jsonl
  writ export 3f-k2v6…                     the thread of that submission")]
pub struct ExportArgs {
    /// A thread as AGENT/THREAD, or the id of one of its submissions.
    pub id: Target,
    /// The file; without it, stdout. It appears whole or not at all.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Writes the file.
pub async fn run(args: ExportArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::to_read(global).await?;
    let thread = session.thread_of(&args.id).await?;
    let Some(path) = &args.output else {
        write(&session, &thread, out, |line| out.bytes(line)).await?;
        return Ok(exit::DONE);
    };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).map_err(|e| Failure::file(path, "written", &e))?;
    let mut writer = std::io::BufWriter::new(file);
    let count =
        write(&session, &thread, out, |line| writer.write_all(line).map_err(|e| Failure::file(path, "written", &e)))
            .await?;
    let file = writer.into_inner().map_err(|e| Failure::file(path, "written", e.error()))?;
    file.as_file().sync_all().map_err(|e| Failure::file(path, "flushed", &e))?;
    file.persist(path).map_err(|e| Failure::file(path, "written", &e.error))?;
    let text = format!("writ: {count} messages of {thread} are in {}", path.display());
    out.note(&text, &json!({"thread": thread.to_string(), "messages": count, "file": path.display().to_string()}));
    Ok(exit::DONE)
}

/// Gives all lines of a thread to `line`, each with its line feed; returns the number of messages.
pub async fn write(
    session: &Session,
    thread: &Thread,
    out: Out,
    mut line: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let head = session.get(thread.path("")).await?;
    let count = head["messages"].as_u64().unwrap_or(u64::MAX);
    let progress = Progress::bar(out, "exporting", if count == u64::MAX { 0 } else { count });
    line(format!("{}\n", session_line(thread, &head)).as_bytes())?;
    let mut from = 0;
    while from < count {
        let page = session.messages(thread, from, PAGE_MESSAGES.min(count - from)).await?;
        if page.is_empty() {
            break;
        }
        for message in &page {
            line(format!("{{\"type\":\"message\",\"message\":{message}}}\n").as_bytes())?;
        }
        from += page.len() as u64;
        progress.at(from, "");
    }
    if count != u64::MAX && from != count {
        let text = format!("{thread} says that it has {count} messages and gave {from}");
        return Err(Failure::internal("answer", text).advise("Run `writ check`: a message seems to be missing."));
    }
    Ok(from)
}

/// The first line of the file, from the thread's head.
pub fn session_line(thread: &Thread, head: &Value) -> Value {
    let mut line = Map::new();
    line.insert("type".into(), "session".into());
    line.insert("format".into(), "writ/1".into());
    line.insert("agent".into(), thread.agent.as_str().into());
    line.insert("thread".into(), thread.thread.as_str().into());
    for name in ["boundary", "state", "title"] {
        if let Some(value) = head.get(name).filter(|v| !v.is_null()) {
            line.insert(name.into(), value.clone());
        }
    }
    Value::Object(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::Fake;
    use crate::cli::testing::QUIET;

    #[tokio::test]
    async fn every_message_is_written_as_it_is_stored() {
        let session = Fake::session(|ask| match ask.path.rsplit_once('?') {
            None => (200, r#"{"messages":2,"boundary":0,"title":null,"state":{"b":1,"a":2}}"#.into()),
            Some((_, "after=0&limit=2")) => (200, r#"{"messages":[{"b":1,"a":2.0}, {"c":[ ]}]}"#.into()),
            Some((_, other)) => panic!("{other}"),
        });
        let mut file = Vec::new();
        let thread = "a/t".parse().unwrap();
        let count = write(&session, &thread, QUIET, |line| {
            file.extend_from_slice(line);
            Ok(())
        });
        assert_eq!(count.await.unwrap(), 2);
        let lines = [
            r#"{"agent":"a","boundary":0,"format":"writ/1","state":{"a":2,"b":1},"thread":"t","type":"session"}"#,
            r#"{"type":"message","message":{"b":1,"a":2.0}}"#,
            r#"{"type":"message","message":{"c":[ ]}}"#,
        ];
        assert_eq!(String::from_utf8(file).unwrap(), format!("{}\n", lines.join("\n")));
    }

    #[tokio::test]
    async fn a_hole_is_no_export() {
        let session = Fake::session(|ask| match ask.path.contains('?') {
            false => (200, r#"{"messages":2}"#.into()),
            true if ask.path.contains("after=0") => (200, r#"{"messages":[{}]}"#.into()),
            true => (200, r#"{"messages":[]}"#.into()),
        });
        let failure = write(&session, &"a/t".parse().unwrap(), QUIET, |_| Ok(())).await.unwrap_err();
        assert_eq!(failure.exit, exit::INTERNAL);
    }
}
