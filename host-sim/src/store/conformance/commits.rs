//! Guards, writes, and what a refusal leaves behind.

use std::sync::Arc;

use tokio::sync::Barrier;

use super::commit;
use super::delete;
use super::get;
use super::guard;
use super::put;
use crate::store::Guard;
use crate::store::Outcome;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::VALUE_BYTES_MAX;
use crate::store::Write;

/// Absent is a condition like any other.
pub async fn a_guard_that_expects_absence_commits_on_an_absent_key(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![put("p/0/a", "1")]).await;
    assert_eq!(get(&*store, "p/0/a").await, Some(b"1".to_vec()));
    assert_eq!(get(&*store, "p/0/g").await, None);
}

/// The answer shows what is there.
pub async fn a_guard_that_expects_absence_is_stale_on_a_present_key(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![put("p/0/g", "1")]).await;
    let outcome = store.commit(guard("p/0/g", None), vec![put("p/0/g", "2")]).await;
    assert_eq!(outcome, Ok(Outcome::Stale(Some(b"1".to_vec()))));
    assert_eq!(get(&*store, "p/0/g").await, Some(b"1".to_vec()));
}

/// Equal means byte for byte.
pub async fn a_guard_that_expects_the_value_commits(store: Arc<dyn Store>) {
    let bytes: Vec<u8> = (0..=255).collect();
    commit(&*store, guard("p/0/g", None), vec![put("p/0/g", bytes.clone())]).await;
    commit(&*store, guard("p/0/g", Some(&bytes)), vec![put("p/0/g", "2")]).await;
    assert_eq!(get(&*store, "p/0/g").await, Some(b"2".to_vec()));
}

/// A prefix, a longer value and an empty value are other values.
pub async fn a_guard_that_expects_another_value_is_stale(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![put("p/0/g", "ab")]).await;
    for other in ["a", "abc", "", "ac"] {
        let outcome = store.commit(guard("p/0/g", Some(other.as_bytes())), vec![put("p/0/a", "1")]).await;
        assert_eq!(outcome, Ok(Outcome::Stale(Some(b"ab".to_vec()))), "{other:?}");
    }
    assert_eq!(get(&*store, "p/0/a").await, None);
}

/// Stale with `None` says that the key is absent.
pub async fn a_guard_that_expects_a_value_is_stale_on_an_absent_key(store: Arc<dyn Store>) {
    for expect in ["1", ""] {
        let outcome = store.commit(guard("p/0/g", Some(expect.as_bytes())), vec![put("p/0/g", "2")]).await;
        assert_eq!(outcome, Ok(Outcome::Stale(None)), "{expect:?}");
    }
    assert_eq!(store.count().await, Ok(0));
}

/// The contract does not ask that a guard be written; that rule is the component's own.
pub async fn the_guard_key_may_be_written_or_left(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![put("p/0/g", "1"), put("p/0/a", "1")]).await;
    commit(&*store, guard("p/0/g", Some(b"1")), vec![put("p/0/a", "2")]).await;
    commit(&*store, guard("p/0/g", Some(b"1")), vec![delete("p/0/g")]).await;
    assert_eq!(get(&*store, "p/0/g").await, None);
    assert_eq!(get(&*store, "p/0/a").await, Some(b"2".to_vec()));
}

/// It changes nothing, and still has an outcome.
pub async fn a_commit_without_writes_only_asks_the_guard(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![]).await;
    let outcome = store.commit(guard("p/0/g", Some(b"1")), vec![]).await;
    assert_eq!(outcome, Ok(Outcome::Stale(None)));
    assert_eq!(store.count().await, Ok(0));
}

/// Present and empty is not absent, neither to readers nor to guards.
pub async fn an_empty_value_is_a_value(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![put("p/0/g", "")]).await;
    assert_eq!(get(&*store, "p/0/g").await, Some(vec![]));
    let outcome = store.commit(guard("p/0/g", None), vec![]).await;
    assert_eq!(outcome, Ok(Outcome::Stale(Some(vec![]))));
    commit(&*store, guard("p/0/g", Some(b"")), vec![put("p/0/g", "1")]).await;
}

/// Deleting an absent key is no error.
pub async fn a_deleted_key_is_absent(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![put("p/0/a", "1"), put("p/0/b", "1")]).await;
    commit(&*store, guard("p/0/g", None), vec![delete("p/0/a"), delete("p/0/never")]).await;
    assert_eq!(get(&*store, "p/0/a").await, None);
    assert_eq!(store.dump().await, Ok(vec![("p/0/b".to_owned(), b"1".to_vec())]));
}

/// Also when both writes say the same.
pub async fn a_key_given_twice_is_refused(store: Arc<dyn Store>) {
    for writes in
        [vec![put("p/0/a", "1"), put("p/0/a", "1")], vec![put("p/0/a", "1"), put("p/0/b", "1"), delete("p/0/a")]]
    {
        let outcome = store.commit(guard("p/0/g", None), writes).await;
        assert!(matches!(outcome, Err(StoreError::Denied(_))), "{outcome:?}");
    }
    assert_eq!(store.count().await, Ok(0));
}

