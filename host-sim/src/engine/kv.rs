//! `kv`: the store, with a deadline, without the host's own keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wasmtime::component::Resource;

use super::bindings::writ::runtime::kv::{Error, Guard, Host, HostStore, Limits, Outcome, Write};
use super::guard::guarded;
use super::hook::{End, Import};
use super::observer::{Commit, Seen, Watch};
use super::state::State;
use crate::store::{self, StoreError};

/// Keys under this are the host's own.
const HOST_PREFIX: &str = "host/";
/// How the store is named in texts.
const NAME: &str = "the store";

/// What the component holds of the store.
pub struct StoreHandle {
    /// Calls of `append-later` through this handle that were dropped.
    lost: Arc<AtomicU32>,
    watch: Option<Watch>,
}

impl StoreHandle {
    /// How many were lost since this was asked last.
    fn take_lost(&self) -> u32 {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if let Some(watch) = self.watch.as_ref().filter(|_| lost > 0) {
            watch.see(&Seen::Lost(lost));
        }
        lost
    }
}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        // Of those that were never asked for.
        self.take_lost();
    }
}

impl Host for State {
    async fn open(&mut self) -> wasmtime::Result<Result<Resource<StoreHandle>, Error>> {
        let entered = self.enter(Import::KvOpen, String::new).await?;
        let opened = match &entered.fail {
            Some(text) => Err(Error::Unavailable(text.clone())),
            None => {
                let handle = StoreHandle { lost: Arc::default(), watch: self.watch().cloned() };
                Ok(self.table.push(handle)?)
            }
        };
        self.leave(entered, || End::of(&opened, |_| String::new())).await?;
        Ok(opened)
    }
}

impl HostStore for State {
    async fn limits(&mut self, _: Resource<StoreHandle>) -> wasmtime::Result<Limits> {
        Ok(Limits {
            key_bytes: store::KEY_BYTES_MAX as u32,
            value_bytes: store::VALUE_BYTES_MAX as u32,
            read_keys: store::READ_KEYS_MAX as u32,
            commit_writes: store::COMMIT_WRITES_MAX as u32,
            commit_bytes: store::COMMIT_BYTES_MAX as u32,
        })
    }

    async fn get(&mut self, _: Resource<StoreHandle>, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        let entered = self.enter(Import::KvGet, || key.clone()).await?;
        let read = match &entered.fail {
            Some(text) => Err(Error::Unavailable(text.clone())),
            None => self.read(vec![key]).await,
        };
        self.leave(entered, || End::of(&read, |values| present(values))).await?;
        Ok(read.map(|mut values| values.pop().flatten()))
    }

    async fn get_many(
        &mut self,
        _: Resource<StoreHandle>,
        keys: Vec<String>,
    ) -> wasmtime::Result<Result<Vec<Option<Vec<u8>>>, Error>> {
        let entered = self.enter(Import::KvGetMany, || named(&keys)).await?;
        let read = match &entered.fail {
            Some(text) => Err(Error::Unavailable(text.clone())),
            None => self.read(keys).await,
        };
        self.leave(entered, || End::of(&read, |values| present(values))).await?;
        Ok(read)
    }

    async fn commit(
        &mut self,
        _: Resource<StoreHandle>,
        guard: Guard,
        writes: Vec<Write>,
    ) -> wasmtime::Result<Result<Outcome, Error>> {
        let shown = || format!("guard {}, {} writes", guard.key, writes.len());
        let entered = self.enter(Import::KvCommit, shown).await?;
        let mut result = match &entered.fail {
            Some(text) => Err(Error::Unavailable(text.clone())),
            None => self.commit(guard, writes).await,
        };
        if let Some(text) = self.leave(entered, || End::of_commit(&result)).await? {
            result = Err(Error::Unknown(text));
        }
        self.uncertain |= matches!(result, Err(Error::Unknown(_)));
        Ok(result)
    }

    async fn append_later(
        &mut self,
        this: Resource<StoreHandle>,
        guard: Guard,
        writes: Vec<Write>,
    ) -> wasmtime::Result<()> {
        let entered = self.enter_sure(Import::KvAppendLater, || format!("{} writes", writes.len())).await?;
        let lost = self.table.get(&this)?.lost.clone();
        self.append(guard, writes, lost).await;
        self.leave(entered, End::done).await?;
        Ok(())
    }

