//! The README's section about serving: every command of it, as it stands there.
#![cfg(unix)]

use std::path::Path;

use serde_json::{Deserializer, Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;

use super::client::soon;

const README: &str = include_str!("../../../README.md");

/// The commands of a section.
fn commands(section: &str) -> &'static str {
    let (_, rest) = README.split_once(section).expect("the section");
    let (_, rest) = rest.split_once("```sh\n").expect("its commands");
    rest.split_once("```").expect("their end").0
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_readme_says_of_serving_is_so() {
    let folder = tempfile::tempdir().expect("a folder");
    // Another port than the README's: that one may be taken.
    let port = TcpListener::bind("127.0.0.1:0").await.and_then(|l| l.local_addr()).expect("a port").port();
    let script = commands("## Serve it")
        .replace("8787", &port.to_string())
        .replace("writ serve", &format!("writ serve --addr 127.0.0.1:{port} > served.log 2>&1"));
    let bin = Path::new(env!("CARGO_BIN_EXE_writ")).parent().expect("a folder").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let mut bash = Command::new("bash");
    bash.args(["-eu", "-c", &format!("{script}\nwait")])
        .current_dir(folder.path())
        .env("PATH", path)
        .kill_on_drop(true);
    let output = soon("the README's commands", bash.output()).await.expect("bash, curl and openssl are there");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let said: Vec<Value> =
        Deserializer::from_str(&out).into_iter().collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e}: {out}"));
    let [ready, receipt, again, done, repeated, refused, events] = said.as_slice() else { panic!("{out}") };
    assert_eq!((ready, again), (&json!({"status": "ready"}), &json!({"status": "ready"})));
    assert_eq!((&receipt["id"], &receipt["hash"]), (&done["id"], &done["hash"]), "{out}");
    assert_eq!((&done["state"], &done["outcome"]["status"]), (&json!("settled"), &json!("completed")), "{out}");
    assert_eq!(repeated, done);
    assert_eq!((&refused["code"], &refused["field"]), (&json!("conflict"), &json!("message")), "{out}");
    let settled =
        events["events"].as_array().expect("events").iter().filter(|e| e["event"]["type"] == "settled").count();
    assert_eq!(settled, 1, "{out}");
}
