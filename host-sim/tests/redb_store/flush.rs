//! Flushes: nothing before them, whole batches after them, and a store that lives through one that fails.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use host_sim::store::Outcome;
use host_sim::store::Store;
use host_sim::store::StoreError;
use host_sim::store::fault::FaultDisk;
use host_sim::store::redb::BATCH_REQUESTS_MAX;
use host_sim::store::redb::CACHE_BYTES;
use host_sim::store::redb::LATER_CALLS_MAX;
use host_sim::store::redb::RedbStore;

use super::FLUSHES;
use super::block;
use super::commit;
use super::guard;
use super::put;
use super::reopen;
use super::replace;
use super::simulated;
use super::start;
use super::start_write;
use super::value;

/// I1, at each of the flushes that a commit makes. A commit that lost its guard to it isn't answered either.
/// Shows trap 7.
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
        assert_eq!(store.dump().await.unwrap(), [("p/0/g".to_owned(), now.into_bytes())]);
        assert!(!winner.is_answered() && !loser.is_answered(), "answered before flush {round}");
        drop(held);
        assert_eq!(winner.0.await, Ok(Outcome::Committed));
        assert_eq!(loser.0.await, Ok(Outcome::Stale(Some(next.clone().into_bytes()))));
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
/// Shows A41.
#[tokio::test]
async fn what_was_acknowledged_survives_a_power_loss() {
    for failing in 0..=FLUSHES {
        let (disk, store) = simulated().await;
        commit(&store, None, "1").await;
        disk.fail_sync_after(failing);
        disk.fail_opens(true);
        let outcome = store.commit(guard(Some("1")), vec![put("p/0/g", "2"), put("p/0/a", "2")]).await;
        // Before the store is dropped: closing it would flush.
        let lost = disk.after_power_loss();
        let store = reopen(&lost);
        let expected = if failing < FLUSHES {
            assert!(matches!(outcome, Err(StoreError::Unknown(_))), "{outcome:?}");
            "1"
        } else {
            assert_eq!(outcome, Ok(Outcome::Committed));
            "2"
        };
        assert_eq!(value(&store).await, expected, "flush {failing} failed");
        assert_eq!(store.count().await, Ok(if expected == "1" { 1 } else { 2 }));
    }
}

/// The power fails during a commit and tears what was not flushed; then again during the opening that recovers from it, at
/// each of its writes and flushes; then once more after a commit. What was acknowledged is there, and what an opening has
/// shown once is not taken back by the next.
/// Shows A41.
#[tokio::test]
async fn a_power_loss_while_reopening_takes_nothing_back() {
    let mut steps = 0;
    for seed in 0..4 {
        let mut draw = draws(seed);
        for failing in 0..=FLUSHES {
            let (disk, store) = simulated().await;
            commit(&store, None, "1").await;
            disk.fail_sync_after(failing);
            disk.fail_opens(true);
            let outcome = store.commit(guard(Some("1")), vec![put("p/0/g", "2"), put("p/0/a", "2")]).await;
            let torn = disk.after_torn_power_loss(&mut draw);
            for step in 0.. {
                // A disk of its own with the same content.
                let disk = torn.after_power_loss();
                disk.lose_power_after(step);
                let backend = disk.clone();
                let opened = RedbStore::with_backend(move || backend.backend(), CACHE_BYTES);
                let shown = match &opened {
                    Ok(store) => store.get_many(vec!["p/0/g".to_owned()]).await.ok(),
                    Err(_) => None,
                };
                let shown = shown.map(|values| String::from_utf8(values[0].clone().unwrap()).unwrap());
                let is_off = disk.is_off();
                // Before the store is dropped: closing it would write.
                let found = disk.after_torn_power_loss(&mut draw);
                drop(opened);

                let store = reopen(&found);
                let now = value(&store).await;
                let place = format!("seed {seed}, flush {failing}, step {step} of the opening");
                match outcome {
                    Ok(_) => assert_eq!(now, "2", "{place}: what was acknowledged is gone"),
                    Err(_) => assert!(now == "1" || now == "2", "{place}: {now}"),
                }
                assert!(shown.is_none_or(|shown| shown == now), "{place}: what was shown is gone");
                assert_eq!(store.count().await, Ok(if now == "1" { 1 } else { 2 }), "{place}: half a commit");
                commit(&store, Some(&now), "3").await;
                let last = found.after_torn_power_loss(&mut draw);
                assert_eq!(value(&reopen(&last)).await, "3", "{place}: a commit after the recovery is gone");
                steps += 1;
                if !is_off {
                    break;
                }
            }
        }
    }
    assert!(steps > 2 * 4 * (FLUSHES + 1), "an opening after a crash writes: only {steps} steps");
}

