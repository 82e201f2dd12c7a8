//! Wakes those who watch a thread, once what they come to see is stored.
//!
//! A publication is a word to look, not the news itself: pieces of an answer are queued behind the turn, and viewers
//! read flushed state only. So the hub gathers what is published for a moment, has the store apply its queue once, and
//! only then wakes the viewers of the threads that were named. A turn never waits for any of this.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use crate::data::Published;
use crate::host::Host;
use crate::store::Store;

/// How long publications are gathered before the store is asked to flush.
const GATHER: Duration = Duration::from_millis(15);
/// Longest wait for that flush; then the viewers are woken all the same, and see what there is.
const FLUSH_MAX: Duration = Duration::from_secs(10);
/// Most threads that are remembered as dirty; beyond that, all viewers are woken.
const DIRTY_MAX: usize = 10_000;

/// The hub of a host: one task, any number of viewers. Dropping it ends the task.
pub struct Hub {
    viewers: Arc<Viewers>,
    store: Arc<dyn Store>,
    task: AbortHandle,
}

impl Hub {
    /// A hub for the threads of a host. It must be made on a tokio runtime.
    pub fn new(host: &Host) -> Self {
        Self::over(host.watch(), host.store())
    }

    fn over(events: broadcast::Receiver<Published>, store: Arc<dyn Store>) -> Self {
        let viewers = Arc::new(Viewers::default());
        let task = tokio::spawn(wake(events, store.clone(), viewers.clone())).abort_handle();
        Self { viewers, store, task }
    }

    /// From now on, tells when there may be something new of a thread. What was published before is stored when this
    /// returns: look first, then wait.
    pub async fn watch(&self, thread: &str) -> News {
        let changes = self.viewers.add(thread);
        let news = News { viewers: self.viewers.clone(), thread: thread.to_owned(), changes };
        // Else a piece that was published while nobody watched would be seen only with the next one.
        let _ = tokio::time::timeout(FLUSH_MAX, self.store.flush()).await;
        news
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Word of one thread's news, for one viewer.
pub struct News {
    viewers: Arc<Viewers>,
    thread: String,
    changes: watch::Receiver<()>,
}

impl News {
    /// To be called before each look: what comes after it is told by [`News::changed`], what came before is not.
    pub fn look(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits until there may be something new since the last look. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The sender lives as long as there are viewers.
            std::future::pending().await
        }
    }
}

impl Drop for News {
    fn drop(&mut self) {
        self.viewers.remove(&self.thread);
    }
}

/// Who watches what.
#[derive(Default)]
struct Viewers(Mutex<HashMap<String, watch::Sender<()>>>);

impl Viewers {
    fn add(&self, thread: &str) -> watch::Receiver<()> {
        self.lock().entry(thread.to_owned()).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// To be called while the viewer's own receiver still lives.
    fn remove(&self, thread: &str) {
        let mut threads = self.lock();
        if threads.get(thread).is_some_and(|viewers| viewers.receiver_count() <= 1) {
            threads.remove(thread);
        }
    }

    fn watch_any(&self, dirty: &Dirty) -> bool {
        let threads = self.lock();
        if dirty.all { !threads.is_empty() } else { dirty.threads.iter().any(|thread| threads.contains_key(thread)) }
    }

    fn wake(&self, dirty: &Dirty) {
        let threads = self.lock();
        match dirty.all {
            true => threads.values().for_each(|viewers| viewers.send_replace(())),
            false => dirty.threads.iter().filter_map(|thread| threads.get(thread)).for_each(|v| v.send_replace(())),
        }
    }

    // The map is whole after every step.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Threads that have news.
#[derive(Default)]
struct Dirty {
    threads: HashSet<String>,
    /// Some publications were lost: any thread may have news.
    all: bool,
}

impl Dirty {
    /// Takes a publication; false when there will be no more.
    fn add(&mut self, heard: Result<Published, RecvError>) -> bool {
        match heard {
            Ok(published) if self.threads.len() < DIRTY_MAX => {
                self.threads.insert(published.thread);
            }
            Ok(_) | Err(RecvError::Lagged(_)) => self.all = true,
            Err(RecvError::Closed) => return false,
        }
        true
    }
}

async fn wake(mut events: broadcast::Receiver<Published>, store: Arc<dyn Store>, viewers: Arc<Viewers>) {
    loop {
        let mut dirty = Dirty::default();
        if !dirty.add(events.recv().await) {
            return;
        }
        let gather = tokio::time::sleep(GATHER);
        tokio::pin!(gather);
        loop {
            tokio::select! {
                biased;
                () = &mut gather => break,
                heard = events.recv() => if !dirty.add(heard) {
                    break;
                }
            }
        }
        if viewers.watch_any(&dirty) {
            let _ = tokio::time::timeout(FLUSH_MAX, store.flush()).await;
            viewers.wake(&dirty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Guard, Outcome, StoreError, Value, Write};
    use async_trait::async_trait;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A store that counts flushes.
    #[derive(Default)]
    struct Flushed(MemoryStore, AtomicU32);

    #[async_trait]
    impl Store for Flushed {
        async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
            self.0.get_many(keys).await
        }
        async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
            self.0.commit(guard, writes).await
        }
        async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
            self.0.append_later(guard, writes, lost).await;
        }
        async fn flush(&self) {
            self.1.fetch_add(1, Ordering::SeqCst);
        }
        async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
            self.0.dump().await
        }
        async fn count(&self) -> Result<u64, StoreError> {
            self.0.count().await
        }
    }

