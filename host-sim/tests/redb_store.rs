//! What only the embedded store promises: it keeps what it acknowledged, says nothing before the flush, lives through
//! a flush that fails, shares flushes, and says plainly why a folder can't be opened.

use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
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
use host_sim::store::redb::BATCH_REQUESTS_MAX;
use host_sim::store::redb::CACHE_BYTES;
use host_sim::store::redb::LATER_CALLS_MAX;
use host_sim::store::redb::OpenError;
use host_sim::store::redb::RedbStore;

mod folder {
    use super::*;

    #[tokio::test]
    async fn what_was_committed_is_there_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("made/on/demand");
        for round in 0..3_u8 {
            let store = RedbStore::open(&dir).unwrap();
            let expect = round.checked_sub(1).map(|last| vec![last]);
            let guard = Guard {
                key: "p/0/g".to_owned(),
                expect,
            };
            assert_eq!(
                store.commit(guard, vec![put("p/0/g", vec![round])]).await,
                Ok(Outcome::Committed)
            );
            let guard = Guard {
                key: "p/0/g".to_owned(),
                expect: Some(vec![round]),
            };
            // Dropped with the store right after: what is queued is served before the thread ends.
            store
                .append_later(
                    guard,
                    vec![put(&format!("p/0/j/{round}"), "1")],
                    Arc::default(),
                )
                .await;
        }
        let store = RedbStore::open(&dir).unwrap();
        let keys: Vec<_> = store
            .dump()
            .await
            .unwrap()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys, ["p/0/g", "p/0/j/0", "p/0/j/1", "p/0/j/2"]);
    }

    #[test]
    fn a_folder_in_use_is_refused_in_the_same_process() {
        let dir = tempfile::tempdir().unwrap();
        let first = RedbStore::open(dir.path()).unwrap();
        let error = RedbStore::open(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
        assert!(
            error.to_string().contains("in use by another process"),
            "{error}"
        );
        drop(first);
        RedbStore::open(dir.path()).unwrap();
    }

    const DIR: &str = "WRIT_TEST_STORE_DIR";

    /// Runs this test program again, with the folder that it holds open.
    #[test]
    fn a_folder_in_use_is_refused_in_another_process() {
        let dir = tempfile::tempdir().unwrap();
        let _held = RedbStore::open(dir.path()).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "folder::the_other_process",
                "--ignored",
                "--nocapture",
            ])
            .env(DIR, dir.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{output:?}"
        );
    }

    #[test]
    #[ignore = "runs only as the other process"]
    fn the_other_process() {
        let Some(dir) = std::env::var_os(DIR) else {
            return;
        };
        let error = RedbStore::open(Path::new(&dir)).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    }

    #[test]
    fn a_newer_format_is_refused_with_both_numbers_and_nothing_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        drop(RedbStore::open(dir.path()).unwrap());
        assert_eq!(
            fs::read_to_string(dir.path().join("FORMAT")).unwrap(),
            "{\"version\":1}\n"
        );
        fs::write(dir.path().join("FORMAT"), "{\"version\":7}").unwrap();
        let before = content(dir.path());
        let error = RedbStore::open(dir.path()).unwrap_err();
        assert!(
            matches!(
                error,
                OpenError::NewerFormat {
                    found: 7,
                    known: 1,
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(
            error.to_string().contains("format 7") && error.to_string().contains("up to 1"),
            "{error}"
        );
        assert_eq!(content(dir.path()), before);
    }

    #[test]
    fn a_format_that_is_missing_or_unreadable_is_refused_and_nothing_is_touched() {
        for format in [
            None,
            Some(""),
            Some("redb"),
            Some("{\"version\":0}"),
            Some("{\"version\":-1}"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            drop(RedbStore::open(dir.path()).unwrap());
            match format {
                Some(text) => fs::write(dir.path().join("FORMAT"), text).unwrap(),
                None => fs::remove_file(dir.path().join("FORMAT")).unwrap(),
            }
            let before = content(dir.path());
            let error = RedbStore::open(dir.path()).unwrap_err();
            assert!(
                matches!(error, OpenError::Format { .. }),
                "{format:?}: {error:?}"
            );
            assert_eq!(content(dir.path()), before);
        }
    }

    #[test]
    fn a_file_that_is_no_database_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        drop(RedbStore::open(dir.path()).unwrap());
        let text = "not a database, but dear to somebody\n".repeat(1000);
        fs::write(dir.path().join("writ.redb"), &text).unwrap();
        let error = RedbStore::open(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
        assert!(error.to_string().contains("is not a store"), "{error}");
        assert_eq!(
            fs::read_to_string(dir.path().join("writ.redb")).unwrap(),
            text
        );
    }

    #[test]
    fn a_truncated_database_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(RedbStore::open(dir.path()).unwrap());
        let file = dir.path().join("writ.redb");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let error = RedbStore::open(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    }

    #[test]
    fn a_path_that_is_no_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "1").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = RedbStore::open(&path).unwrap_err();
            assert!(matches!(error, OpenError::NotAFolder { .. }), "{error:?}");
            assert!(error.to_string().contains("not a folder"), "{error}");
        }
    }

    fn content(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let mut all: Vec<_> = entries
            .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
            .collect();
        all.sort();
        all
    }
}

