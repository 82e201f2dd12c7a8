//! The workspace: a thread's files, kept in the store.
//!
//! All four tools are `replay-safe`. `write` and `edit` remember the last effect keys that they applied to a file, in
//! the commit that applied them, so a call that is run again gets its recorded reply and changes nothing.

mod files;
mod path;

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::json;

use self::files::Change;
use self::files::Files;
use self::path::WorkspacePath;
use super::Call;
use super::Declaration;
use super::Policy;
use super::Reply;
use super::Tools;
use super::toolbox::unknown_tool;
use crate::store::Store;

/// Largest file, in bytes of UTF-8.
pub const FILE_BYTES_MAX: usize = 192 * 1024;
/// Most files of one thread.
pub const FILES_MAX: usize = 1000;
/// Longest path, in bytes, once normalised.
pub const PATH_BYTES_MAX: usize = 512;
/// Effect keys that a file remembers: twice the calls that one message may have open.
pub const EFFECTS_REMEMBERED: usize = 64;
/// Largest reply, in bytes of JSON, as `wit/tools.wit` allows.
pub const REPLY_BYTES_MAX: usize = 1024 * 1024;

const NAMES: [&str; 4] = ["read", "write", "edit", "list"];

/// `read`, `write`, `edit` and `list` on files that belong to the calling thread.
pub struct Workspace {
    files: Files,
}

impl Workspace {
    /// A workspace in `store`, under `host/ws/`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { files: Files::new(store) }
    }

    async fn answer(&self, call: &Call) -> Result<String, String> {
        match call.name.as_str() {
            "read" => self.read(call).await,
            "write" => self.write(call).await,
            "edit" => self.edit(call).await,
            _ => self.list(call).await,
        }
    }

    async fn read(&self, call: &Call) -> Result<String, String> {
        let arguments: ReadArguments = arguments(call)?;
        let path = WorkspacePath::parse(&arguments.path)?;
        let content = self.files.read(&call.thread, &path).await?;
        lines(&content, arguments.offset.unwrap_or(1), arguments.limit)
    }

    async fn write(&self, call: &Call) -> Result<String, String> {
        let arguments: WriteArguments = arguments(call)?;
        let path = WorkspacePath::parse(&arguments.path)?;
        let change = |_: Option<&str>| {
            let note = format!("wrote {} bytes", arguments.content.len());
            Ok(Change { content: arguments.content.clone(), note })
        };
        self.files.change(call, &path, change).await
    }

    async fn edit(&self, call: &Call) -> Result<String, String> {
        let arguments: EditArguments = arguments(call)?;
        let path = WorkspacePath::parse(&arguments.path)?;
        let change = |content: Option<&str>| {
            let content = content.ok_or_else(|| format!("There is no file `{path}`. `list` shows the files."))?;
            replace_once(content, &arguments.old_text, &arguments.new_text).map_err(|why| format!("`{path}`: {why}"))
        };
        self.files.change(call, &path, change).await
    }

    async fn list(&self, call: &Call) -> Result<String, String> {
        let arguments: ListArguments = arguments(call)?;
        let prefix = arguments.prefix.unwrap_or_default();
        let prefix = prefix.trim_start_matches("./");
        let mut files = self.files.list(&call.thread).await?;
        files.retain(|(path, _)| path.starts_with(prefix));
        files.sort();
        if files.is_empty() {
            let what = if prefix.is_empty() { "no files".to_owned() } else { format!("no files under `{prefix}`") };
            return Ok(format!("There are {what}."));
        }
        Ok(files.iter().map(|(path, bytes)| format!("{path} ({bytes} bytes)")).collect::<Vec<_>>().join("\n"))
    }
}

#[async_trait]
impl Tools for Workspace {
    fn describe(&self) -> Vec<Declaration> {
        let path = json!({"type": "string", "description": "Relative path, such as notes/todo.md"});
        let text = json!({"type": "string"});
        let line = json!({"type": "integer", "minimum": 1});
        let declare = |name: &str, description: &str, properties: Value, required: Value| Declaration {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false
            }),
            policy: Policy::ReplaySafe,
        };
        let [read, write, edit, list] = NAMES;
        vec![
            declare(
                read,
                "Reads a file. `offset` is the first line (from 1), `limit` the number of lines.",
                json!({"path": path, "offset": line, "limit": line}),
                json!(["path"]),
            ),
            declare(
                write,
                "Writes a whole file, new or not.",
                json!({"path": path, "content": text}),
                json!(["path", "content"]),
            ),
            declare(
                edit,
                "Replaces `old_text`, which must occur exactly once in the file, by `new_text`.",
                json!({"path": path, "old_text": {"type": "string", "minLength": 1}, "new_text": text}),
                json!(["path", "old_text", "new_text"]),
            ),
            declare(
                list,
                "Lists the files whose path begins with `prefix`, all without it.",
                json!({"prefix": text}),
                json!([]),
            ),
        ]
    }

    async fn run(&self, call: Call) -> Reply {
        if !NAMES.contains(&call.name.as_str()) {
            return unknown_tool(&call.name, NAMES.into_iter());
        }
        let reply = match self.answer(&call).await {
            Ok(text) => Reply::text(text),
            Err(text) => Reply::error(text),
        };
        if reply.content.to_string().len() > REPLY_BYTES_MAX {
            return Reply::error(format!(
                "The reply would be larger than {REPLY_BYTES_MAX} bytes. Ask for less: `limit` for read, `prefix` for list."
            ));
        }
        reply
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    path: String,
    old_text: String,
    new_text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    prefix: Option<String>,
}

