//! The workspace: limits, idempotence, contention, and every answer of a store.

use std::sync::Arc;

use host_sim::tools::Policy;
use host_sim::tools::Tools;
use host_sim::tools::workspace::EFFECTS_REMEMBERED;
use host_sim::tools::workspace::FILE_BYTES_MAX;
use host_sim::tools::workspace::FILES_MAX;
use host_sim::tools::workspace::PATH_BYTES_MAX;
use host_sim::tools::workspace::Workspace;
use serde_json::Value;
use serde_json::json;

use crate::support::Fault;
use crate::support::TestStore;
use crate::support::call;
use crate::support::said;

struct Bench {
    store: Arc<TestStore>,
    workspace: Workspace,
}

impl Bench {
    fn new() -> Self {
        let store = Arc::new(TestStore::default());
        Self { workspace: Workspace::new(store.clone()), store }
    }

    async fn run(&self, key: &str, name: &str, arguments: Value) -> Result<String, String> {
        said(&self.workspace.run(call(key, name, arguments)).await)
    }

    async fn write(&self, key: &str, path: &str, content: &str) -> Result<String, String> {
        self.run(key, "write", json!({"path": path, "content": content})).await
    }

    async fn edit(&self, key: &str, old: &str, new: &str) -> Result<String, String> {
        self.run(key, "edit", json!({"path": "a", "old_text": old, "new_text": new})).await
    }

    async fn read(&self, path: &str) -> Result<String, String> {
        self.run("r", "read", json!({"path": path})).await
    }

    fn commits(&self) -> u32 {
        *self.store.commits.lock().unwrap()
    }

    fn will(&self, faults: impl IntoIterator<Item = Fault>) {
        self.store.faults.lock().unwrap().extend(faults);
    }
}

#[tokio::test]
async fn files_are_written_read_edited_and_listed() {
    let bench = Bench::new();
    assert!(bench.workspace.describe().iter().all(|tool| tool.policy == Policy::ReplaySafe));
    assert_eq!(bench.run("l", "list", json!({})).await, Ok("There are no files.".to_owned()));
    assert_eq!(bench.write("1", "./notes//b.md", "one\ntwo\n").await, Ok("`notes/b.md`: wrote 8 bytes.".to_owned()));
    bench.write("2", "a", "x").await.unwrap();
    assert_eq!(bench.read("notes/b.md").await, Ok("one\ntwo\n".to_owned()));
    assert_eq!(
        bench.run("3", "edit", json!({"path": "notes/b.md", "old_text": "two", "new_text": "2"})).await,
        Ok("`notes/b.md`: replaced 3 bytes by 1 at line 2.".to_owned())
    );
    assert_eq!(
        bench.run("r", "read", json!({"path": "notes/b.md", "offset": 2, "limit": 1})).await,
        Ok("2\n".to_owned())
    );
    assert_eq!(bench.run("l", "list", json!({})).await, Ok("a (1 bytes)\nnotes/b.md (6 bytes)".to_owned()));
    assert_eq!(bench.run("l", "list", json!({"prefix": "notes/"})).await, Ok("notes/b.md (6 bytes)".to_owned()));
    assert_eq!(bench.run("l", "list", json!({"prefix": "x"})).await, Ok("There are no files under `x`.".to_owned()));
}