/// As a guard, as a write, and in a read.
pub async fn an_empty_key_is_refused(store: Arc<dyn Store>) {
    let outcome = store.commit(guard("", None), vec![]).await;
    assert!(matches!(outcome, Err(StoreError::Denied(_))), "{outcome:?}");
    let outcome = store.commit(guard("p/0/g", None), vec![put("", "1")]).await;
    assert!(matches!(outcome, Err(StoreError::Denied(_))), "{outcome:?}");
    let values = store.get_many(vec![String::new()]).await;
    assert!(matches!(values, Err(StoreError::Denied(_))), "{values:?}");
}

/// The partition is the text before the second `/`, or the whole key if it has fewer. One foreign key
/// refuses the whole commit.
pub async fn a_foreign_partition_is_refused_whole(store: Arc<dyn Store>) {
    for (home, foreign) in [
        ("p/0/g", "p/1/a"),
        ("p/0/g", "p"),
        ("p/0/g", "p/00/a"),
        ("p/0/g", "q/0/a"),
        ("p", "p/0/a"),
        ("p/0", "p/1/a"),
        ("p/0", "p/1"),
        ("format", "p/0/a"),
    ] {
        let writes = vec![put(home, "1"), put(foreign, "1")];
        let outcome = store.commit(guard(home, None), writes).await;
        assert!(matches!(outcome, Err(StoreError::Denied(_))), "{home} {foreign}: {outcome:?}");
    }
    assert_eq!(store.count().await, Ok(0));
    commit(&*store, guard("p/0/g", None), vec![put("p/0/a", "1"), put("p/0/b/c/d", "1")]).await;
    // `p/0` has one `/` only: it is itself the text before the second, and so lies in the same partition.
    commit(&*store, guard("p/0/g", None), vec![put("p/0", "1")]).await;
}

/// Many commits that wait at once for one guard value: one is applied, and all others are told what it wrote.
/// Shows B29.
pub async fn one_of_many_commits_on_one_guard_value_wins(store: Arc<dyn Store>) {
    const TASKS: usize = 48;
    let start = Arc::new(Barrier::new(TASKS));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, start) = (store.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                let name = format!("{task:02}");
                let writes = vec![put("p/0/g", name.as_str()), put(&format!("p/0/task/{name}"), "1")];
                (name, store.commit(guard("p/0/g", None), writes).await.expect("an outcome"))
            })
        })
        .collect();
    let mut ends = Vec::new();
    for task in tasks {
        ends.push(task.await.expect("the task"));
    }
    let winners: Vec<_> = ends.iter().filter(|(_, outcome)| *outcome == Outcome::Committed).collect();
    let [(winner, _)] = winners.as_slice() else { panic!("not one winner: {winners:?}") };
    for (name, outcome) in ends.iter().filter(|(name, _)| name != winner) {
        assert_eq!(*outcome, Outcome::Stale(Some(winner.clone().into_bytes())), "{name}");
    }
    assert_eq!(store.count().await, Ok(2), "only the winner's writes are there");
}

/// Read, add one, commit on what was read, again on what a lost guard shows: no increment is lost or doubled.
pub async fn increments_from_many_tasks_are_lossless(store: Arc<dyn Store>) {
    const TASKS: u32 = 8;
    const EACH: u32 = 25;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for step in 0..EACH {
                    increment(&*store, &format!("p/0/log/{task}/{step}")).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task");
    }
    let total = (TASKS * EACH).to_string();
    assert_eq!(get(&*store, "p/0/g").await, Some(total.into_bytes()));
    assert_eq!(store.count().await, Ok(u64::from(TASKS * EACH) + 1));
}

async fn increment(store: &dyn Store, log: &str) {
    let mut current = get(store, "p/0/g").await;
    loop {
        let text = String::from_utf8(current.clone().unwrap_or_default()).expect("digits");
        let next = if text.is_empty() { 1 } else { text.parse::<u32>().expect("a number") + 1 };
        let writes = vec![put("p/0/g", next.to_string()), put(log, next.to_string())];
        match store.commit(guard("p/0/g", current.as_deref()), writes).await.expect("an outcome") {
            Outcome::Committed => return,
            Outcome::Stale(now) => {
                assert_ne!(now, current, "stale on the value that it expected");
                current = now;
            }
        }
    }
}

/// Whatever the reason of the refusal (I2).
/// Shows A23, B28.
pub async fn a_refused_commit_leaves_the_dump_as_it_was(store: Arc<dyn Store>) {
    commit(&*store, guard("p/0/g", None), vec![put("p/0/g", "1"), put("p/0/a", "1")]).await;
    let before = store.dump().await;
    let good = || guard("p/0/g", Some(b"1"));
    let first = || put("p/0/a", "2");
    let refused: Vec<(Guard, Vec<Write>)> = vec![
        (guard("p/0/g", Some(b"0")), vec![first(), delete("p/0/g")]),
        (guard("p/0/g", None), vec![first()]),
        (good(), vec![first(), delete("p/0/g"), put("p/0/g", "3")]),
        (good(), vec![first(), put("p/1/a", "1")]),
        (good(), vec![first(), put("", "1")]),
        (good(), vec![first(), put("p/0/b", vec![0; VALUE_BYTES_MAX + 1])]),
        (good(), (0..65).map(|n| put(&format!("p/0/n/{n}"), "1")).collect()),
    ];
    for (guard, writes) in refused {
        let outcome = store.commit(guard, writes).await;
        assert_ne!(outcome, Ok(Outcome::Committed));
        assert_eq!(store.dump().await, before, "after {outcome:?}");
    }
}
