//! How a workspace lies in the store.
//!
//! All keys of a thread begin with `host/ws/<thread, escaped>/`; `host/ws` is the partition.
//!
//! | key | value |
//! |---|---|
//! | `head` | `{"nonce", "files"}`: the guard of every commit. The nonce is random, so no value ever returns |
//! | `page/<k>` | JSON array of `[path, bytes]` of files `100k` … `100k + 99`, so that listing needs no scan |
//! | `file/<n>` | a line of JSON, the applied effects, then the content |
//!
//! File numbers are given in order of birth and never change.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use super::EFFECTS_REMEMBERED;
use super::FILE_BYTES_MAX;
use super::FILES_MAX;
use super::path::WorkspacePath;
use crate::store::Guard;
use crate::store::Outcome;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Value;
use crate::store::Write;
use crate::tools::Call;

/// Files of one page of the index: 100 paths of 512 bytes fit a value, every character escaped.
const PAGE_FILES: usize = 100;
/// Tries when other calls change the workspace at the same time: twice the calls that one message may have open.
const TRIES_MAX: usize = 64;
/// Times that an uncertain commit is sent again.
const RESENDS_MAX: usize = 8;
/// Longest effect key, in bytes.
const EFFECT_KEY_BYTES_MAX: usize = 128;

/// What a call makes of a file.
#[derive(Debug)]
pub(super) struct Change {
    /// The new content.
    pub(super) content: String,
    /// What was done, for the reply.
    pub(super) note: String,
}

/// The files of all threads. Errors are texts for the model.
pub(super) struct Files {
    store: Arc<dyn Store>,
}

#[derive(Deserialize, Serialize)]
struct Head {
    nonce: String,
    files: usize,
}

/// An effect that a file has seen, and what was done.
#[derive(Clone, Deserialize, Serialize)]
struct Applied {
    key: String,
    note: String,
}

/// A snapshot of a thread's index.
struct Index {
    head: Option<Value>,
    pages: Vec<Vec<(String, usize)>>,
}

impl Files {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Path and size in bytes of each file.
    pub(super) async fn list(&self, thread: &str) -> Result<Vec<(String, usize)>, String> {
        Ok(self.index(thread).await?.pages.concat())
    }

    /// A file's content.
    pub(super) async fn read(&self, thread: &str, path: &WorkspacePath) -> Result<String, String> {
        let missing = || format!("There is no file `{path}`. `list` shows the files.");
        let number = self.index(thread).await?.find(path).ok_or_else(missing)?;
        let values = self.store.get_many(vec![file_key(thread, number)]).await.map_err(failed)?;
        let value = values.into_iter().next().flatten().ok_or_else(missing)?;
        Ok(decode(&value)?.1)
    }

    /// Applies a change and remembers the call's effect key, in one commit; a call that was applied before gets its
    /// recorded reply.
    pub(super) async fn change(
        &self,
        call: &Call,
        path: &WorkspacePath,
        change: impl Fn(Option<&str>) -> Result<Change, String>,
    ) -> Result<String, String> {
        if call.effect_key.len() > EFFECT_KEY_BYTES_MAX {
            return Err(format!("The effect key is longer than {EFFECT_KEY_BYTES_MAX} bytes."));
        }
        let reply = |note: &str| format!("`{path}`: {note}.");
        for _ in 0..TRIES_MAX {
            let index = self.index(&call.thread).await?;
            let number = index.find(path);
            let (mut applied, content) = match number {
                None => (Vec::new(), None),
                Some(number) => match self.read_under(&call.thread, &index, number).await? {
                    Some((applied, content)) => (applied, Some(content)),
                    None => continue,
                },
            };
            if let Some(known) = applied.iter().find(|known| known.key == call.effect_key) {
                return Ok(reply(&known.note));
            }
            let Change { content, note } = change(content.as_deref())?;
            if content.len() > FILE_BYTES_MAX {
                return Err(format!("`{path}` would have {} bytes; at most {FILE_BYTES_MAX}.", content.len()));
            }
            applied.push(Applied { key: call.effect_key.clone(), note: note.clone() });
            applied.drain(..applied.len().saturating_sub(EFFECTS_REMEMBERED));
            let (guard, writes) = index.commit(&call.thread, path, number, &applied, &content)?;
            if self.commit(guard, writes).await? {
                return Ok(reply(&note));
            }
        }
        Err("Too many calls change this workspace at the same time; nothing was changed. Try again.".to_owned())
    }

