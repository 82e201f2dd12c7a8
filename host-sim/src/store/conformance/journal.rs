//! The journal's queued appends.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use super::commit;
use super::get;
use super::guard;
use super::put;
use crate::store::Store;
use crate::store::VALUE_BYTES_MAX;

/// After a flush it can be read.
pub async fn an_append_is_applied_while_its_guard_holds(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/j", None), vec![put("p/0/j", "1")]).await;
    let lost = Arc::new(AtomicU32::new(0));
    store.append_later(guard("p/0/j", Some(b"1")), vec![put("p/0/j/1", "e")], lost.clone()).await;
    store.append_later(guard("p/0/absent", None), vec![put("p/0/j/2", "f")], lost.clone()).await;
    store.flush().await;
    assert_eq!(get(&*store, "p/0/j/1").await, Some(b"e".to_vec()));
    assert_eq!(get(&*store, "p/0/j/2").await, Some(b"f".to_vec()));
    assert_eq!(lost.load(Ordering::SeqCst), 0);
}

/// A run that was taken over can't write the journal of its successor.
/// Shows trap 16.
pub async fn an_append_is_dropped_and_counted_when_its_guard_has_moved(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/j", None), vec![put("p/0/j", "2")]).await;
    let before = store.dump().await;
    let (lost, other) = (Arc::new(AtomicU32::new(5)), Arc::new(AtomicU32::new(0)));
    store.append_later(guard("p/0/j", Some(b"1")), vec![put("p/0/j/1", "e"), put("p/0/j", "1")], lost.clone()).await;
    store.append_later(guard("p/0/j", None), vec![put("p/0/j/1", "e")], lost.clone()).await;
    store.append_later(guard("p/0/absent", Some(b"")), vec![put("p/0/j/1", "e")], lost.clone()).await;
    store.append_later(guard("p/0/j", Some(b"2")), vec![], other.clone()).await;
    store.flush().await;
    assert_eq!(store.dump().await, before);
    assert_eq!(lost.load(Ordering::SeqCst), 8, "one for each call, and on top of what was there");
    assert_eq!(other.load(Ordering::SeqCst), 0);
}

/// Of many appends to one slot the last stays.
pub async fn appends_are_applied_in_order(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/j", None), vec![put("p/0/j", "1")]).await;
    let lost = Arc::new(AtomicU32::new(0));
    for n in 0..500_u32 {
        let writes = vec![put("p/0/j/last", n.to_string()), put(&format!("p/0/j/{}", n % 7), n.to_string())];
        store.append_later(guard("p/0/j", Some(b"1")), writes, lost.clone()).await;
    }
    store.flush().await;
    assert_eq!(get(&*store, "p/0/j/last").await, Some(b"499".to_vec()));
    for slot in 493..500_u32 {
        let key = format!("p/0/j/{}", slot % 7);
        assert_eq!(get(&*store, &key).await, Some(slot.to_string().into_bytes()));
    }
    assert_eq!(lost.load(Ordering::SeqCst), 0);
}

/// There is nobody to tell, so it counts as lost.
pub async fn an_append_over_a_limit_is_counted_as_lost(store: Arc<dyn Store>) {
    let lost = Arc::new(AtomicU32::new(0));
    let large = vec![put("p/0/a", vec![0; VALUE_BYTES_MAX + 1])];
    store.append_later(guard("p/0/j", None), large, lost.clone()).await;
    store.append_later(guard("p/0/j", None), vec![put("p/1/a", "1")], lost.clone()).await;
    store.append_later(guard("p/0/j", None), vec![put("p/0/a", "1"), put("p/0/a", "2")], lost.clone()).await;
    store.flush().await;
    assert_eq!(lost.load(Ordering::SeqCst), 3);
    assert_eq!(store.count().await, Ok(0));
}

/// Each is checked against what those before it have written.
pub async fn an_append_may_move_the_guard_of_the_next(store: Arc<dyn Store>) {
    let lost = Arc::new(AtomicU32::new(0));
    store.append_later(guard("p/0/j", None), vec![put("p/0/j", "1")], lost.clone()).await;
    store.append_later(guard("p/0/j", Some(b"1")), vec![put("p/0/j", "2")], lost.clone()).await;
    store.append_later(guard("p/0/j", Some(b"1")), vec![put("p/0/j", "3")], lost.clone()).await;
    store.flush().await;
    assert_eq!(get(&*store, "p/0/j").await, Some(b"2".to_vec()));
    assert_eq!(lost.load(Ordering::SeqCst), 1);
}

/// There is nothing to wait for.
pub async fn flush_with_nothing_queued_returns(store: Arc<dyn Store>) {
    store.flush().await;
    store.flush().await;
    assert_eq!(store.count().await, Ok(0));
}
