//! Reading and writing through the Store port: snapshots as arrays, and the two ways to take an uncertain answer (R5).

use crate::error::Error;
use crate::keys;
use crate::mutation;
use crate::ports::{Bytes, Guard, Outcome, Ports, Store, StoreError, Write};
use crate::prelude::*;
use crate::record::{FORMAT_VERSION, Format, decode, encode};
use serde::Serialize;

/// Most keys of one read.
pub const READ_MAX: usize = 256;

/// Most writes of one commit, the guard's among them.
pub const COMMIT_WRITES_MAX: usize = 64;

/// Largest value, in bytes.
pub const VALUE_MAX: usize = 256 * 1024;

/// One snapshot of a fixed set of keys.
pub fn read<const N: usize>(store: &dyn Store, keys: [String; N]) -> Result<[Option<Bytes>; N], Error> {
    let values = read_many(store, &keys)?;
    values.try_into().map_err(|_| Error::Unavailable("the store gave another number of values than asked".into()))
}

/// One snapshot of up to 256 keys.
pub fn read_many(store: &dyn Store, keys: &[String]) -> Result<Vec<Option<Bytes>>, Error> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let values = store.get_many(keys)?;
    if values.len() != keys.len() {
        return Err(Error::Unavailable("the store gave another number of values than asked".into()));
    }
    Ok(values)
}

/// A write that puts a value.
pub fn put<T: Serialize>(key: String, value: &T) -> Write {
    Write { key, value: Some(encode(value)) }
}

/// A write that deletes a key.
pub fn del(key: String) -> Write {
    Write { key, value: None }
}

/// How a commit of a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Applied.
    Committed,
    /// Not applied, or not surely: start over at reading, and answer from what is stored.
    StartOver,
}

/// A commit of a request. An uncertain one is not sent again: the request starts over.
pub fn commit(store: &dyn Store, guard: Guard, writes: &[Write]) -> Result<Sent, Error> {
    match store.commit(&guard, writes) {
        Ok(Outcome::Committed) => Ok(Sent::Committed),
        Ok(Outcome::Stale(_)) | Err(StoreError::Unknown(_)) => Ok(Sent::StartOver),
        Err(error) => Err(error.into()),
    }
}

/// Why a run stops before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another run owns the session.
    Fenced,
    /// It can't go on; a later run will.
    Failed(Error),
    /// Nothing to do until this time, Unix ms.
    Later(u64),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How often a run sends the same bytes again before it gives up for now.
const RESEND_MAX: u32 = 12;

/// A commit of a run. An uncertain one is sent again, byte for byte, until the store tells: no effect starts in between.
/// `sent` is the guard's new value, by which a repeated commit knows itself.
pub fn commit_surely(ports: &Ports, guard: &Guard, writes: &[Write], sent: &[u8]) -> Result<(), Stop> {
    let mut unknown = String::new();
    for attempt in 0..RESEND_MAX {
        match ports.store.commit(guard, writes) {
            Ok(Outcome::Committed) => return Ok(()),
            Ok(Outcome::Stale(Some(current))) if attempt > 0 && current == sent => return Ok(()),
            Ok(Outcome::Stale(_)) => return Err(Stop::Fenced),
            Err(StoreError::Unknown(_)) if mutation::is(ports.host, "go-on-in-doubt") => return Ok(()),
            Err(StoreError::Unknown(text)) => unknown = text,
            // Not applied this time; but an earlier, uncertain one of the same bytes may be, so only a first is final.
            Err(StoreError::Unavailable(text)) if attempt > 0 => unknown = text,
            Err(error) => return Err(Stop::Failed(error.into())),
        }
        let pause = 50u64 << attempt.min(6);
        ports.clock.wait_until(ports.clock.now().saturating_add(pause));
    }
    Err(Stop::Failed(Error::Unavailable(format!("the store did not say whether it had committed: {unknown}"))))
}

/// The format record as it was read, or a fresh one that is written and read back (C29, trap 27). `None`: read again.
pub fn format(ports: &Ports, stored: &Option<Bytes>) -> Result<Option<Format>, Error> {
    if let Some(bytes) = stored {
        let format: Format = decode(keys::FORMAT, bytes)?;
        if format.version != FORMAT_VERSION || format.partitions == 0 || format.partitions > 256 {
            return Err(Error::Unavailable(format!(
                "this store has format version {}; this build knows version {FORMAT_VERSION}. Use a build that knows it",
                format.version
            )));
        }
        return Ok(Some(format));
    }
    let partitions = ports.host.setting("partitions").and_then(|n| n.parse().ok()).unwrap_or(256u16).clamp(1, 256);
    let format = Format { version: FORMAT_VERSION, partitions, token_key: crate::id::hex(&ports.clock.entropy(32)) };
    let guard = Guard { key: keys::FORMAT.into(), expect: None };
    commit(ports.store, guard, &[put(keys::FORMAT.into(), &format)])?;
    Ok(None)
}

/// Reads the format record alone, making it if there is none.
pub fn read_format(ports: &Ports) -> Result<Format, Error> {
    for _ in 0..8 {
        let [stored] = read(ports.store, [keys::FORMAT.into()])?;
        if let Some(format) = format(ports, &stored)? {
            return Ok(format);
        }
    }
    Err(Error::Unavailable("the store's format record could not be written".into()))
}
