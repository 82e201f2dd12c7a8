//! Webhooks over real sockets: what a configured target gets, and what nobody else does.
#![cfg(unix)]

use host_sim::webhook::sign;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::client::{ask, soon, submit};
use super::process::Process;
use super::served::SCRIPT;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request: its head, header names in lower case, and its body.
async fn request(stream: &mut TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let n = soon("a request", stream.read(&mut piece)).await.expect("bytes");
        bytes.extend_from_slice(&piece[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if body.len() >= header(head, "content-length").parse().expect("a length") {
            return (head.to_owned(), body.to_owned());
        }
    }
}

fn header(head: &str, name: &str) -> String {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next().unwrap_or_default()
}

async fn answer(mut stream: TcpStream, head: &str) {
    stream.write_all(format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await.expect("room");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_told_signed_and_again_after_a_failure_and_a_kill() {
    let target = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("writ.toml");
    let (port, other) = (target.local_addr().expect("bound"), elsewhere.local_addr().expect("bound"));
    let text = format!(
        "[[webhooks]]\nname = \"ops\"\nurl = \"http://{port}/hook?key=hidden\"\nsecret = \"{SECRET}\"\nevents = [\"settled\"]\n"
    );
    std::fs::write(&config, text).expect("a file");
    let extra = ["--config", config.to_str().expect("text")];
    let process = Process::start_with(folder.path(), SCRIPT, "127.0.0.1:0", &extra).await;
    let receipt = submit(process.addr, "t", "k", "hi", &[]).await.json();

    let (mut first, _) = soon("the first try", target.accept()).await.expect("a connection");
    let (head, body) = request(&mut first).await;
    assert!(head.starts_with("POST /hook?key=hidden HTTP/1.1"), "{head}");
    let (id, seconds) = (header(&head, "webhook-id"), header(&head, "webhook-timestamp"));
    let signature = sign(SECRET, &id, seconds.parse().expect("seconds"), &body).expect("signed");
    assert_eq!(header(&head, "webhook-signature"), format!("v1,{signature}"));
    let told: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&told["type"], &told["data"]["id"]), (&"submission.settled".into(), &receipt["id"]));
    // A redirect leads nowhere: it is a failure, which `explain` tells.
    answer(first, &format!("302 Found\r\nlocation: http://{other}/")).await;
    let explain = format!("GET /v1/submissions/{}/explain", receipt["id"].as_str().expect("an id"));
    let explained = super::client::until("the failure", async || {
        let text = String::from_utf8(ask(process.addr, &explain, &[], b"").await.body).expect("text");
        text.contains("it answered 302").then_some(text)
    })
    .await;
    assert!(!explained.contains("hidden"), "{explained}");

    // The next process finds what is left, and tells it when it is due, under the same id.
    process.signal("-KILL").await;
    process.end().await;
    let process = Process::start_with(folder.path(), SCRIPT, "127.0.0.1:0", &extra).await;
    let (mut second, _) = soon("the second try", target.accept()).await.expect("a connection");
    let (head, repeated) = request(&mut second).await;
    assert_eq!((header(&head, "webhook-id"), &repeated), (id, &body));
    answer(second, "204 No Content").await;
    super::client::until("the record of it", async || {
        let text = String::from_utf8(ask(process.addr, &explain, &[], b"").await.body).expect("text");
        (!text.contains("/notice/settled")).then_some(())
    })
    .await;
    process.signal("-TERM").await;
    let (code, _, err) = process.end().await;
    assert_eq!(code, Some(0));
    assert!(!err.contains("hidden") && !err.contains(SECRET), "{err}");
    assert!(tokio::time::timeout(std::time::Duration::ZERO, elsewhere.accept()).await.is_err());
}
