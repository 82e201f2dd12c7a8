//! The second address, for test suites that can't send a token: who is let in there, and that it is never open to others.
#![cfg(unix)]

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::client::{Answer, Client, TOKEN, soon};

struct Listening {
    _child: Child,
    addr: SocketAddr,
    injecting: SocketAddr,
}

fn command(addr: &str, injecting: &str, token: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
    command.args(["serve", "--json", "--store", "memory", "--addr", addr, "--dev-token-injecting-port", injecting]);
    command.env("WRIT_CLIENT_TOKEN", token).env("WRIT_TELEMETRY__LOG", "off").kill_on_drop(true);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    command
}

/// A server with both addresses; the second is told by a warning before the first is told of.
async fn listening(addr: &str, injecting: &str, token: &str) -> Listening {
    let mut child = command(addr, injecting, token).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let at = |line: &str| {
        let told: Value = serde_json::from_str(line).unwrap_or_default();
        told["listening"].as_str().and_then(|url| url.strip_prefix("http://")?.parse().ok())
    };
    let warned = async {
        loop {
            let line = stderr.next_line().await.expect("text").expect("a warning");
            if line.contains("dev-token-injecting-port") {
                return at(&line).unwrap_or_else(|| panic!("{line}"));
            }
        }
    };
    let injecting = soon("the warning", warned).await;
    let line = soon("the address", stdout.next_line()).await.expect("text").expect("a line");
    Listening { _child: child, addr: at(&line).unwrap_or_else(|| panic!("{line}")), injecting }
}

/// Asks for the threads, under a name of the server and with headers as they are.
async fn ask(addr: SocketAddr, host: &str, headers: &[&str]) -> Answer {
    let mut client = Client::open(addr).await;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    client.raw(format!("GET /v1/threads HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n").as_bytes()).await;
    client.answer().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_second_address_gives_a_token() {
    let server = listening("127.0.0.1:0", "0", TOKEN).await;
    assert!(server.injecting.ip().is_loopback());
    let bearer = format!("authorization: Bearer {TOKEN}");
    assert_eq!(ask(server.addr, "localhost", &[]).await.status, 401);
    assert_eq!(ask(server.addr, "localhost", &[&bearer]).await.status, 200);
    assert_eq!(ask(server.injecting, "localhost", &[]).await.status, 200);
    // Who brings a token is judged by it.
    assert_eq!(ask(server.injecting, "localhost", &[&bearer]).await.status, 200);
    let wrong = "authorization: Bearer somebody-elses-token";
    assert_eq!(ask(server.injecting, "localhost", &[wrong]).await.status, 401);
}

/// One operator stands behind both addresses.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_the_same_server() {
    let server = listening("127.0.0.1:0", "[::1]:0", TOKEN).await;
    let body = json!({"message": "hi"}).to_string();
    let mut client = Client::open(server.injecting).await;
    let head = format!(
        "POST /v1/agents/helper/threads/t/submissions HTTP/1.1\r\nhost: [::1]\r\nidempotency-key: k\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.raw(head.as_bytes()).await;
    assert_eq!(client.answer().await.expect("an answer").status, 202);
    let bearer = format!("authorization: Bearer {TOKEN}");
    let threads = ask(server.addr, "localhost", &[&bearer]).await.json();
    assert_eq!(threads["threads"][0]["thread"], "t", "{threads}");
}

/// A page of another site can't use it, whatever the first address allows; nothing is done for it.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_names_are_refused_there() {
    let server = listening("0.0.0.0:0", "127.0.0.1:0", TOKEN).await;
    let bearer = format!("authorization: Bearer {TOKEN}");
    let first = SocketAddr::from(([127, 0, 0, 1], server.addr.port()));
    assert_eq!(ask(first, "writ.example", &[&bearer]).await.status, 200);
    assert_eq!(ask(server.injecting, "writ.example", &[]).await.status, 403);
    assert_eq!(ask(server.injecting, "localhost", &["origin: http://writ.example"]).await.status, 403);
    assert_eq!(ask(server.injecting, "localhost", &["origin: http://localhost:3000"]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_of_its_own_the_first_address_lets_nobody_in() {
    let server = listening("127.0.0.1:0", "0", "").await;
    let refused = ask(server.addr, "localhost", &["authorization: Bearer anything-at-all-here"]).await;
    assert_eq!(refused.status, 401);
    assert_eq!(ask(server.injecting, "localhost", &[]).await.status, 200);
    // That one token is there does not open the first address to other machines.
    let output = soon("its end", command("0.0.0.0:0", "0", "").output()).await.expect("it runs");
    assert_eq!(output.status.code(), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_reach_is_refused() {
    for (injecting, code, told) in [
        ("0.0.0.0:0", 3, "can be reached from other machines"),
        ("[::]:0", 3, "can be reached from other machines"),
        ("65536", 2, "is no port"),
        ("localhost:80", 2, "is no port"),
        ("", 2, "is no port"),
    ] {
        let output = soon("its end", command("127.0.0.1:0", injecting, TOKEN).output()).await.expect("it runs");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]), "{injecting}: {text}");
        assert!(text.contains(told), "{injecting}: {text}");
    }
}