/// Numbers drawn from a seed (SplitMix64).
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |end| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
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
        let batch = [start(&store, Some("1"), "2"), start(&store, Some("2"), "3"), start(&store, Some("0"), "4")];
        store.append_later(guard(Some("3")), vec![put("p/0/j", "1")], lost.clone()).await;
        disk.fail_sync_after(FLUSHES + failing);
        drop(held);
        assert_eq!(blocker.0.await, Ok(Outcome::Committed));
        for commit in batch {
            let outcome = commit.0.await;
            assert!(matches!(outcome, Err(StoreError::Unknown(_))), "{outcome:?}");
        }
        store.flush().await;
        assert_eq!(lost.load(Ordering::SeqCst), 1);
        assert_eq!(disk.opens(), opens + 1, "the database was opened again");
        let now = value(&store).await;
        let journal = store.get_many(vec!["p/0/j".to_owned()]).await.unwrap().remove(0);
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
    assert!(matches!(outcome, Err(StoreError::Unknown(_))), "{outcome:?}");
    let outcome = replace(&store, Some("1"), "2").await;
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
    let values = store.get_many(vec!["p/0/g".to_owned()]).await;
    assert!(matches!(values, Err(StoreError::Unavailable(_))), "{values:?}");
    let lost = Arc::new(AtomicU32::new(0));
    store.append_later(guard(Some("1")), vec![put("p/0/j", "1")], lost.clone()).await;
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
        assert!(matches!(values, Err(StoreError::Unavailable(_))), "{values:?}");
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
    let waiting: Vec<_> = (0..COMMITS).map(|n| start_write(&store, &format!("p/1/{n}"))).collect();
    drop(held);
    assert_eq!(blocker.0.await, Ok(Outcome::Committed));
    for commit in waiting {
        assert_eq!(commit.0.await, Ok(Outcome::Committed));
    }
    assert_eq!(disk.syncs() - before, 2 * FLUSHES, "one batch for the blocker, one for all others");
    assert_eq!(store.count().await, Ok(COMMITS as u64 + 1));
}

/// A batch has an end, so that nobody waits for all who came later.
#[tokio::test]
async fn a_batch_is_bounded() {
    let (disk, store) = simulated().await;
    commit(&store, None, "0").await;
    let before = disk.syncs();
    let (held, blocker) = block(&disk, &store);
    let waiting: Vec<_> = (0..=BATCH_REQUESTS_MAX).map(|n| start_write(&store, &format!("p/1/{n}"))).collect();
    drop(held);
    assert_eq!(blocker.0.await, Ok(Outcome::Committed));
    for commit in waiting {
        assert_eq!(commit.0.await, Ok(Outcome::Committed));
    }
    assert_eq!(disk.syncs() - before, 3 * FLUSHES, "one for the blocker, one full batch, one of a single commit");
}

/// The journal can't fill the memory while a disk is slow, and it never waits.
#[tokio::test]
async fn appends_over_the_backlog_are_lost_and_counted() {
    let (disk, store) = simulated().await;
    commit(&store, None, "0").await;
    let (held, blocker) = block(&disk, &store);
    let lost = Arc::new(AtomicU32::new(0));
    for n in 0..LATER_CALLS_MAX + 3 {
        store.append_later(guard(Some("1")), vec![put(&format!("p/0/j/{n}"), "1")], lost.clone()).await;
    }
    assert_eq!(lost.load(Ordering::SeqCst), 3);
    drop(held);
    assert_eq!(blocker.0.await, Ok(Outcome::Committed));
    store.flush().await;
    assert_eq!(store.count().await, Ok(LATER_CALLS_MAX as u64 + 1));
    store.append_later(guard(Some("1")), vec![put("p/0/j/more", "1")], lost.clone()).await;
    store.flush().await;
    assert_eq!(lost.load(Ordering::SeqCst), 3, "there is room again");
}

/// Pieces of an answer come a few milliseconds apart, and nobody waits for them: they wait for each other.
#[tokio::test]
async fn appends_alone_wait_for_more_and_share_a_flush() {
    let (disk, store) = simulated().await;
    commit(&store, None, "1").await;
    let lost = Arc::new(AtomicU32::new(0));
    let mut keys = 1;
    let mut round = async |n: u32| {
        let before = disk.syncs();
        for piece in 0..4 {
            let key = format!("p/0/j/{n}-{piece}");
            store.append_later(guard(Some("1")), vec![put(&key, "1")], lost.clone()).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        keys += 4;
        // No flush is asked for: they are written by themselves.
        while store.count().await != Ok(keys) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        disk.syncs() - before
    };
    // On a machine that is busy a pause may be longer than the wait: once is enough.
    let mut flushes = Vec::new();
    while flushes.last() != Some(&FLUSHES) {
        flushes.push(round(flushes.len() as u32).await);
        assert!(flushes.len() < 20, "they never shared a flush: {flushes:?}");
    }
    assert_eq!(lost.load(Ordering::SeqCst), 0);
}

/// Whoever waits for an answer waits for nothing else.
#[tokio::test]
async fn a_commit_or_a_flush_ends_the_wait_of_appends() {
    let (_disk, store) = simulated().await;
    commit(&store, None, "1").await;
    for flushes in [false, true] {
        let mut shortest = Duration::MAX;
        for n in 0..20 {
            let lost = Arc::new(AtomicU32::new(0));
            store.append_later(guard(Some("1")), vec![put(&format!("p/0/j/{n}"), "1")], lost).await;
            let began = Instant::now();
            match flushes {
                true => store.flush().await,
                false => assert_eq!(replace(&store, Some("1"), "1").await, Ok(Outcome::Committed)),
            }
            shortest = shortest.min(began.elapsed());
        }
        assert!(shortest < Duration::from_millis(15), "{shortest:?}");
    }
}

/// Then nothing can be lost by not flushing.
#[tokio::test]
async fn a_commit_that_changes_nothing_flushes_nothing() {
    let (disk, store) = simulated().await;
    commit(&store, None, "1").await;
    let before = disk.syncs();
    assert_eq!(replace(&store, None, "2").await, Ok(Outcome::Stale(Some(b"1".to_vec()))));
    assert_eq!(disk.syncs(), before);
}
