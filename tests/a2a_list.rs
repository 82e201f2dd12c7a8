//! `ListTasks`: the owner's tasks, page by page, the newest first.
#![cfg(not(target_family = "wasm"))]

use serde_json::{Value, json};
use writ_tests::World;
use writ_tests::a2a::{Wire, request, to_send};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "refuse"
fail = { kind = "refused", message = "No." }
[[answer]]
text = "Hello."
"#;

async fn send(world: &World, text: &str, context: &str) -> String {
    world.clock.advance(1_000);
    let mut params = to_send(text);
    params["message"]["contextId"] = json!(context);
    world.a2a(Wire::Rpc, "SendMessage", &params).await.task()["id"].as_str().expect("an id").to_owned()
}

async fn pages(world: &World, wire: Wire, params: &Value) -> Vec<Vec<String>> {
    let (mut params, mut pages) = (params.clone(), Vec::new());
    loop {
        let reply = world.a2a(wire, "ListTasks", &params).await;
        let page = reply.result();
        let ids = page["tasks"].as_array().expect("tasks").iter().map(|t| t["id"].as_str().expect("an id").to_owned());
        pages.push(ids.collect());
        match page["nextPageToken"].as_str().expect("a token") {
            "" => return pages,
            token => params["pageToken"] = json!(token),
        }
        assert!(pages.len() < 100);
    }
}

/// Row 65: newest first, over partitions; capped; an empty token at the end; no artifacts unless asked; only one's own.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_listed_newest_first() {
    let world = World::new(SCRIPT).await;
    let mut ids = Vec::new();
    for i in 0..12 {
        ids.push(send(&world, "hi", &format!("helper/t{}", i % 5)).await);
    }
    ids.reverse();
    // What is no task is not listed: a copy.
    world.post("t0", "fork", "f", &json!({"to": "copy"})).await;
    for wire in Wire::BOTH {
        for size in [1, 5, 12, 100] {
            let pages = pages(&world, wire, &json!({"pageSize": size})).await;
            assert!(pages.iter().all(|page| page.len() <= size), "{pages:?}");
            assert_eq!(pages.concat(), ids, "{size}");
        }
        let reply = world.a2a(wire, "ListTasks", &json!({})).await;
        let page = reply.result();
        assert_eq!(
            (&page["pageSize"], &page["totalSize"], &page["nextPageToken"]),
            (&json!(50), &json!(12), &json!(""))
        );
        assert!(page["tasks"][0].get("artifacts").is_none() && page["tasks"][0].get("history").is_none());
        let all = json!({"includeArtifacts": true, "historyLength": 1});
        let reply = world.a2a(wire, "ListTasks", &all).await;
        let task = &reply.result()["tasks"][0];
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "Hello.");
        assert_eq!(task["history"].as_array().map(Vec::len), Some(1));
        let foreign = request(wire, "ListTasks", &json!({})).principal("web/mallory");
        let reply = world.a2a_send(wire, foreign).await;
        assert_eq!((&reply.result()["tasks"], &reply.result()["totalSize"]), (&json!([]), &json!(0)));
        // By context; a foreign and a missing one have none.
        let of = pages(&world, wire, &json!({"contextId": "helper/t1", "pageSize": 2})).await;
        assert_eq!(of.concat(), [&ids[0], &ids[5], &ids[10]].map(Clone::clone));
        for context in ["helper/none", "nothing"] {
            assert_eq!(pages(&world, wire, &json!({"contextId": context})).await, [[""; 0]]);
        }
    }
    // A thread that goes takes its tasks along.
    world.delete("t1").await;
    world.host.settled().await;
    let left: Vec<String> =
        ids.iter().enumerate().filter(|(i, _)| ![0, 5, 10].contains(i)).map(|(_, id)| id.clone()).collect();
    assert_eq!(pages(&world, Wire::Rpc, &json!({"pageSize": 4})).await.concat(), left);
    assert_eq!(world.a2a(Wire::Rpc, "ListTasks", &json!({})).await.result()["totalSize"], json!(9));
    world.check().await;
}

/// Row 65: filters.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_filtered() {
    let world = World::new(SCRIPT).await;
    let good = send(&world, "hi", "helper/a").await;
    let bad = send(&world, "refuse", "helper/b").await;
    for wire in Wire::BOTH {
        let of = |state: &str| json!({"status": format!("TASK_STATE_{state}")});
        assert_eq!(pages(&world, wire, &of("COMPLETED")).await.concat(), std::slice::from_ref(&good));
        assert_eq!(pages(&world, wire, &of("REJECTED")).await.concat(), std::slice::from_ref(&bad));
        assert!(pages(&world, wire, &of("WORKING")).await.concat().is_empty());
        let settled = world.a2a(wire, "GetTask", &json!({"id": bad})).await.result()["status"]["timestamp"].clone();
        let since = json!({"statusTimestampAfter": settled});
        assert_eq!(pages(&world, wire, &since).await.concat(), std::slice::from_ref(&bad));
        assert!(pages(&world, wire, &json!({"tenant": "helper"})).await.concat().len() == 2);
        assert!(pages(&world, wire, &json!({"tenant": "clerk"})).await.concat().is_empty());
    }
}

/// Row 66: tokens and sizes that this server never gave or takes.
#[tokio::test(flavor = "multi_thread")]
async fn bad_pages_are_refused() {
    let world = World::new(SCRIPT).await;
    send(&world, "hi", "helper/a").await;
    for (wire, code) in [(Wire::Rpc, -32602), (Wire::Rest, 400)] {
        let many = "ff".repeat(100);
        for (field, value) in [
            ("pageSize", json!(0)),
            ("pageSize", json!(101)),
            ("pageSize", json!("many")),
            ("pageSize", json!(-1)),
            ("pageToken", json!("zz")),
            ("pageToken", json!("00")),
            ("pageToken", json!("7f".repeat(256))),
            ("pageToken", json!(many)),
            ("status", json!("DONE")),
            ("statusTimestampAfter", json!("yesterday")),
            ("historyLength", json!(-1)),
        ] {
            let reply = world.a2a(wire, "ListTasks", &json!({field: value})).await;
            assert_eq!((reply.fault().0, reply.violations()), (code, vec![field.to_owned()]), "{field} {value}");
        }
        for token in ["k9999", "k-1", "k", "00"] {
            let reply = world.a2a(wire, "ListTasks", &json!({"contextId": "helper/a", "pageToken": token})).await;
            assert_eq!(reply.violations(), ["pageToken"], "{token}");
        }
    }
}