    async fn flush(&mut self, this: Resource<StoreHandle>) -> wasmtime::Result<u32> {
        let entered = self.enter_sure(Import::KvFlush, String::new).await?;
        self.waited();
        let lost = self.table.get(&this)?.lost.clone();
        if guarded(NAME, self.handles.limits.store_ms, self.handles.store.flush()).await.is_err() {
            // Nobody knows how many of the queue are lost: one at least.
            lost.fetch_add(1, Ordering::Relaxed);
        }
        let lost = self.table.get(&this)?.take_lost();
        self.leave(entered, || End::Answered(format!("{lost} lost"))).await?;
        Ok(lost)
    }

    async fn drop(&mut self, this: Resource<StoreHandle>) -> wasmtime::Result<()> {
        self.table.delete(this)?;
        Ok(())
    }
}

impl State {
    async fn commit(&mut self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, Error> {
        check_commit(&guard, &writes)?;
        self.waited();
        let seen = Commit::begin(self.watch());
        let commit = self.handles.store.commit(guard.into(), writes.into_iter().map(Into::into).collect());
        let result = match guarded(NAME, self.handles.limits.store_ms, commit).await {
            Ok(result) => result.map(Into::into).map_err(Into::into),
            // It may be under way still.
            Err(lapse) => Err(Error::Unknown(lapse.text())),
        };
        seen.end(&result);
        result
    }

    async fn append(&mut self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        if check_commit(&guard, &writes).is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let writes = writes.into_iter().map(Into::into).collect();
        let append = self.handles.store.append_later(guard.into(), writes, lost.clone());
        if guarded(NAME, self.handles.limits.store_ms, append).await.is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn read(&mut self, keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        if keys.len() > store::READ_KEYS_MAX {
            return Err(Error::TooLarge(format!("{} keys, at most {}", keys.len(), store::READ_KEYS_MAX)));
        }
        keys.iter().try_for_each(|key| check_key(key))?;
        self.waited();
        let asked = keys.len();
        let values = match guarded(NAME, self.handles.limits.store_ms, self.handles.store.get_many(keys)).await {
            Ok(values) => values?,
            Err(lapse) => return Err(Error::Unavailable(lapse.text())),
        };
        if values.len() != asked {
            return Err(Error::Unavailable(format!("{NAME} gave {} values for {asked} keys", values.len())));
        }
        Ok(values)
    }
}

/// Keys, for a trace.
fn named(keys: &[String]) -> String {
    match keys {
        [] => "nothing".into(),
        [only] => only.clone(),
        [first, .., last] => format!("{} keys, {first} … {last}", keys.len()),
    }
}

/// How many values there are, for a trace.
fn present(values: &[Option<Vec<u8>>]) -> String {
    format!("{} of {} present", values.iter().flatten().count(), values.len())
}

fn check_key(key: &str) -> Result<(), Error> {
    if key.len() > store::KEY_BYTES_MAX {
        return Err(Error::TooLarge(format!("a key of {} bytes, at most {}", key.len(), store::KEY_BYTES_MAX)));
    }
    if key.starts_with(HOST_PREFIX) {
        return Err(Error::Denied(format!("`{HOST_PREFIX}` is the host's own")));
    }
    Ok(())
}

fn check_commit(guard: &Guard, writes: &[Write]) -> Result<(), Error> {
    if writes.len() > store::COMMIT_WRITES_MAX {
        return Err(Error::TooLarge(format!("{} writes, at most {}", writes.len(), store::COMMIT_WRITES_MAX)));
    }
    check_key(&guard.key)?;
    writes.iter().try_for_each(|write| check_key(&write.key))
}

impl From<Guard> for store::Guard {
    fn from(guard: Guard) -> Self {
        Self { key: guard.key, expect: guard.expect }
    }
}

impl From<Write> for store::Write {
    fn from(write: Write) -> Self {
        Self { key: write.key, value: write.value }
    }
}

impl From<store::Outcome> for Outcome {
    fn from(outcome: store::Outcome) -> Self {
        match outcome {
            store::Outcome::Committed => Self::Committed,
            store::Outcome::Stale(current) => Self::Stale(current),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooLarge(text) => Self::TooLarge(text),
            StoreError::Denied(text) => Self::Denied(text),
            StoreError::Unavailable(text) => Self::Unavailable(text),
            StoreError::Unknown(text) => Self::Unknown(text),
        }
    }
}
