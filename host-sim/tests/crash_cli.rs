//! `writ crash` from the command line: plans and scenarios that are no good, a replay, and what it prints.
#![cfg(all(feature = "cli", not(target_family = "wasm")))]

use std::process::Command;

fn writ(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_writ")).arg("crash").args(words).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_no_good_is_refused_with_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.toml");
    std::fs::write(&bad, "[[step]]\nact = \"dance\"\n").unwrap();
    let bad = bad.display().to_string();
    for (words, code, named) in [
        (&["--plan", "plain-turn memory first=1:explode"][..], 2, "kill-after"),
        (&["--plan", "plain-turn disk"], 2, "memory and redb"),
        (&["--store", "disk"], 2, "memory and redb"),
        (&["--depth", "3"], 2, "--depth"),
        (&["--scenario", "no-such"], 3, "plain-turn"),
        (&["--scenario", &bad], 3, "submit"),
        (&["--plan", "no-such memory"], 3, "plain-turn"),
        (&["--component", &bad, "--scenario", "plain-turn"], 3, "WebAssembly"),
    ] {
        let (exit, stdout, stderr) = writ(words);
        assert_eq!(exit, code, "{words:?}: {stderr}");
        assert!(stdout.is_empty(), "{words:?}: {stdout}");
        assert!(stderr.contains(named), "{words:?}: {stderr}");
    }
}

#[test]
fn a_plan_is_replayed_and_shows_the_calls_around_its_fault() {
    let line = "plain-turn memory seed=1 first=20:kill-after";
    let (exit, stdout, stderr) = writ(&["--plan", line]);
    assert_eq!(exit, 0, "{stdout}{stderr}");
    assert!(stdout.contains("call  20") && stdout.contains("<== kill-after"), "{stdout}");
    assert!(stdout.contains(&format!("ok: {line}")), "{stdout}");
    let (exit, json, _) = writ(&["--json", "--plan", line]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((exit, &value["ok"], &value["plan"]), (0, &true.into(), &line.into()));
}

#[test]
fn a_broken_promise_exits_with_1_and_names_the_command_that_replays_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    let wrong = "[[step]]\nact = \"submit\"\nkey = \"a\"\nmessage = \"hi\"\n[expect]\na = [\"failed\"]\n\
                 [[answer]]\ntext = \"Hello.\"\n";
    std::fs::write(&file, wrong).unwrap();
    let (exit, json, stderr) = writ(&["--json", "--max", "3", "--scenario", &file.display().to_string()]);
    assert_eq!(exit, 1, "{stderr}");
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let failure = &value["failures"][0];
    assert_eq!(failure["invariant"], "outcome");
    let command = failure["command"].as_str().unwrap();
    assert!(command.contains("--scenario") && command.ends_with("--plan 'wrong memory seed=1'"), "{command}");
}
