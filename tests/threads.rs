//! Threads: forks, imports, lists, pages and explanations.
#![cfg(not(target_family = "wasm"))]

use host_sim::clock::Clock;
use host_sim::data::{Request, Response};
use serde_json::{Value, json};
use writ_tests::{Setup, World, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "slow"
text = "At last."
delay_ms = 3600000
[[answer]]
when = "look"
text = "I look."
calls = [{ name = "look" }, { name = "look" }]
[[answer]]
text = "Hello."
[[tool]]
name = "look"
reply = "seen"
"#;

const HOUR_MS: u64 = 3_600_000;

async fn fork(world: &World, from: &str, to: &str, at: Option<u64>) -> Response {
    world.post(from, "fork", &format!("fork-{to}"), &json!({"to": to, "at": at})).await
}

async fn get(world: &World, path: &str) -> Response {
    world.send(Request::get(path.to_owned())).await
}

async fn thread(world: &World, name: &str) -> Response {
    get(world, &format!("/v1/agents/helper/threads/{name}")).await
}

/// `n` pairs of a question and its answer.
fn talk(n: u64) -> Vec<Value> {
    (0..n)
        .flat_map(|i| {
            let text = |t: String| json!([{"type": "text", "text": t}]);
            [
                json!({"role": "user", "content": text(format!("question {i}")), "timestamp": 7}),
                json!({"role": "assistant", "content": text(format!("answer {i}")), "stopReason": "stop"}),
            ]
        })
        .collect()
}

/// Shows A9, B36; trap 19.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_copies_and_goes_its_own_way() {
    let world = World::new(SCRIPT).await;
    world.ask("t", "k", "look").await;
    let source = world.messages("t").await;
    assert_eq!(source.len(), 5, "{:#?}", world.transcript("t").await);
    let whole = fork(&world, "t", "whole", None).await;
    assert_eq!((whole.status, whole.json().expect("JSON")["outcome"]["status"].as_str()), (200, Some("completed")));
    assert_eq!(world.messages("whole").await, source);
    // The middle: only where no call is parted from its results (trap 19b).
    for (at, fits) in [(0, true), (1, true), (2, false), (3, false), (4, true), (5, true), (6, false)] {
        let answer = fork(&world, "t", &format!("at{at}"), Some(at)).await;
        if fits {
            assert_eq!(answer.status, 200, "{at}: {}", answer.text());
            assert_eq!(world.messages(&format!("at{at}")).await, source[..at as usize], "{at}");
        } else {
            let problem = answer.json().expect("JSON");
            assert_eq!((answer.status, problem["field"].as_str()), (422, Some("at")), "{at}: {problem}");
            assert_eq!(thread(&world, &format!("at{at}")).await.status, 404);
        }
    }
    // Each goes on by itself; an existing name is refused, whatever it holds.
    world.ask("at1", "k", "hi").await;
    assert_eq!(world.messages("at1").await.len(), 3);
    assert_eq!(world.messages("t").await, source);
    let taken = world.post("t", "fork", "other-key", &json!({"to": "whole"})).await;
    assert_eq!((taken.status, taken.json().expect("JSON")["code"].as_str()), (409, Some("exists")));
    world.check().await;
}

