//! `writ import`: a thread from an exported file.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use serde_json::json;
use sha2::Digest;
use sha2::Sha256;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::names::Key;
use super::names::Name;
use super::names::Thread;
use super::open;
use super::out::Out;
use super::progress::Progress;
use super::recording::Exported;
use super::runtime::Ask;
use super::session::BODY_BYTES_MAX;
use super::session::Session;

/// Most messages of one page.
const PAGE_MESSAGES_MAX: usize = 48;
/// What a page has besides its messages: `{"messages":[` and `]}`.
const FRAME_BYTES: usize = 15;

/// Make a thread of an exported file.
///
/// The thread appears whole, with the last page, or not at all. A killed import goes on where it was when the same
/// command is given again. `writ export` of the result gives the same bytes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ import trip.jsonl                              as the file says
  writ import trip.jsonl --thread trip-copy           under another name
  writ import trip.jsonl --agent helper --data /tmp/other")]
pub struct ImportArgs {
    /// The file.
    pub file: PathBuf,
    /// The agent, instead of the one that the file names.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<Name>,
    /// The thread, instead of the one that the file names.
    #[arg(long, value_name = "NAME")]
    pub thread: Option<Name>,
}

/// Imports it.
pub async fn run(args: ImportArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let file = Exported::read(&args.file)?;
    let head: Value = file.session.as_deref().and_then(|s| serde_json::from_str(s).ok()).unwrap_or_else(|| json!({}));
    let thread = Thread {
        agent: name(args.agent, &head["agent"], "--agent")?,
        thread: name(args.thread, &head["thread"], "--thread")?,
    };
    let pages = pages(&file)?;
    let session = open::to_write(global).await?;
    let done = send(&session, &thread, &file, &head, &pages, out).await?;
    session.runtime().idle().await;
    if out.json {
        out.value(&json!({"thread": thread.to_string(), "messages": done}))?;
    } else {
        out.line(&format!("{thread}: {done} messages of {}", args.file.display()))?;
    }
    Ok(exit::DONE)
}

/// Begins the import, or meets the one that was begun, and sends what is missing.
async fn send(
    session: &Session,
    thread: &Thread,
    file: &Exported,
    head: &Value,
    pages: &[(usize, usize)],
    out: Out,
) -> Result<u64, Failure> {
    let total = file.messages.len() as u64;
    let digest = digest(file);
    let key = Key::of_import(&digest);
    let begin = json!({"session": head, "count": total, "digest": digest});
    let answer = session.ask("POST", thread.path("/import"), Some(&key), Some(&begin)).await?;
    let mut finished = answer.status == 200;
    let mut done = answer.json()?["done"].as_u64().unwrap_or(if finished { total } else { 0 });
    let progress = Progress::bar(out, "importing", total);
    progress.at(done, "");
    while !finished {
        let Some(&(from, to)) = pages.iter().find(|(_, to)| *to as u64 > done) else { break };
        let from = from.max(usize::try_from(done).unwrap_or(usize::MAX));
        let page: Vec<&str> = file.messages[from..to].iter().map(|(_, raw)| raw.as_str()).collect();
        let body = format!("{{\"messages\":[{}]}}", page.join(",")).into_bytes();
        let headers = vec![("content-type".to_string(), "application/json".to_string())];
        let path = thread.path(&format!("/import/{from}"));
        let answer = session.send(Ask { method: "POST", path, headers, body }).await?;
        finished = answer.status == 200;
        let now = answer.json()?["done"].as_u64().unwrap_or(to as u64);
        if now <= done && !finished {
            return Err(Failure::internal("import", format!("the import stands still at message {done} of {total}")));
        }
        done = now;
        progress.at(done, "");
    }
    if finished {
        return Ok(total);
    }
    Err(Failure::internal("import", format!("all {total} messages were sent and the thread is not published")))
}