    async fn index(&self, thread: &str) -> Result<Index, String> {
        let pages = FILES_MAX.div_ceil(PAGE_FILES);
        let mut keys = vec![head_key(thread)];
        keys.extend((0..pages).map(|page| page_key(thread, page)));
        let mut values = self.store.get_many(keys).await.map_err(failed)?.into_iter();
        let head = values.next().flatten();
        let pages = values
            .flatten()
            .map(|page| serde_json::from_slice(&page))
            .collect::<Result<Vec<Vec<_>>, _>>()
            .map_err(|_| damaged())?;
        let files = match &head {
            Some(head) => serde_json::from_slice::<Head>(head).map_err(|_| damaged())?.files,
            None => 0,
        };
        if pages.iter().map(Vec::len).sum::<usize>() != files {
            return Err(damaged());
        }
        Ok(Index { head, pages })
    }

    /// A file as it is under the index's guard value; `None` when the guard has moved on.
    async fn read_under(
        &self,
        thread: &str,
        index: &Index,
        number: usize,
    ) -> Result<Option<(Vec<Applied>, String)>, String> {
        let keys = vec![head_key(thread), file_key(thread, number)];
        match self.store.get_many(keys).await.map_err(failed)?.as_slice() {
            [head, _] if *head != index.head => Ok(None),
            [_, Some(file)] => decode(file).map(Some),
            _ => Err(damaged()),
        }
    }

    /// True: committed. False: the guard had moved on. An uncertain commit is sent again, the same bytes, until the
    /// store says which: it may still be applied while its guard holds.
    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<bool, String> {
        let new_head = writes.iter().find(|write| write.key == guard.key).and_then(|write| write.value.clone());
        for _ in 0..=RESENDS_MAX {
            match self.store.commit(guard.clone(), writes.clone()).await {
                Ok(Outcome::Committed) => return Ok(true),
                Ok(Outcome::Stale(current)) => return Ok(current == new_head),
                Err(StoreError::Unknown(_)) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err("The store does not say whether the file was changed; it may still be. Read it before going on.".to_owned())
    }
}

impl Index {
    fn find(&self, path: &WorkspacePath) -> Option<usize> {
        let found = |page: &Vec<(String, usize)>| page.iter().position(|(known, _)| known == path.as_str());
        let pages = self.pages.iter().enumerate();
        pages.filter_map(|(page, files)| Some(page * PAGE_FILES + found(files)?)).next()
    }

    /// The commit that gives a file new content; `number` is `None` for a new file.
    fn commit(
        &self,
        thread: &str,
        path: &WorkspacePath,
        number: Option<usize>,
        applied: &[Applied],
        content: &str,
    ) -> Result<(Guard, Vec<Write>), String> {
        let files: usize = self.pages.iter().map(Vec::len).sum();
        if number.is_none() && files >= FILES_MAX {
            return Err(format!("A thread has at most {FILES_MAX} files; overwrite one that is no longer needed."));
        }
        let number = number.unwrap_or(files);
        let mut page = self.pages.get(number / PAGE_FILES).cloned().unwrap_or_default();
        let entry = (path.as_str().to_owned(), content.len());
        match page.get_mut(number % PAGE_FILES) {
            Some(known) => *known = entry,
            None => page.push(entry),
        }
        let head = Head { nonce: nonce()?, files: files.max(number + 1) };
        let write = |key: String, value: Value| Write { key, value: Some(value) };
        let json = |error: serde_json::Error| format!("The index can't be written: {error}.");
        let mut file = serde_json::to_vec(applied).map_err(json)?;
        file.push(b'\n');
        file.extend_from_slice(content.as_bytes());
        let guard = Guard { key: head_key(thread), expect: self.head.clone() };
        let writes = vec![
            write(guard.key.clone(), serde_json::to_vec(&head).map_err(json)?),
            write(page_key(thread, number / PAGE_FILES), serde_json::to_vec(&page).map_err(json)?),
            write(file_key(thread, number), file),
        ];
        Ok((guard, writes))
    }
}

fn decode(file: &[u8]) -> Result<(Vec<Applied>, String), String> {
    let at = file.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let (applied, content) = file.split_at(at);
    let applied = serde_json::from_slice(applied).map_err(|_| damaged())?;
    let content = String::from_utf8(content.get(1..).unwrap_or_default().to_vec()).map_err(|_| damaged())?;
    Ok((applied, content))
}

fn head_key(thread: &str) -> String {
    format!("host/ws/{}/head", escape(thread))
}

fn page_key(thread: &str, page: usize) -> String {
    format!("host/ws/{}/page/{page}", escape(thread))
}

fn file_key(thread: &str, number: usize) -> String {
    format!("host/ws/{}/file/{number}", escape(thread))
}

/// A thread is opaque, so it may hold slashes. At most three times as long: 768 bytes.
fn escape(thread: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    thread.bytes().map(escaped).collect()
}

fn nonce() -> Result<String, String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("No random numbers: {error}; nothing was changed."))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn failed(error: StoreError) -> String {
    format!("The store did not answer ({error}); nothing was changed.")
}

fn damaged() -> String {
    "The workspace's index is damaged; nothing was changed.".to_owned()
}
