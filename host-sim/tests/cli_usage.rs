//! The command line itself: help, usage errors, exit codes. Nothing here needs a component.
#![cfg(all(feature = "cli", not(target_family = "wasm")))]

use std::path::Path;
use std::process::Command;
use std::process::Output;

fn writ(words: &[&str], data: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
    command.args(words).env("WRIT_DATA", data).env_remove("RUST_LOG");
    command.output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn code(words: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = writ(words, &folder.path().join("data"));
    assert!(output.stdout.is_empty(), "{words:?} printed on stdout: {}", text(&output.stdout));
    (output.status.code().unwrap_or(-1), text(&output.stderr))
}

#[test]
fn every_command_has_examples() {
    fn visit(command: &clap::Command, path: &str) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let path = format!("{path} {}", sub.get_name());
            let help = sub.clone().render_long_help().to_string();
            assert!(help.contains("Examples:") || help.contains("Example:"), "{path} has no examples");
            assert!(help.contains("  writ "), "{path}: an example begins with `writ`");
            assert!(sub.get_about().is_some(), "{path} says in one line what it does");
            visit(sub, &path);
        }
    }
    visit(&host_sim::cli::command(), "writ");
    host_sim::cli::command().debug_assert();
}

#[test]
fn the_long_help_has_the_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let output = writ(&["--help"], folder.path());
    let help = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(help.contains(host_sim::cli::exit::TABLE), "{help}");
    assert!(help.contains("writ demo"));
}

#[test]
fn usage_errors_exit_with_2_and_name_the_argument() {
    for (words, named) in [
        (&["runn"][..], "runn"),
        (&["run", "bad name", "hi"], "bad name"),
        (&["run", "helper", "hi", "--id", ""], "--id"),
        (&["inspect", "thread", "noslash"], "AGENT/THREAD"),
        (&["explain", "no/id"], "receipt"),
        (&["fork", "a/b", "c", "--at", "x"], "--at"),
        (&["run", "helper", "hi", "--thread", ".hidden"], "dot"),
    ] {
        let (exit, stderr) = code(words);
        assert_eq!(exit, 2, "{words:?}: {stderr}");
        assert!(stderr.contains(named), "{words:?}: {stderr}");
    }
}

#[test]
fn usage_errors_are_json_when_asked() {
    let (exit, stderr) = code(&["--json", "explain", "no/id"]);
    assert_eq!(exit, 2);
    let error: serde_json::Value = serde_json::from_str(&stderr).expect("one JSON object");
    assert_eq!(error["error"], "usage");
    assert_eq!(error["exit"], 2);
}

#[test]
fn a_missing_data_folder_is_refused_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for words in [&["check"][..], &["inspect", "threads"], &["explain", "3f-a"], &["export", "a/b"]] {
        let output = writ(words, &data);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("no data folder"), "{words:?}");
        assert!(!data.exists(), "{words:?} made the folder");
    }
}

#[test]
fn bad_files_are_refused_with_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.jsonl");
    std::fs::write(&bad, "{\"type\":\"session\"}\nno json\n").unwrap();
    let bad = bad.to_str().unwrap();
    for words in [
        &["check", bad][..],
        &["import", bad],
        &["replay", bad],
        &["run", "helper", "hi", "--settings", bad],
        &["run", "helper", "hi", "--script", bad],
        &["run", "helper", "hi", "--schema", bad],
        &["check", "absent.jsonl"],
    ] {
        let (exit, stderr) = code(words);
        assert_eq!(exit, 3, "{words:?}: {stderr}");
        assert!(
            stderr.contains(if words.contains(&bad) { "bad.jsonl" } else { "absent.jsonl" }),
            "{words:?}: {stderr}"
        );
    }
}

#[test]
fn a_folder_that_is_none_exits_with_5() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let output = writ(&["run", "helper", "hi"], &file);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
}

#[test]
fn a_file_is_checked_without_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("t.jsonl");
    let session = r#"{"type":"session","format":"writ/1","agent":"a","thread":"t"}"#;
    let user = r#"{"type":"message","message":{"role":"user","content":[]}}"#;
    let call = r#"{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"x","arguments":{}}]}}"#;
    std::fs::write(&file, format!("{session}\n{user}\n")).unwrap();
    let good = writ(&["check", file.to_str().unwrap()], &data);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert!(text(&good.stdout).contains("ok: 1 messages"));
    std::fs::write(&file, format!("{session}\n{user}\n{call}\n")).unwrap();
    let open = writ(&["check", file.to_str().unwrap(), "--json"], &data);
    assert_eq!(open.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&open.stdout).unwrap();
    assert_eq!(report["findings"][0]["invariant"], "I5");
    assert!(!data.exists());
}

fn in_folder(words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
    command.args(words).current_dir(folder).env_remove("WRIT_DATA").env_remove("WRIT_CONFIG").env_remove("WRIT_STORE");
    command.output().expect("the binary runs")
}

#[test]
fn a_bad_configuration_is_refused_with_every_line_by_all_who_use_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("writ.toml"), "stroe = 'redb'\n[serve]\nsessions = 'many'\n").unwrap();
    for words in [&["config", "check"][..], &["config", "show"], &["agents"], &["check"]] {
        let output = in_folder(words, folder.path());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {stderr}");
        assert!(stderr.contains("writ.toml:1:1: ") && stderr.contains("writ.toml:3:12: "), "{words:?}: {stderr}");
    }
}

#[test]
fn the_configuration_is_shown_with_its_sources_and_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = "data = 'here'\n[auth]\nclient_token = 'correct-horse-battery'\n";
    std::fs::write(folder.path().join("writ.toml"), file).unwrap();
    let output = in_folder(&["config", "show", "--json", "--settings", "s.json"], folder.path());
    let stdout = text(&output.stdout);
    assert!(output.status.success() && !stdout.contains("correct-horse"), "{stdout}");
    let shown: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON object");
    let row = |option: &str| shown["options"].as_array().and_then(|all| all.iter().find(|row| row["option"] == option));
    let expected = [
        ("data", "here", "writ.toml:1:8"),
        ("auth.client_token", "(secret)", "writ.toml:3:16"),
        ("settings", "s.json", "--settings"),
        ("store", "redb", "default"),
    ];
    for (option, value, source) in expected {
        let row = row(option).unwrap_or_else(|| panic!("{option} is not shown"));
        assert_eq!((&row["value"], &row["source"]), (&value.into(), &source.into()), "{option}");
    }
    assert_eq!(in_folder(&["config", "check"], folder.path()).status.code(), Some(0));
    // A file that the configuration names is looked at, too.
    let checked = in_folder(&["config", "check", "--settings", "s.json"], folder.path());
    assert_eq!(checked.status.code(), Some(3), "{}", text(&checked.stderr));
}
