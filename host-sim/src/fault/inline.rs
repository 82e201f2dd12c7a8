//! A store whose calls end before anything else happens: a disk's own threads then can't change the order of things.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use async_trait::async_trait;

use crate::store::{Guard, Outcome, Store, StoreError, Value, Write};

/// Calls of another store, each waited for on this thread.
pub(super) struct Inline(pub(super) Arc<dyn Store>);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    // Without tokio's budget: when it is spent, a future asks to be polled later, and there is no later here.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[async_trait]
impl Store for Inline {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        wait(self.0.get_many(keys))
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        wait(self.0.commit(guard, writes))
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        wait(self.0.append_later(guard, writes, lost));
    }

    async fn flush(&self) {
        wait(self.0.flush());
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        wait(self.0.dump())
    }

    async fn count(&self) -> Result<u64, StoreError> {
        wait(self.0.count())
    }
}
