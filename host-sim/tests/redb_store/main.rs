//! What only the embedded store promises: it keeps what it acknowledged, says nothing before the flush, lives through
//! a flush that fails, shares flushes, and says plainly why a folder can't be opened.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use host_sim::store::Guard;
use host_sim::store::Outcome;
use host_sim::store::Store;
use host_sim::store::StoreError;
use host_sim::store::VALUE_BYTES_MAX;
use host_sim::store::Write;
use host_sim::store::fault::FaultDisk;
use host_sim::store::fault::HeldSyncs;
use host_sim::store::redb::CACHE_BYTES;
use host_sim::store::redb::RedbStore;

mod flush;
mod folder;

/// Flushes of one batch: redb's commit in two phases. When the file grows there is one more.
const FLUSHES: u64 = 2;

/// A store on a simulated disk, grown so far that the small commits of these tests don't make it grow again.
async fn simulated() -> (FaultDisk, RedbStore) {
    let disk = FaultDisk::new();
    let store = reopen(&disk);
    for n in 0..3 {
        let key = format!("host/grown/{n}");
        let guard = Guard { key: key.clone(), expect: None };
        assert_eq!(store.commit(guard, vec![put(&key, vec![0; VALUE_BYTES_MAX])]).await, Ok(Outcome::Committed));
    }
    (disk, store)
}

fn reopen(disk: &FaultDisk) -> RedbStore {
    let disk = disk.clone();
    RedbStore::with_backend(move || disk.backend(), CACHE_BYTES).unwrap()
}

/// A commit that has been sent. Nothing but awaiting it, or asking whether it is answered, moves it on.
struct Started<'s>(Pin<Box<dyn Future<Output = Result<Outcome, StoreError>> + Send + 's>>);

impl Started<'_> {
    fn is_answered(&mut self) -> bool {
        matches!(self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
    }
}

/// Sends a commit that replaces the guard's value, and does not wait for the answer.
fn start<'s>(store: &'s RedbStore, expect: Option<&str>, next: &str) -> Started<'s> {
    send(store.commit(guard(expect), vec![put("p/0/g", next)]))
}

/// Sends a commit that makes a key, with the key as its own guard.
fn start_write<'s>(store: &'s RedbStore, key: &str) -> Started<'s> {
    send(store.commit(Guard { key: key.to_owned(), expect: None }, vec![put(key, "1")]))
}

fn send<'s>(commit: Pin<Box<dyn Future<Output = Result<Outcome, StoreError>> + Send + 's>>) -> Started<'s> {
    let mut started = Started(commit);
    assert!(!started.is_answered(), "answered at once");
    started
}

/// Sends a commit from 0 to 1, and holds its first flush: what is sent now waits for the next batch.
fn block<'s>(disk: &FaultDisk, store: &'s RedbStore) -> (HeldSyncs, Started<'s>) {
    let held = disk.hold_syncs();
    let blocker = start(store, Some("0"), "1");
    held.wait();
    (held, blocker)
}

async fn replace(store: &RedbStore, expect: Option<&str>, next: &str) -> Result<Outcome, StoreError> {
    store.commit(guard(expect), vec![put("p/0/g", next)]).await
}

async fn commit(store: &RedbStore, expect: Option<&str>, next: &str) {
    assert_eq!(replace(store, expect, next).await, Ok(Outcome::Committed));
}

async fn value(store: &RedbStore) -> String {
    let value = store.get_many(vec!["p/0/g".to_owned()]).await.unwrap().remove(0);
    String::from_utf8(value.unwrap()).unwrap()
}

fn guard(expect: Option<&str>) -> Guard {
    Guard { key: "p/0/g".to_owned(), expect: expect.map(|text| text.as_bytes().to_vec()) }
}

fn put(key: &str, value: impl Into<Vec<u8>>) -> Write {
    Write { key: key.to_owned(), value: Some(value.into()) }
}
