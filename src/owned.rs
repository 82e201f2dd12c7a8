//! A submission of an owner's, read to change something about it under its partition's guard **Q**.

use crate::admission::Accepted;
use crate::error::{Error, Problem, Refusal};
use crate::id;
use crate::keys;
use crate::ports::{Bytes, Guard, Ports, Write};
use crate::prelude::*;
use crate::record::*;
use crate::store::{self, Sent, put, read};
use serde::de::DeserializeOwned;

/// A submission, and one mark of it, in one snapshot with the guard: what is read after it is confirmed by it (R3).
pub struct Owned {
    /// The submission and its thread.
    pub accepted: Accepted,
    mark: (String, Option<Bytes>),
    queue: Option<Bytes>,
}

impl Owned {
    /// Reads a submission and the key of a mark. What is foreign answers as what is missing (I13).
    pub fn read(ports: &Ports, owner: &str, id: &str, mark: String) -> Result<Self, Refusal> {
        let partition = id::partition_of_id(id).ok_or_else(Problem::not_found)?;
        let wanted = [keys::queue(partition), keys::sub(id), mark];
        let [queue, sub, stored] = read(ports.store, wanted.clone())?;
        let sub: Option<Submission> = decode_opt(&wanted[1], &sub)?;
        let sub = sub.filter(|sub| sub.address.owner == owner).ok_or_else(Problem::not_found)?;
        let place = sub.place(id);
        let [_, _, mark] = wanted;
        Ok(Self { accepted: Accepted { id: id.to_owned(), sub, place }, mark: (mark, stored), queue })
    }

    /// The mark, if it is there.
    pub fn mark<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        decode_opt(&self.mark.0, &self.mark.1)
    }

    /// Commits writes under the guard as it was read; false: it is another by now, or nobody knows, so start over (R5).
    pub fn commit(&self, ports: &Ports, mut writes: Vec<Write>) -> Result<bool, Error> {
        let key = keys::queue(self.accepted.place.partition);
        let queue: Queue = decode_opt(&key, &self.queue)?.unwrap_or_default();
        writes.push(put(key.clone(), &Queue { nonce: nonce(ports.clock), ..queue }));
        let guard = Guard { key, expect: self.queue.clone() };
        Ok(store::commit(ports.store, guard, &writes)? == Sent::Committed)
    }
}
