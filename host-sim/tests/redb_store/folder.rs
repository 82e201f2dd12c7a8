//! Folders: what is kept, what is refused, and what the refusal says.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use host_sim::store::Guard;
use host_sim::store::Outcome;
use host_sim::store::Store;
use host_sim::store::redb::OpenError;
use host_sim::store::redb::RedbStore;

use super::put;

#[tokio::test]
async fn what_was_committed_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("made/on/demand");
    for round in 0..3_u8 {
        let store = RedbStore::open(&dir).unwrap();
        let expect = round.checked_sub(1).map(|last| vec![last]);
        let guard = Guard { key: "p/0/g".to_owned(), expect };
        assert_eq!(store.commit(guard, vec![put("p/0/g", vec![round])]).await, Ok(Outcome::Committed));
        let guard = Guard { key: "p/0/g".to_owned(), expect: Some(vec![round]) };
        // Dropped with the store right after: what is queued is served before the thread ends.
        store.append_later(guard, vec![put(&format!("p/0/j/{round}"), "1")], Arc::default()).await;
    }
    let store = RedbStore::open(&dir).unwrap();
    let keys: Vec<_> = store.dump().await.unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["p/0/g", "p/0/j/0", "p/0/j/1", "p/0/j/2"]);
}

#[test]
fn a_folder_in_use_is_refused_in_the_same_process() {
    let dir = tempfile::tempdir().unwrap();
    let first = RedbStore::open(dir.path()).unwrap();
    let error = RedbStore::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
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
        .args(["--exact", "folder::the_other_process", "--ignored", "--nocapture"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
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

/// A process that is killed while it makes the database leaves half of one: under another name, so that the next one makes
/// its own.
#[tokio::test]
async fn what_a_killed_process_left_of_a_new_database_is_no_hindrance() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("FORMAT"), "{\"version\":1}\n").unwrap();
    for pid in [std::process::id(), std::process::id() + 1] {
        fs::write(dir.path().join(format!("writ.redb.{pid}.new")), [0_u8; 4096]).unwrap();
    }
    let store = RedbStore::open(dir.path()).unwrap();
    let guard = Guard { key: "p/0/g".to_owned(), expect: None };
    assert_eq!(store.commit(guard, vec![put("p/0/g", "1")]).await, Ok(Outcome::Committed));
    let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["FORMAT", "writ.redb"], "nothing else is left");
}

/// Shows A36.
#[test]
fn a_newer_format_is_refused_with_both_numbers_and_nothing_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    drop(RedbStore::open(dir.path()).unwrap());
    assert_eq!(fs::read_to_string(dir.path().join("FORMAT")).unwrap(), "{\"version\":1}\n");
    fs::write(dir.path().join("FORMAT"), "{\"version\":7}").unwrap();
    let before = content(dir.path());
    let error = RedbStore::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::NewerFormat { found: 7, known: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("format 7") && error.to_string().contains("up to 1"), "{error}");
    assert_eq!(content(dir.path()), before);
}

#[test]
fn a_format_that_is_missing_or_unreadable_is_refused_and_nothing_is_touched() {
    for format in [None, Some(""), Some("redb"), Some("{\"version\":0}"), Some("{\"version\":-1}")] {
        let dir = tempfile::tempdir().unwrap();
        drop(RedbStore::open(dir.path()).unwrap());
        match format {
            Some(text) => fs::write(dir.path().join("FORMAT"), text).unwrap(),
            None => fs::remove_file(dir.path().join("FORMAT")).unwrap(),
        }
        let before = content(dir.path());
        let error = RedbStore::open(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::Format { .. }), "{format:?}: {error:?}");
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
    assert_eq!(fs::read_to_string(dir.path().join("writ.redb")).unwrap(), text);
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
    let mut all: Vec<_> = entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect();
    all.sort();
    all
}