mod flush {
    use super::*;

    /// I1, at each of the flushes that a commit makes. A commit that lost its guard to it isn't answered either.
    #[tokio::test]
    async fn nothing_is_said_or_shown_before_the_flush() {
        let (disk, store) = simulated().await;
        commit(&store, None, "0").await;
        for round in 0..FLUSHES {
            let (now, next) = (round.to_string(), (round + 1).to_string());
            let held = disk.hold_syncs();
            held.allow(round);
            let mut winner = start(&store, Some(&now), &next);
            held.wait();
            let mut loser = start(&store, Some("elsewhere"), "x");
            // Whatever a reader does meanwhile, it sees what was flushed, and does not wait for the flush.
            assert_eq!(value(&store).await, now, "flush {round}");
            assert_eq!(
                store.dump().await.unwrap(),
                [("p/0/g".to_owned(), now.into_bytes())]
            );
            assert!(
                !winner.is_answered() && !loser.is_answered(),
                "answered before flush {round}"
            );
            drop(held);
            assert_eq!(winner.0.await, Ok(Outcome::Committed));
            assert_eq!(
                loser.0.await,
                Ok(Outcome::Stale(Some(next.clone().into_bytes())))
            );
            assert_eq!(value(&store).await, next);
        }
    }

    /// A commit in the batch of the one that it lost to: what it is shown is not flushed yet either.
    #[tokio::test]
    async fn a_guard_lost_within_a_batch_is_not_told_before_the_flush() {
        let (disk, store) = simulated().await;
        commit(&store, None, "0").await;
        let (held, blocker) = block(&disk, &store);
        let mut winner = start(&store, Some("1"), "2");
        let mut loser = start(&store, Some("1"), "x");
        held.allow(FLUSHES);
        assert_eq!(blocker.0.await, Ok(Outcome::Committed));
        held.wait();
        assert!(!winner.is_answered() && !loser.is_answered());
        assert_eq!(value(&store).await, "1");
        drop(held);
        assert_eq!(winner.0.await, Ok(Outcome::Committed));
        assert_eq!(loser.0.await, Ok(Outcome::Stale(Some(b"2".to_vec()))));
    }

    /// What was acknowledged survives the loss of all that was not flushed; what is unknown is there or not.
    #[tokio::test]
    async fn what_was_acknowledged_survives_a_power_loss() {
        for failing in 0..=FLUSHES {
            let (disk, store) = simulated().await;
            commit(&store, None, "1").await;
            disk.fail_sync_after(failing);
            disk.fail_opens(true);
            let outcome = store
                .commit(guard(Some("1")), vec![put("p/0/g", "2"), put("p/0/a", "2")])
                .await;
            // Before the store is dropped: closing it would flush.
            let lost = disk.after_power_loss();
            let store = reopen(&lost);
            let expected = if failing < FLUSHES {
                assert!(
                    matches!(outcome, Err(StoreError::Unknown(_))),
                    "{outcome:?}"
                );
                "1"
            } else {
                assert_eq!(outcome, Ok(Outcome::Committed));
                "2"
            };
            assert_eq!(value(&store).await, expected, "flush {failing} failed");
            assert_eq!(store.count().await, Ok(if expected == "1" { 1 } else { 2 }));
        }
    }