fn arguments<T: DeserializeOwned>(call: &Call) -> Result<T, String> {
    serde_json::from_str(&call.arguments).map_err(|error| format!("Arguments of `{}`: {error}.", call.name))
}

/// Lines `offset` … `offset + limit − 1`, and a note when there are more.
fn lines(content: &str, offset: usize, limit: Option<usize>) -> Result<String, String> {
    if offset == 0 || limit == Some(0) {
        return Err("`offset` and `limit` count from 1.".to_owned());
    }
    let lines: Vec<&str> = content.split_inclusive('\n').collect();
    if offset > lines.len().max(1) {
        return Err(format!("`offset` is {offset}, but the file has {} lines.", lines.len()));
    }
    let end = limit.map_or(lines.len(), |limit| offset.saturating_add(limit - 1).min(lines.len()));
    let shown = lines.get(offset - 1..end).unwrap_or_default().concat();
    if end < lines.len() {
        return Ok(format!("{shown}[lines {offset} to {end} of {}; go on with offset {}]", lines.len(), end + 1));
    }
    Ok(shown)
}

fn replace_once(content: &str, old: &str, new: &str) -> Result<Change, String> {
    if old.is_empty() {
        return Err("`old_text` must not be empty.".to_owned());
    }
    let mut found: Vec<usize> = Vec::new();
    let mut from = 0;
    while let Some(at) = content.get(from..).and_then(|rest| rest.find(old)).map(|at| from + at) {
        found.push(at);
        // Matches may overlap, so the search goes on at the next character.
        from = at + content.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
    }
    let line = |at: usize| content.get(..at).unwrap_or_default().matches('\n').count() + 1;
    match found.as_slice() {
        [at] => {
            let (before, rest) = content.split_at(*at);
            let after = rest.strip_prefix(old).unwrap_or_default();
            let note = format!("replaced {} bytes by {} at line {}", old.len(), new.len(), line(*at));
            Ok(Change { content: [before, new, after].concat(), note })
        }
        [] => {
            let first = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            let near = content.lines().position(|line| !first.is_empty() && line.contains(first));
            let hint = near.map_or(String::new(), |at| {
                format!(" Line {} looks like its beginning; compare white space and what follows.", at + 1)
            });
            Err(format!("`old_text` does not occur.{hint} Read the file and copy the text exactly."))
        }
        many => {
            let lines: Vec<String> = many.iter().take(5).map(|at| line(*at).to_string()).collect();
            let more = if many.len() > 5 { ", …" } else { "" };
            Err(format!(
                "`old_text` occurs {} times (lines {}{more}). Add text around it so that it occurs once.",
                many.len(),
                lines.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_matches_count() {
        assert!(replace_once("aaa", "aa", "b").is_err_and(|why| why.contains("occurs 2 times")));
        assert_eq!(replace_once("xaay", "aa", "b").unwrap().content, "xby");
    }

    #[test]
    fn a_miss_says_where_it_nearly_matched() {
        let why = replace_once("fn a() {\n\tlet x = 1;\n}\n", "    let x = 1;", "").unwrap_err();
        assert!(why.contains("Line 2"), "{why}");
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!(lines("a\nb\nc", 1, None).unwrap(), "a\nb\nc");
        assert_eq!(lines("a\nb\nc", 3, Some(9)).unwrap(), "c");
        assert_eq!(lines("a\nb\nc", 1, Some(2)).unwrap(), "a\nb\n[lines 1 to 2 of 3; go on with offset 3]");
        assert_eq!(lines("", 1, None).unwrap(), "");
        assert!(lines("a", 2, None).unwrap_err().contains("1 lines"));
        assert!(lines("a", 0, None).is_err());
    }
}
