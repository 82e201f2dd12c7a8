//! Each limit: what fits is taken, one more is refused, and the refusal names the limit.

use std::sync::Arc;

use super::commit;
use super::get;
use super::guard;
use super::put;
use crate::store::COMMIT_BYTES_MAX;
use crate::store::COMMIT_WRITES_MAX;
use crate::store::KEY_BYTES_MAX;
use crate::store::READ_KEYS_MAX;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::VALUE_BYTES_MAX;
use crate::store::Write;

/// The guard's write included.
/// Shows A18.
pub async fn a_commit_takes_64_writes_and_not_65(store: Arc<dyn Store>) {
    let writes = |count: usize| (0..count).map(|n| put(&format!("p/0/{n:02}"), "1")).collect::<Vec<_>>();
    assert_eq!(COMMIT_WRITES_MAX, 64);
    too_large(store.commit(guard("p/0/00", None), writes(65)).await, 64, 65);
    assert_eq!(store.count().await, Ok(0));
    commit(&*store, guard("p/0/00", None), writes(64)).await;
    assert_eq!(store.count().await, Ok(64));
}

/// A key may be asked twice, and no key at all is a read too.
pub async fn a_read_takes_256_keys_and_not_257(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/000", None), vec![put("p/0/000", "1"), put("p/0/255", "1")]).await;
    let keys = |count: usize| (0..count).map(|n| format!("p/0/{n:03}")).collect::<Vec<_>>();
    assert_eq!(READ_KEYS_MAX, 256);
    too_large(store.get_many(keys(257)).await, 256, 257);
    let values = store.get_many(keys(256)).await.expect("256 values");
    let present: Vec<_> = (0..256).filter(|&n| values[n].is_some()).collect();
    assert_eq!((values.len(), present), (256, vec![0, 255]));
    assert_eq!(store.get_many(vec!["p/0/000".to_owned(); 2]).await, Ok(vec![Some(b"1".to_vec()); 2]));
    assert_eq!(store.get_many(vec![]).await, Ok(vec![]));
}

/// And comes back as it was.
/// Shows A18.
pub async fn a_value_takes_262144_bytes_and_not_one_more(store: Arc<dyn Store>) {
    assert_eq!(VALUE_BYTES_MAX, 262_144);
    let value = |bytes: usize| (0..bytes).map(|n| (n % 251) as u8).collect::<Vec<_>>();
    too_large(store.commit(guard("p/0/g", None), vec![put("p/0/a", value(262_145))]).await, 262_144, 262_145);
    assert_eq!(store.count().await, Ok(0));
    commit(&*store, guard("p/0/g", None), vec![put("p/0/a", value(262_144))]).await;
    assert_eq!(get(&*store, "p/0/a").await, Some(value(262_144)));
}

/// In bytes, not characters; in a write, as a guard, and in a read.
pub async fn a_key_takes_1024_bytes_and_not_one_more(store: Arc<dyn Store>) {
    assert_eq!(KEY_BYTES_MAX, 1024);
    // Four bytes, then characters of two bytes each, then what is missing.
    let key = |bytes: usize| format!("p/0/{}{}", "é".repeat(510), "x".repeat(bytes - 1024));
    let (fits, over) = (key(1024), key(1025));
    assert_eq!((fits.len(), over.len()), (1024, 1025));
    too_large(store.commit(guard("p/0/g", None), vec![put(&over, "1")]).await, 1024, 1025);
    too_large(store.commit(guard(&over, None), vec![]).await, 1024, 1025);
    too_large(store.get_many(vec![over]).await, 1024, 1025);
    assert_eq!(store.count().await, Ok(0));
    commit(&*store, guard(&fits, None), vec![put(&fits, "1")]).await;
    assert_eq!(get(&*store, &fits).await, Some(b"1".to_vec()));
}

/// All keys and values of the writes; the guard itself does not count.
pub async fn a_commit_takes_4194304_bytes_and_not_one_more(store: Arc<dyn Store>) {
    assert_eq!(COMMIT_BYTES_MAX, 4_194_304);
    too_large(store.commit(guard("p/0/g", None), writes_of(4_194_305)).await, 4_194_304, 4_194_305);
    assert_eq!(store.count().await, Ok(0));
    commit(&*store, guard("p/0/g", None), writes_of(4_194_304)).await;
    assert_eq!(store.count().await, Ok(16));
}

/// 16 writes with that many bytes of keys and values in all.
fn writes_of(bytes: usize) -> Vec<Write> {
    let mut left = bytes;
    let mut writes = Vec::new();
    for n in 0..16 {
        let key = format!("p/0/{n:02}");
        let value = (left - key.len()).min(VALUE_BYTES_MAX);
        left -= key.len() + value;
        writes.push(put(&key, vec![7; value]));
    }
    assert_eq!(left, 0, "all bytes are placed");
    writes
}

fn too_large<T: std::fmt::Debug>(result: Result<T, StoreError>, limit: usize, actual: usize) {
    match result {
        Err(StoreError::TooLarge(text)) => {
            assert!(text.contains(&limit.to_string()) && text.contains(&actual.to_string()), "{text}");
        }
        other => panic!("not refused as too large: {other:?}"),
    }
}