    fn published(thread: &str) -> Published {
        Published { thread: thread.into(), number: 1, event: "{}".into() }
    }

    /// Waits to be told: within a minute, or the test fails.
    async fn told(news: &mut News) {
        tokio::time::timeout(Duration::from_secs(60), news.changed()).await.expect("nothing was told");
        news.look();
    }

    fn has_news(news: &News) -> bool {
        news.changes.has_changed().unwrap()
    }

    #[tokio::test]
    async fn a_burst_is_one_flush_and_wakes_its_viewers_only() {
        let (send, receive) = broadcast::channel(64);
        let store = Arc::new(Flushed::default());
        let hub = Hub::over(receive, store.clone());
        let (mut here, there) = (hub.watch("here").await, hub.watch("there").await);
        let before = store.1.load(Ordering::SeqCst);
        // Nobody watches this one: nothing is flushed for it alone.
        send.send(published("elsewhere")).unwrap();
        tokio::time::sleep(2 * GATHER).await;
        for _ in 0..20 {
            send.send(published("here")).unwrap();
        }
        told(&mut here).await;
        assert_eq!(store.1.load(Ordering::SeqCst) - before, 1);
        assert!(!has_news(&there));
    }

    /// Shows B30.
    #[tokio::test]
    async fn what_comes_during_a_look_is_told_after_it() {
        let (send, receive) = broadcast::channel(64);
        let hub = Hub::over(receive, Arc::new(Flushed::default()));
        let (mut news, mut witness) = (hub.watch("t").await, hub.watch("t").await);
        news.look();
        send.send(published("t")).unwrap();
        // It is told to both at once, so it has come by now, and the wait begins only afterwards.
        told(&mut witness).await;
        told(&mut news).await;
        assert!(!has_news(&news));
    }

    #[tokio::test]
    async fn lost_publications_wake_everybody() {
        let (send, receive) = broadcast::channel(2);
        for _ in 0..9 {
            send.send(published("elsewhere")).unwrap();
        }
        let hub = Hub::over(receive, Arc::new(Flushed::default()));
        let (mut here, mut there) = (hub.watch("here").await, hub.watch("there").await);
        told(&mut here).await;
        told(&mut there).await;
    }

    #[tokio::test]
    async fn who_leaves_is_forgotten() {
        let (_send, receive) = broadcast::channel(2);
        let hub = Hub::over(receive, Arc::new(Flushed::default()));
        let (one, two) = (hub.watch("t").await, hub.watch("t").await);
        drop(one);
        assert_eq!(hub.viewers.lock().len(), 1);
        drop(two);
        assert!(hub.viewers.lock().is_empty());
    }
}