#[tokio::test]
async fn mistakes_get_replies_that_help_and_change_nothing() {
    let bench = Bench::new();
    bench.write("1", "a", "one two two").await.unwrap();
    let before = bench.commits();
    let cases = [
        (bench.read("b").await, "no file `b`"),
        (bench.edit("2", "three", "").await, "does not occur"),
        (bench.edit("3", "two", "").await, "occurs 2 times"),
        (bench.edit("4", "", "").await, "must not be empty"),
        (bench.run("5", "edit", json!({"path": "b", "old_text": "x", "new_text": ""})).await, "no file `b`"),
        (bench.write("6", "../a", "").await, "`..` is not allowed"),
        (bench.run("7", "write", json!({"path": "a"})).await, "missing field `content`"),
        (bench.run("8", "read", json!({"path": "a", "line": 1})).await, "unknown field `line`"),
        (bench.run("9", "delete", json!({})).await, "Known tools: read, write, edit, list"),
        (bench.write(&"k".repeat(129), "a", "").await, "effect key is longer than 128"),
    ];
    for (reply, expected) in cases {
        let error = reply.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(bench.commits(), before);
}

#[tokio::test]
async fn threads_do_not_see_each_other() {
    let bench = Bench::new();
    bench.write("1", "a", "mine").await.unwrap();
    for thread in ["alice/helper", "alice%2fhelper/demo", "", "é".repeat(128).as_str()] {
        let mut other = call("1", "write", json!({"path": "only", "content": "x"}));
        other.thread = thread.to_owned();
        said(&bench.workspace.run(other.clone()).await).unwrap();
        other.name = "list".to_owned();
        other.arguments = "{}".to_owned();
        assert_eq!(said(&bench.workspace.run(other).await), Ok("only (1 bytes)".to_owned()), "{thread}");
    }
    // A thread is one segment of its keys, whatever is in its name.
    let in_place = |key: &String| key.starts_with("host/ws/") && matches!(key.split('/').count(), 4 | 5);
    assert!(bench.store.keys().iter().all(in_place));
}

#[tokio::test]
async fn sizes_hold_at_the_boundary() {
    let bench = Bench::new();
    let full = "x".repeat(FILE_BYTES_MAX);
    bench.write("1", "a", &full).await.unwrap();
    assert_eq!(bench.read("a").await, Ok(full.clone()));
    assert!(bench.write("2", "a", &format!("{full}x")).await.unwrap_err().contains("196609 bytes; at most 196608"));
    // An edit may not grow past it either, and a file may be changed while it is full.
    let filled = format!("ab{}", "x".repeat(FILE_BYTES_MAX - 2));
    bench.write("3", "a", &filled).await.unwrap();
    assert!(bench.edit("4", "ab", "abc").await.unwrap_err().contains("at most"));
    bench.edit("5", "ab", "cd").await.unwrap();
    let path = "\"".repeat(PATH_BYTES_MAX);
    bench.write("6", &path, "x").await.unwrap();
    assert!(bench.write("7", &format!("{path}a"), "x").await.unwrap_err().contains("513 bytes"));
    // As many remembered effects as there may be, each as long as it may be, beside a full file.
    for n in 0..=EFFECTS_REMEMBERED {
        bench.write(&format!("{}{n:03}", "\u{1}".repeat(125)), "a", &full).await.unwrap();
    }
    // Control characters are six times as long in JSON.
    bench.write("8", "a", &"\u{1}".repeat(FILE_BYTES_MAX)).await.unwrap();
    assert!(bench.read("a").await.unwrap_err().contains("Ask for less"));
}

#[tokio::test]
async fn the_last_file_fits_and_the_next_does_not() {
    let bench = Bench::new();
    // The first page of the index is as large as it can be.
    let long = |n: usize| format!("{}{n:04}", "\"".repeat(PATH_BYTES_MAX - 4));
    let path = |n: usize| if n < 100 { long(n) } else { format!("f{n}") };
    for n in 0..FILES_MAX {
        bench.write(&format!("k{n}"), &path(n), "x").await.unwrap();
    }
    assert!(bench.write("more", "one-more", "x").await.unwrap_err().contains("at most 1000 files"));
    bench.write("again", &path(FILES_MAX - 1), "y").await.unwrap();
    assert_eq!(bench.read(&path(FILES_MAX - 1)).await, Ok("y".to_owned()));
    assert_eq!(bench.read(&path(99)).await, Ok("x".to_owned()));
    let listed = bench.run("l", "list", json!({})).await.unwrap();
    assert_eq!(listed.lines().count(), FILES_MAX);
    let some = bench.run("l", "list", json!({"prefix": "f99"})).await.unwrap();
    assert_eq!(some.lines().count(), 10);
}

#[tokio::test]
async fn a_call_that_is_run_again_gets_its_recorded_reply() {
    let bench = Bench::new();
    bench.write("w", "a", "one").await.unwrap();
    let reply = bench.edit("e", "one", "two").await;
    assert_eq!(reply, Ok("`a`: replaced 3 bytes by 3 at line 1.".to_owned()));
    let before = bench.commits();
    // Both are run again, in any order, and by another process.
    let again = Bench { store: bench.store.clone(), workspace: Workspace::new(bench.store.clone()) };
    assert_eq!(again.edit("e", "one", "two").await, reply);
    assert_eq!(again.write("w", "a", "one").await, Ok("`a`: wrote 3 bytes.".to_owned()));
    assert_eq!(bench.read("a").await, Ok("two".to_owned()));
    assert_eq!(bench.commits(), before);
    // Another call with the same arguments is another effect.
    assert!(bench.edit("f", "one", "two").await.is_err());
}

#[tokio::test]
async fn effects_are_forgotten_oldest_first() {
    let bench = Bench::new();
    bench.write("w", "a", "0").await.unwrap();
    for n in 0..EFFECTS_REMEMBERED {
        assert_eq!(bench.write("w", "a", "0").await, Ok("`a`: wrote 1 bytes.".to_owned()));
        bench.edit(&format!("e{n}"), &n.to_string(), &(n + 1).to_string()).await.unwrap();
    }
    assert!(bench.edit("e0", "0", "1").await.is_ok());
    assert_eq!(bench.read("a").await, Ok(EFFECTS_REMEMBERED.to_string()));
    bench.write("w", "a", "0").await.unwrap();
    assert_eq!(bench.read("a").await, Ok("0".to_owned()));
}

#[tokio::test]
async fn an_uncertain_commit_is_settled_and_applied_once() {
    use Fault::*;
    for faults in [
        vec![UnknownApplied],
        vec![UnknownNotApplied, UnknownNotApplied],
        vec![UnknownNotApplied, UnknownApplied, UnknownNotApplied],
        vec![Overtaken],
        vec![UnknownNotApplied; 8],
    ] {
        let bench = Bench::new();
        bench.write("w", "a", "one").await.unwrap();
        bench.will(faults);
        assert_eq!(bench.edit("e", "one", "one one").await, Ok("`a`: replaced 3 bytes by 7 at line 1.".to_owned()));
        assert_eq!(bench.read("a").await, Ok("one one".to_owned()));
        assert_eq!(bench.commits(), 2);
    }
}

#[tokio::test]
async fn a_store_that_fails_gives_an_error_that_tells_what_is_known() {
    let bench = Bench::new();
    bench.will([Fault::Unavailable]);
    assert!(bench.write("w", "a", "x").await.unwrap_err().contains("nothing was changed"));
    bench.will([Fault::UnknownNotApplied; 9]);
    assert!(bench.write("w", "a", "x").await.unwrap_err().contains("it may still be"));
    assert_eq!(bench.commits(), 0);
}

#[tokio::test]
async fn a_whole_batch_at_once_loses_nothing() {
    let bench = Arc::new(Bench::new());
    let mut batch = tokio::task::JoinSet::new();
    for n in 0..32 {
        let bench = bench.clone();
        batch.spawn(async move { bench.write(&format!("k{n}"), &format!("f{n}"), "x").await });
    }
    for reply in batch.join_all().await {
        reply.unwrap();
    }
    let listed = bench.run("l", "list", json!({})).await.unwrap();
    assert_eq!(listed.lines().count(), 32);
}
