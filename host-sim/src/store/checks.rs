//! What every store refuses, before it touches anything: the limits of the contract and the rule of one partition.
//!
//! Pure functions, so that the limits are the host's and the same on every store (I14).

use std::collections::HashSet;

use super::COMMIT_BYTES_MAX;
use super::COMMIT_WRITES_MAX;
use super::Guard;
use super::KEY_BYTES_MAX;
use super::READ_KEYS_MAX;
use super::StoreError;
use super::VALUE_BYTES_MAX;
use super::Write;
use super::partition;

/// Begins every key that is the host's own.
pub const HOST_PREFIX: &str = "host/";

/// Whether the component may touch this key: any key but the host's own.
///
/// Stores take `host/…` keys, since the host keeps records of its own there; the handle given to a component asks this.
pub fn component_key_allowed(key: &str) -> bool {
    !key.starts_with(HOST_PREFIX)
}

/// Checks a `get_many`: at most [`READ_KEYS_MAX`] keys, each of 1 to [`KEY_BYTES_MAX`] bytes. A key may be asked twice.
///
/// # Errors
/// [`StoreError::TooLarge`] names the limit and the actual size; [`StoreError::Denied`] for an empty key.
pub fn check_get_many(keys: &[String]) -> Result<(), StoreError> {
    at_most("get-many", "keys", keys.len(), READ_KEYS_MAX)?;
    keys.iter().try_for_each(|key| check_key(key))
}

/// Checks a `commit` or an `append_later`: sizes, and that all writes lie in the guard's partition, each key once.
///
/// The guard key need not be written. The bytes of a commit are the keys and values of its writes; the guard's
/// expected value does not count, but must itself be a value that a store could hold.
///
/// # Errors
/// [`StoreError::TooLarge`] names the limit and the actual size; [`StoreError::Denied`] for an empty key, a key given
/// twice, or a key outside the guard's partition.
pub fn check_commit(guard: &Guard, writes: &[Write]) -> Result<(), StoreError> {
    at_most("commit", "writes", writes.len(), COMMIT_WRITES_MAX)?;
    check_key(&guard.key)?;
    if let Some(expect) = &guard.expect {
        at_most("expected value of the guard", "bytes", expect.len(), VALUE_BYTES_MAX)?;
    }
    let home = partition(&guard.key);
    let mut seen = HashSet::with_capacity(writes.len());
    for write in writes {
        check_write(write, home)?;
        if !seen.insert(write.key.as_str()) {
            return Err(StoreError::Denied(format!("the key {:?} stands twice in one commit", write.key)));
        }
    }
    at_most("commit", "bytes", commit_bytes(writes), COMMIT_BYTES_MAX)
}

/// The size of a commit, in bytes: the keys and values of its writes.
pub fn commit_bytes(writes: &[Write]) -> usize {
    writes.iter().map(|write| write.key.len() + write.value.as_ref().map_or(0, Vec::len)).sum()
}

fn check_write(write: &Write, home: &str) -> Result<(), StoreError> {
    check_key(&write.key)?;
    if let Some(value) = &write.value
        && value.len() > VALUE_BYTES_MAX
    {
        at_most(&format!("value of {:?}", write.key), "bytes", value.len(), VALUE_BYTES_MAX)?;
    }
    if partition(&write.key) != home {
        return Err(StoreError::Denied(format!(
            "the key {:?} is outside the partition {home:?} of the commit's guard",
            write.key
        )));
    }
    Ok(())
}

fn check_key(key: &str) -> Result<(), StoreError> {
    if key.is_empty() {
        return Err(StoreError::Denied("an empty key".to_owned()));
    }
    at_most("key", "bytes", key.len(), KEY_BYTES_MAX)
}

fn at_most(what: &str, unit: &str, actual: usize, limit: usize) -> Result<(), StoreError> {
    if actual <= limit {
        return Ok(());
    }
    Err(StoreError::TooLarge(format!("{what}: {actual} {unit}, and the limit is {limit}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_s_own_keys_are_not_the_component_s() {
        assert!(!component_key_allowed("host/format"));
        assert!(!component_key_allowed("host/"));
        for key in ["host", "hosts/a", "p/00/host/x", ""] {
            assert!(component_key_allowed(key), "{key}");
        }
    }

    #[test]
    fn a_refusal_names_the_limit_and_the_size() {
        let keys = vec!["k".to_owned(); READ_KEYS_MAX + 1];
        assert_eq!(
            check_get_many(&keys),
            Err(StoreError::TooLarge("get-many: 257 keys, and the limit is 256".to_owned()))
        );
    }

    #[test]
    fn a_guard_that_no_store_can_hold_is_refused() {
        let guard = |bytes| Guard { key: "p/0/g".to_owned(), expect: Some(vec![0; bytes]) };
        assert_eq!(check_commit(&guard(VALUE_BYTES_MAX), &[]), Ok(()));
        assert!(matches!(check_commit(&guard(VALUE_BYTES_MAX + 1), &[]), Err(StoreError::TooLarge(_))));
        let nameless = Guard { key: String::new(), expect: None };
        assert!(matches!(check_commit(&nameless, &[]), Err(StoreError::Denied(_))));
    }
}