/// What tells this file's messages from others', in hex: SHA-256 over each of them and a line feed.
fn digest(file: &Exported) -> String {
    let mut hash = Sha256::new();
    for (_, raw) in &file.messages {
        hash.update(raw.as_bytes());
        hash.update(b"\n");
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The ranges of messages that make a page.
fn pages(file: &Exported) -> Result<Vec<(usize, usize)>, Failure> {
    let mut pages = Vec::new();
    let (mut from, mut bytes) = (0, FRAME_BYTES);
    for (index, (line, raw)) in file.messages.iter().enumerate() {
        let size = raw.len() + 1;
        if FRAME_BYTES + size > BODY_BYTES_MAX {
            let text = format!("line {line} has {size} bytes; a request holds {BODY_BYTES_MAX}");
            return Err(Failure::refused("too-large", text).fact("limit", BODY_BYTES_MAX).fact("value", size));
        }
        if index - from == PAGE_MESSAGES_MAX || bytes + size > BODY_BYTES_MAX {
            pages.push((from, index));
            (from, bytes) = (index, FRAME_BYTES);
        }
        bytes += size;
    }
    if from < file.messages.len() {
        pages.push((from, file.messages.len()));
    }
    Ok(pages)
}

fn name(given: Option<Name>, stored: &Value, option: &str) -> Result<Name, Failure> {
    if let Some(name) = given {
        return Ok(name);
    }
    let Some(text) = stored.as_str() else {
        let text = format!("the file's session line doesn't say it: give {option}");
        return Err(Failure::refused("name-missing", text));
    };
    text.parse()
        .map_err(|e| Failure::refused("name", format!("{text:?} can't be used: {e}")).advise(format!("Give {option}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(sizes: &[usize]) -> Exported {
        let message = |(n, size): (usize, &usize)| (n + 1, "m".repeat(*size));
        Exported { session: None, messages: sizes.iter().enumerate().map(message).collect() }
    }

    #[test]
    fn pages_keep_both_limits() {
        assert_eq!(pages(&file(&[])).unwrap(), []);
        assert_eq!(pages(&file(&[1; 48])).unwrap(), [(0, 48)]);
        assert_eq!(pages(&file(&[1; 97])).unwrap(), [(0, 48), (48, 96), (96, 97)]);
        let most = BODY_BYTES_MAX - FRAME_BYTES - 1;
        assert_eq!(pages(&file(&[most, 1, most])).unwrap(), [(0, 1), (1, 2), (2, 3)]);
        let failure = pages(&file(&[1, most + 1])).unwrap_err();
        assert_eq!((failure.exit, failure.facts["limit"].as_u64()), (exit::REFUSED, Some(262_144)));
        assert!(failure.message.contains("line 2"));
    }

    #[test]
    fn names_come_from_the_file_or_the_options() {
        assert_eq!(name(None, &json!("t"), "--thread").unwrap().as_str(), "t");
        assert!(name(None, &Value::Null, "--thread").unwrap_err().message.contains("--thread"));
        assert_eq!(name("x".parse().ok(), &Value::Null, "--thread").unwrap().as_str(), "x");
    }

    /// An import half done: the component goes on from `done`, and takes pages that begin there.
    #[tokio::test]
    async fn a_killed_import_goes_on_where_it_was() {
        let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = asked.clone();
        let session = crate::cli::testing::Fake::session(move |ask| {
            let path = ask.path.rsplit("/t/").next().unwrap_or_default().to_string();
            let page: Value = serde_json::from_slice(&ask.body).unwrap();
            let sent = page["messages"].as_array().map_or(0, Vec::len);
            log.lock().unwrap().push(format!("{path} {sent}"));
            match path.as_str() {
                "import" => (202, r#"{"done":30}"#.into()),
                "import/30" => (202, r#"{"done":48}"#.into()),
                "import/48" => (200, r#"{"done":60}"#.into()),
                other => panic!("{other}"),
            }
        });
        let mut file = file(&[]);
        file.messages = (0..60).map(|n| (n, format!("{n}"))).collect();
        let pages = pages(&file).unwrap();
        let thread = "a/t".parse().unwrap();
        let done = send(&session, &thread, &file, &json!({}), &pages, crate::cli::testing::QUIET).await.unwrap();
        assert_eq!(done, 60);
        assert_eq!(*asked.lock().unwrap(), ["import 0", "import/30 18", "import/48 12"]);
    }
}
