//! What every store must do, as cases that run on any store. A case gets an empty store and panics when it finds a
//! fault. The list of all cases, and a macro that makes a test of each, is [`store_conformance`](crate::store_conformance).

mod commits;
mod journal;
mod limits;
mod reads;

pub use self::commits::*;
pub use self::journal::*;
pub use self::limits::*;
pub use self::reads::*;

use super::Guard;
use super::Outcome;
use super::Store;
use super::Value;
use super::Write;

/// Makes a tokio test of every case, each with a store of its own.
///
/// `$fresh` is called in the test and gives a tuple: an `Arc<dyn Store>` that is empty, and anything that must live
/// as long as the test (a temporary folder). Give it a module of its own, for the tests' names:
///
/// ```
/// mod memory {
///     use std::sync::Arc;
///     use host_sim::store::memory::MemoryStore;
///     host_sim::store_conformance!(|| (Arc::new(MemoryStore::new()), ()));
/// }
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($fresh:expr) => {
        $crate::store_conformance!(@cases $fresh;
            a_guard_that_expects_absence_commits_on_an_absent_key
            a_guard_that_expects_absence_is_stale_on_a_present_key
            a_guard_that_expects_the_value_commits
            a_guard_that_expects_another_value_is_stale
            a_guard_that_expects_a_value_is_stale_on_an_absent_key
            the_guard_key_may_be_written_or_left
            a_commit_without_writes_only_asks_the_guard
            an_empty_value_is_a_value
            a_deleted_key_is_absent
            a_key_given_twice_is_refused
            an_empty_key_is_refused
            a_foreign_partition_is_refused_whole
            one_of_many_commits_on_one_guard_value_wins
            increments_from_many_tasks_are_lossless
            a_refused_commit_leaves_the_dump_as_it_was
            a_commit_takes_64_writes_and_not_65
            a_read_takes_256_keys_and_not_257
            a_value_takes_262144_bytes_and_not_one_more
            a_key_takes_1024_bytes_and_not_one_more
            a_commit_takes_4194304_bytes_and_not_one_more
            values_come_in_the_order_asked_and_missing_ones_as_none
            a_read_is_one_snapshot
            dump_and_count_leave_out_the_host_s_own_keys
            an_append_is_applied_while_its_guard_holds
            an_append_is_dropped_and_counted_when_its_guard_has_moved
            appends_are_applied_in_order
            an_append_over_a_limit_is_counted_as_lost
            an_append_may_move_the_guard_of_the_next
            flush_with_nothing_queued_returns
        );
    };
    (@cases $fresh:expr; $($case:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (store, _kept) = ($fresh)();
                $crate::store::conformance::$case(store).await;
            }
        )+
    };
}

fn guard(key: &str, expect: Option<&[u8]>) -> Guard {
    Guard { key: key.to_owned(), expect: expect.map(<[u8]>::to_vec) }
}

fn put(key: &str, value: impl Into<Value>) -> Write {
    Write { key: key.to_owned(), value: Some(value.into()) }
}

fn delete(key: &str) -> Write {
    Write { key: key.to_owned(), value: None }
}

async fn get(store: &dyn Store, key: &str) -> Option<Value> {
    let mut values = store.get_many(vec![key.to_owned()]).await.expect("a read");
    assert_eq!(values.len(), 1, "one value for one key");
    values.remove(0)
}

/// A commit that must succeed.
async fn commit(store: &dyn Store, guard: Guard, writes: Vec<Write>) {
    let outcome = store.commit(guard, writes).await;
    assert_eq!(outcome, Ok(Outcome::Committed));
}