    /// Every commit of the batch is unknown, also one that lost its guard; afterwards the batch is there as a whole or
    /// not at all, and the store serves again. For each flush of a commit in turn.
    #[tokio::test]
    async fn a_failed_flush_makes_its_batch_unknown_and_the_store_goes_on() {
        let mut found = Vec::new();
        for failing in 0..FLUSHES {
            let (disk, store) = simulated().await;
            commit(&store, None, "0").await;
            let (held, blocker) = block(&disk, &store);
            let opens = disk.opens();
            let lost = Arc::new(AtomicU32::new(0));
            // Queued in this order behind the blocker, and so one batch.
            let batch = [
                start(&store, Some("1"), "2"),
                start(&store, Some("2"), "3"),
                start(&store, Some("0"), "4"),
            ];
            store
                .append_later(guard(Some("3")), vec![put("p/0/j", "1")], lost.clone())
                .await;
            disk.fail_sync_after(FLUSHES + failing);
            drop(held);
            assert_eq!(blocker.0.await, Ok(Outcome::Committed));
            for commit in batch {
                let outcome = commit.0.await;
                assert!(
                    matches!(outcome, Err(StoreError::Unknown(_))),
                    "{outcome:?}"
                );
            }
            store.flush().await;
            assert_eq!(lost.load(Ordering::SeqCst), 1);
            assert_eq!(disk.opens(), opens + 1, "the database was opened again");
            let now = value(&store).await;
            let journal = store
                .get_many(vec!["p/0/j".to_owned()])
                .await
                .unwrap()
                .remove(0);
            match now.as_str() {
                "1" => assert_eq!(journal, None),
                "3" => assert_eq!(journal, Some(b"1".to_vec())),
                other => panic!("half a batch: {other}"),
            }
            commit(&store, Some(&now), "on").await;
            assert_eq!(value(&store).await, "on");
            found.push(now);
        }
        // The first flush makes the data durable, the second what points to it: both ends were met.
        assert_eq!(found, ["1", "3"]);
    }

    /// While the storage can't be opened, everybody is told so; then the store works again, without a restart.
    #[tokio::test]
    async fn a_store_that_can_not_be_reopened_is_unavailable_until_it_can() {
        let (disk, store) = simulated().await;
        commit(&store, None, "1").await;
        disk.fail_opens(true);
        disk.fail_sync_after(0);
        let outcome = replace(&store, Some("1"), "2").await;
        assert!(
            matches!(outcome, Err(StoreError::Unknown(_))),
            "{outcome:?}"
        );
        let outcome = replace(&store, Some("1"), "2").await;
        assert!(
            matches!(outcome, Err(StoreError::Unavailable(_))),
            "{outcome:?}"
        );
        let values = store.get_many(vec!["p/0/g".to_owned()]).await;
        assert!(
            matches!(values, Err(StoreError::Unavailable(_))),
            "{values:?}"
        );
        let lost = Arc::new(AtomicU32::new(0));
        store
            .append_later(guard(Some("1")), vec![put("p/0/j", "1")], lost.clone())
            .await;
        store.flush().await;
        assert_eq!(lost.load(Ordering::SeqCst), 1);
        disk.heal();
        assert_eq!(value(&store).await, "1");
        commit(&store, Some("1"), "2").await;
    }

    /// A read that fails leaves the database closed to all; the next request opens it again, be it a read or a commit.
    #[tokio::test]
    async fn a_failed_read_is_unavailable_and_the_next_request_is_served() {
        for read_next in [true, false] {
            let disk = FaultDisk::new();
            let factory = disk.clone();
            // No cache, so that reads reach the disk.
            let store = RedbStore::with_backend(move || factory.backend(), 0).unwrap();
            commit(&store, None, "1").await;
            disk.fail_reads(true);
            let values = store.get_many(vec!["p/0/g".to_owned()]).await;
            assert!(
                matches!(values, Err(StoreError::Unavailable(_))),
                "{values:?}"
            );
            disk.fail_reads(false);
            if read_next {
                assert_eq!(value(&store).await, "1");
            }
            commit(&store, Some("1"), "2").await;
            assert_eq!(value(&store).await, "2");
        }
    }

    /// Counted, not timed: all that waited during one flush shares the next.
    #[tokio::test]
    async fn many_commits_share_few_flushes() {
        const COMMITS: usize = 200;
        let (disk, store) = simulated().await;
        commit(&store, None, "0").await;
        let before = disk.syncs();
        let (held, blocker) = block(&disk, &store);
        let waiting: Vec<_> = (0..COMMITS)
            .map(|n| start_write(&store, &format!("p/1/{n}")))
            .collect();
        drop(held);
        assert_eq!(blocker.0.await, Ok(Outcome::Committed));
        for commit in waiting {
            assert_eq!(commit.0.await, Ok(Outcome::Committed));
        }
        assert_eq!(
            disk.syncs() - before,
            2 * FLUSHES,
            "one batch for the blocker, one for all others"
        );
        assert_eq!(store.count().await, Ok(COMMITS as u64 + 1));
    }

