//! Order, snapshots, and what tests see of a store.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::commit;
use super::guard;
use super::put;
use crate::store::Store;

/// Whatever the order of the keys.
pub async fn values_come_in_the_order_asked_and_missing_ones_as_none(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![put("p/0/a", "1"), put("p/0/b", "2")]).await;
    commit(&*store, guard("q/0/g", None), vec![put("q/0/c", "3")]).await;
    let keys = ["q/0/c", "p/0/z", "p/0/b", "p/0/", "p/0/a", "q/0/c"].map(str::to_owned).to_vec();
    let value = |text: &str| Some(text.as_bytes().to_vec());
    let expected = vec![value("3"), None, value("2"), None, value("1"), value("3")];
    assert_eq!(store.get_many(keys).await, Ok(expected));
}

/// A writer changes two keys together, again and again; no reader ever sees them differ, or go back.
/// Shows trap 5.
pub async fn a_read_is_one_snapshot(store: Arc<dyn Store>) {
    const FLIPS: u32 = 100;
    commit(&*store, guard("p/0/a", None), vec![put("p/0/a", "0"), put("p/0/b", "0")]).await;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (store, done) = (store.clone(), done.clone());
            tokio::spawn(async move {
                let mut last = 0;
                while !done.load(Ordering::SeqCst) {
                    last = read_pair(&*store, last).await;
                    tokio::task::yield_now().await;
                }
                last
            })
        })
        .collect();
    for flip in 0..FLIPS {
        let next = (flip + 1).to_string();
        let writes = vec![put("p/0/a", next.as_str()), put("p/0/b", next.as_str())];
        commit(&*store, guard("p/0/a", Some(flip.to_string().as_bytes())), writes).await;
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        let last = reader.await.expect("the reader");
        assert_eq!(read_pair(&*store, last).await, FLIPS);
    }
}

async fn read_pair(store: &dyn Store, last: u32) -> u32 {
    // Many keys between the two, so that a read that is no snapshot has time to show it.
    let mut keys = vec!["p/0/x".to_owned(); 256];
    keys[0] = "p/0/a".to_owned();
    keys[255] = "p/0/b".to_owned();
    let values = store.get_many(keys).await.expect("a read");
    assert_eq!(values[0], values[255], "the two keys differ");
    let text = String::from_utf8(values[0].clone().expect("a value")).expect("digits");
    let number = text.parse().expect("a number");
    assert!(number >= last, "{number} after {last}");
    number
}

/// They are stored and served like others, and neither dumped nor counted.
pub async fn dump_and_count_leave_out_the_host_s_own_keys(store: Arc<dyn Store>) {
    commit(&*store, guard("host/a/g", None), vec![put("host/a/g", "1"), put("host/a/b", "1")]).await;
    commit(&*store, guard("host/", None), vec![put("host/", "1")]).await;
    for key in ["host", "host0", "p/0/host/a"] {
        commit(&*store, guard(key, None), vec![put(key, "2")]).await;
    }
    let shown = ["host", "host0", "p/0/host/a"].map(|key| (key.to_owned(), b"2".to_vec())).to_vec();
    assert_eq!(store.dump().await, Ok(shown));
    assert_eq!(store.count().await, Ok(3));
    let host = store.get_many(vec!["host/a/b".to_owned(), "host/".to_owned()]).await;
    assert_eq!(host, Ok(vec![Some(b"1".to_vec()); 2]));
}