/// More than 48 messages: staged, and invisible until the last is there (I11).
#[tokio::test(flavor = "multi_thread")]
async fn a_long_fork_is_invisible_until_it_is_whole() {
    let world = World::new(SCRIPT).await;
    let messages = talk(100);
    world.import("t", json!({}), &messages).await;
    let calls = world.store.calls();
    // Held by the store's answer: what the fork's own commit makes visible is nothing.
    let begun = fork(&world, "t", "u", None).await;
    assert_eq!(begun.status, 202, "{}", begun.text());
    world.host.settled().await;
    // 48 with the claim, 58 a page: 200 is 1 + 3 (protocol §7).
    assert_eq!(world.calls_since(calls).commits, 4);
    let id = begun.json().expect("JSON")["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.submission(&id).await["outcome"]["status"], "completed");
    assert_eq!(world.messages("u").await, world.messages("t").await);
    assert_eq!(world.messages("u").await.len(), 200);
    world.check().await;
}

/// A host that has gone down in the middle of a copy: what is staged is not found by readers, refused to admission, in no
/// list, and finished by the next host.
/// Shows traps 1, 19.
#[tokio::test(flavor = "multi_thread")]
async fn a_staged_thread_is_found_by_nobody() {
    let world = World::new(SCRIPT).await;
    world.import("t", json!({}), &talk(100)).await;
    // An import that is not finished is staged the same way.
    let opening = json!({"session": {}, "count": 4, "digest": "00"});
    let begun = world.post("u", "import", "k", &opening).await;
    let id = begun.json().expect("JSON")["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.post("u", "import/0", "p", &json!({"messages": talk(1)})).await.status, 202);
    let of = |route: &str| format!("/v1/agents/helper/threads/u{route}");
    for route in ["", "/messages", "/submissions"] {
        assert_eq!(get(&world, &of(route)).await.status, 404, "{route}");
    }
    let listed = get(&world, "/v1/threads").await.json().expect("JSON");
    assert!(!listed["threads"].as_array().expect("threads").iter().any(|t| t["thread"] == "u"), "{listed}");
    for answer in [world.submit("u", "k2", "hi").await, world.delete("u").await] {
        assert_eq!((answer.status, answer.json().expect("JSON")["code"].as_str()), (409, Some("forking")));
    }
    assert_eq!(fork(&world, "u", "v", None).await.status, 404);
    assert_eq!(world.submission(&id).await["state"], "running");
    world.check().await;

    // Nobody finishes it: after a day it is gone, its address free, and its submission says why.
    world.clock.advance_to(world.clock.now() + 25 * HOUR_MS);
    world.host.sweep().await.expect("a sweep");
    world.host.settled().await;
    assert_eq!(world.submission(&id).await["outcome"]["error"]["code"], "import-expired");
    assert_eq!(world.ask("u", "new", "hi").await["outcome"]["text"], "Hello.");
}

/// What comes out of one thread goes into another and is the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_what_was_exported() {
    let world = World::new(SCRIPT).await;
    world.ask("t", "a", "look").await;
    world.ask("t", "b", "hi").await;
    let exported = world.messages("t").await;
    world.import("u", json!({"state": {"mood": "fine"}}), &exported).await;
    assert_eq!(world.messages("u").await, exported);
    let head = thread(&world, "u").await.json().expect("JSON");
    assert_eq!((&head["state"], &head["messages"]), (&json!({"mood": "fine"}), &json!(exported.len())));
    // It goes on from there, with all of it in the context.
    assert_eq!(world.ask("u", "c", "more").await["outcome"]["text"], "Hello.");
    assert_eq!(world.model.last_context().len(), exported.len() + 1);
    // A thread without messages is whole at once.
    let empty = json!({"session": {}, "count": 0, "digest": "00"});
    assert_eq!(world.post("empty", "import", "import", &empty).await.status, 200);
    assert!(world.messages("empty").await.is_empty());
    // The last page again, and the opening again: the same answers.
    let opening = json!({"session": {"state": {"mood": "fine"}}, "count": exported.len(), "digest": "00"});
    assert_eq!(world.post("u", "import", "import", &opening).await.status, 200);
    assert_eq!(world.post("u", "import/0", "page", &json!({"messages": exported})).await.status, 200);
    world.check().await;
}

/// Shows A37, B11.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_import_is_refused() {
    let world = World::new(SCRIPT).await;
    let opening = |count: u64, session: Value| json!({"session": session, "count": count, "digest": "00"});
    let begin = async |thread: &str, body: Value| world.post(thread, "import", "k", &body).await;
    let page = async |from: u64, messages: Value| {
        let answer = world.post("t", &format!("import/{from}"), "p", &json!({"messages": messages})).await;
        let problem = answer.json().expect("JSON");
        (answer.status, problem["code"].as_str().unwrap_or_default().to_owned(), problem)
    };
    for (body, field) in
        [(opening(1_000_001, json!({})), "count"), (opening(2, json!({"boundary": 2})), "session.boundary")]
    {
        let refused = begin("bad", body).await.json().expect("JSON");
        assert_eq!(refused["field"], field, "{refused}");
    }
    let large = begin("bad", opening(2, json!({"state": {"x": "x".repeat(20_000)}}))).await;
    assert_eq!((large.status, large.json().expect("JSON")["limit"].as_u64()), (413, Some(16_384)));
    assert_eq!(page(0, json!(talk(1))).await.0, 404, "no import was begun");

    assert_eq!(begin("t", opening(4, json!({"boundary": 2}))).await.status, 202);
    let call =
        json!({"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "x", "arguments": {}}]});
    let result = |id: &str| json!({"role": "toolResult", "toolCallId": id, "content": []});
    let user = json!({"role": "user", "content": []});
    let gap = page(1, json!([user])).await;
    assert_eq!((gap.0, gap.1.as_str(), &gap.2["value"]), (409, "gap", &json!(0)));
    for (messages, why) in [
        (json!([user, user, user, user, user]), "more than was announced"),
        (json!(vec![user.clone(); 49]), "more than a page"),
        (json!([]), "none"),
        (json!([result("c1")]), "a result without its call"),
        (json!([call, user]), "a call without its result"),
        (json!([call, result("c2")]), "the result of another"),
        (json!([{"role": "robot"}]), "an unknown role"),
        (json!([user, user, user]), "a boundary that is no summary"),
    ] {
        let refused = page(0, messages).await;
        assert_eq!((refused.0, refused.1.as_str()), (422, "invalid"), "{why}: {}", refused.2);
    }
    // A pair may lie on two pages; an end with an open call is refused.
    assert_eq!(page(0, json!([call])).await.0, 202);
    let again = page(0, json!([call])).await;
    assert_eq!((again.0, &again.2["done"]), (202, &json!(1)));
    let summary = json!({"role": "summary", "kept": 0, "content": [{"type": "text", "text": "S"}]});
    assert_eq!(page(1, json!([result("c1"), summary, call])).await.0, 422);
    assert_eq!(page(1, json!([result("c1"), summary, user])).await.0, 200);
    let exists = begin("t", opening(9, json!({}))).await;
    assert_eq!((exists.status, exists.json().expect("JSON")["code"].as_str()), (409, Some("conflict")));
    let exists = world.post("t", "import", "other", &opening(9, json!({}))).await;
    assert_eq!((exists.status, exists.json().expect("JSON")["code"].as_str()), (409, Some("exists")));
    world.check().await;
}

/// Shows trap 6.
#[tokio::test(flavor = "multi_thread")]
async fn threads_are_listed_over_all_partitions_and_each_once() {
    let world = Setup::new(SCRIPT).setting("partitions", json!(3)).world().await;
    for n in 0..230 {
        world.accept(&format!("t{n}"), "k", "hi").await;
    }
    world.host.settled().await;
    assert_eq!(world.delete("t7").await.status, 202);
    world.host.settled().await;
    let (mut names, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = get(&world, &format!("/v1/threads?cursor={cursor}")).await.json().expect("JSON");
        let threads = page["threads"].as_array().expect("threads").clone();
        assert!(threads.len() <= 100);
        names.extend(threads.iter().map(|t| t["thread"].as_str().expect("a name").to_owned()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    names.sort();
    let mut expected: Vec<String> = (0..230).filter(|n| *n != 7).map(|n| format!("t{n}")).collect();
    expected.sort();
    assert_eq!((names, pages), (expected, 3));
    // A cursor of nobody's starts somewhere, and never fails.
    for cursor in ["x", "9.9", "255.18446744073709551615", "-1.0"] {
        assert_eq!(get(&world, &format!("/v1/threads?cursor={cursor}")).await.status, 200, "{cursor}");
    }
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_and_submissions_come_in_pages() {
    let world = World::new(SCRIPT).await;
    for n in 0..5 {
        world.accept("t", &format!("k{n}"), "hi").await;
    }
    world.host.settled().await;
    for (query, from, count, next) in [
        ("?limit=4", 0, 4, json!(4)),
        ("?after=4&limit=4", 4, 4, json!(8)),
        ("?after=8&limit=4", 8, 2, Value::Null),
        ("?after=10", 10, 0, Value::Null),
        ("?after=18446744073709551615", u64::MAX, 0, Value::Null),
        ("?limit=0", 0, 1, json!(1)),
    ] {
        let page = get(&world, &format!("/v1/agents/helper/threads/t/messages{query}")).await.json().expect("JSON");
        let found = (page["from"].as_u64(), page["messages"].as_array().map(Vec::len), &page["next"]);
        assert_eq!(found, (Some(from), Some(count), &next), "{query}: {page}");
    }
    let page = get(&world, "/v1/agents/helper/threads/t/submissions?after=1&limit=3").await.json().expect("JSON");
    let keys: Vec<&str> =
        page["submissions"].as_array().expect("a list").iter().filter_map(|s| s["key"].as_str()).collect();
    assert_eq!((keys, &page["next"]), (vec!["k1", "k2", "k3"], &json!(4)));
    world.check().await;
}

/// `explain` names the row of the table that a restart would apply.
#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_rule() {
    let script = SCRIPT.replace(
        "[[answer]]\ntext",
        "[[answer]]\nwhen = \"wait\"\nfail = { kind = \"transient\", retry_after_ms = 60000 }\n[[answer]]\ntext",
    );
    let world = Setup::new(&script).reach(0).world().await;
    let explain = async |id: &str| get(&world, &format!("/v1/submissions/{id}/explain")).await.json().expect("JSON");
    let settled = world.ask("settled", "k", "hi").await;
    let found = explain(settled["id"].as_str().expect("an id")).await;
    assert_eq!(found["rule"]["row"], "settled", "{found}");

    let running = world.accept("running", "k", "slow").await;
    until(|| world.model.calls() == 2).await;
    let queued = world.accept("running", "k2", "hi").await;
    for id in [&running, &queued] {
        let found = explain(id).await;
        assert_eq!(found["rule"]["row"], "P6", "{found}");
        let keys: Vec<&str> =
            found["facts"].as_array().expect("facts").iter().filter_map(|f| f["key"].as_str()).collect();
        assert!(keys.iter().any(|k| k.ends_with("/start")) && keys.iter().any(|k| k.contains("/queue/")), "{keys:?}");
    }
    let parked = world.accept("parked", "k", "wait").await;
    until(|| world.model.calls() == 3).await;
    while explain(&parked).await["rule"]["row"] != "P7g" {
        tokio::task::yield_now().await;
    }
    world.clock.advance(60_000);
    world.check().await;
}