    /// A batch has an end, so that nobody waits for all who came later.
    #[tokio::test]
    async fn a_batch_is_bounded() {
        let (disk, store) = simulated().await;
        commit(&store, None, "0").await;
        let before = disk.syncs();
        let (held, blocker) = block(&disk, &store);
        let waiting: Vec<_> = (0..=BATCH_REQUESTS_MAX)
            .map(|n| start_write(&store, &format!("p/1/{n}")))
            .collect();
        drop(held);
        assert_eq!(blocker.0.await, Ok(Outcome::Committed));
        for commit in waiting {
            assert_eq!(commit.0.await, Ok(Outcome::Committed));
        }
        assert_eq!(
            disk.syncs() - before,
            3 * FLUSHES,
            "one for the blocker, one full batch, one of a single commit"
        );
    }

    /// The journal can't fill the memory while a disk is slow, and it never waits.
    #[tokio::test]
    async fn appends_over_the_backlog_are_lost_and_counted() {
        let (disk, store) = simulated().await;
        commit(&store, None, "0").await;
        let (held, blocker) = block(&disk, &store);
        let lost = Arc::new(AtomicU32::new(0));
        for n in 0..LATER_CALLS_MAX + 3 {
            store
                .append_later(
                    guard(Some("1")),
                    vec![put(&format!("p/0/j/{n}"), "1")],
                    lost.clone(),
                )
                .await;
        }
        assert_eq!(lost.load(Ordering::SeqCst), 3);
        drop(held);
        assert_eq!(blocker.0.await, Ok(Outcome::Committed));
        store.flush().await;
        assert_eq!(store.count().await, Ok(LATER_CALLS_MAX as u64 + 1));
        store
            .append_later(guard(Some("1")), vec![put("p/0/j/more", "1")], lost.clone())
            .await;
        store.flush().await;
        assert_eq!(lost.load(Ordering::SeqCst), 3, "there is room again");
    }

    /// Then nothing can be lost by not flushing.
    #[tokio::test]
    async fn a_commit_that_changes_nothing_flushes_nothing() {
        let (disk, store) = simulated().await;
        commit(&store, None, "1").await;
        let before = disk.syncs();
        assert_eq!(
            replace(&store, None, "2").await,
            Ok(Outcome::Stale(Some(b"1".to_vec())))
        );
        assert_eq!(disk.syncs(), before);
    }
}

/// Flushes of one batch: redb's commit in two phases. When the file grows there is one more.
const FLUSHES: u64 = 2;

/// A store on a simulated disk, grown so far that the small commits of these tests don't make it grow again.
async fn simulated() -> (FaultDisk, RedbStore) {
    let disk = FaultDisk::new();
    let store = reopen(&disk);
    for n in 0..3 {
        let key = format!("host/grown/{n}");
        let guard = Guard {
            key: key.clone(),
            expect: None,
        };
        assert_eq!(
            store
                .commit(guard, vec![put(&key, vec![0; VALUE_BYTES_MAX])])
                .await,
            Ok(Outcome::Committed)
        );
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
        matches!(
            self.0
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(_)
        )
    }
}

/// Sends a commit that replaces the guard's value, and does not wait for the answer.
fn start<'s>(store: &'s RedbStore, expect: Option<&str>, next: &str) -> Started<'s> {
    send(store.commit(guard(expect), vec![put("p/0/g", next)]))
}

/// Sends a commit that makes a key, with the key as its own guard.
fn start_write<'s>(store: &'s RedbStore, key: &str) -> Started<'s> {
    send(store.commit(
        Guard {
            key: key.to_owned(),
            expect: None,
        },
        vec![put(key, "1")],
    ))
}

fn send<'s>(
    commit: Pin<Box<dyn Future<Output = Result<Outcome, StoreError>> + Send + 's>>,
) -> Started<'s> {
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

async fn replace(
    store: &RedbStore,
    expect: Option<&str>,
    next: &str,
) -> Result<Outcome, StoreError> {
    store.commit(guard(expect), vec![put("p/0/g", next)]).await
}

async fn commit(store: &RedbStore, expect: Option<&str>, next: &str) {
    assert_eq!(replace(store, expect, next).await, Ok(Outcome::Committed));
}

async fn value(store: &RedbStore) -> String {
    let value = store
        .get_many(vec!["p/0/g".to_owned()])
        .await
        .unwrap()
        .remove(0);
    String::from_utf8(value.unwrap()).unwrap()
}

fn guard(expect: Option<&str>) -> Guard {
    Guard {
        key: "p/0/g".to_owned(),
        expect: expect.map(|text| text.as_bytes().to_vec()),
    }
}

fn put(key: &str, value: impl Into<Vec<u8>>) -> Write {
    Write {
        key: key.to_owned(),
        value: Some(value.into()),
    }
}
