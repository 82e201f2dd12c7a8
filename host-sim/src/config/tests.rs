use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::*;

const TOKEN: &str = "correct-horse-battery";

/// A folder with a `writ.toml`, and what reads it.
struct Place {
    folder: tempfile::TempDir,
    input: Input,
}

impl Place {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        let input = Input { folder: folder.path().into(), ..Input::default() };
        Self { folder, input }
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.input.env.insert(name.into(), value.into());
        self
    }

    fn flag(mut self, option: &'static str, name: &'static str, value: &str) -> Self {
        self.input.flags.push(Flag { option, name, value: value.into() });
        self
    }

    fn file(self, name: &str, text: &str, mode: u32) -> Self {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        self
    }

    fn load(&self) -> Config {
        Config::load(&self.input).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Each problem as one line, without the folder.
    fn problems(&self) -> Vec<String> {
        let Err(error) = Config::load(&self.input) else { panic!("nothing is wrong") };
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        error.0.iter().map(|p| p.to_string().replace(&format!("{}/", self.folder.path().display()), "")).collect()
    }

    fn source(&self, option: &str) -> String {
        let rows = Found::read(&self.input).unwrap().rows();
        let row = rows.iter().find(|row| row.option == option).unwrap();
        format!("{} {}", row.value, row.source).replace(&format!("{}/", self.folder.path().display()), "")
    }
}

#[test]
fn without_anything_there_are_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::load(&Input { folder: folder.path().into(), ..Input::default() }).unwrap();
    assert_eq!(config.file, None);
    assert_eq!(config.data, Path::new("./writ-data"));
    assert_eq!(config.store, StoreKind::Redb);
    assert_eq!(config.serve.addr, "127.0.0.1:8787".parse().unwrap());
    assert_eq!((config.serve.sessions, config.serve.drain.as_secs()), (256, 30));
    assert_eq!((config.telemetry.log.as_str(), config.telemetry.metrics), ("info", true));
    assert_eq!((config.component_settings(), config.warnings), (BTreeMap::new(), Vec::<String>::new()));
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_the_default() {
    let place = Place::new("[serve]\nsessions = 7\n");
    assert_eq!(place.source("serve.sessions"), "7 writ.toml:2:12");
    let place = place.env("WRIT_SERVE__SESSIONS", "8");
    assert_eq!(place.source("serve.sessions"), "8 WRIT_SERVE__SESSIONS");
    let place = place.flag("serve.sessions", "--sessions", "9");
    assert_eq!(place.source("serve.sessions"), "9 --sessions");
    assert_eq!(place.load().serve.limits().sessions, 9);
    assert_eq!(place.source("serve.streams"), "256 default");
    // Deployments pass empty variables for what they do not set.
    let place = Place::new("store = 'memory'").env("WRIT_STORE", "");
    assert_eq!(place.load().store, StoreKind::Memory);
}

#[test]
fn the_file_is_that_of_the_flag_or_the_variable_or_the_folder() {
    let place = Place::new("store = 'memory'").file("a.toml", "component = 'a.wasm'", 0o600);
    let folder = place.folder.path().to_owned();
    assert_eq!(place.load().file, Some(folder.join(FILE)));
    let place = place.env("WRIT_CONFIG", folder.join("a.toml").to_str().unwrap());
    assert_eq!(place.load().component, Some(folder.join("a.wasm")), "paths are of the file's own folder");
    let input = Input { file: Some(folder.join(FILE)), ..place.input.clone() };
    assert_eq!(Config::load(&input).unwrap().store, StoreKind::Memory);
    let missing = Config::load(&Input { file: Some(folder.join("none.toml")), ..Input::default() }).unwrap_err();
    assert!(missing.to_string().contains("none.toml:1:1: it can't be read"), "{missing}");
}

#[test]
fn each_kind_of_bad_file_is_told_with_its_place_and_what_is_allowed() {
    let cases = [
        (
            "[serve]\nadr = 1",
            "writ.toml:2:1: [serve] has no option \"adr\"; did you mean `addr`? Known are `addr`, `con",
        ),
        (
            "strore = 'redb'",
            "writ.toml:1:1: the file has no option \"strore\"; did you mean `store`? Known are `data`, ",
        ),
        ("[server]", "writ.toml:1:2: the file has no option \"server\"; did you mean `serve`?"),
        ("\nserve = 3", "writ.toml:2:9: `serve`: it takes a table, `[serve]`, not a number"),
        ("store = 'disk'", "writ.toml:1:9: `store`: \"disk\" is not allowed: it takes `redb` or `memory`"),
        ("store = 7", "writ.toml:1:9: `store`: a number is not allowed: it takes `redb` or `memory`"),
        (
            "# ä\n[serve]\naddr = 'localhost'",
            "writ.toml:3:8: `serve.addr`: \"localhost\" is not allowed: it takes an address",
        ),
        (
            "[serve]\nsessions = 1",
            "writ.toml:2:12: `serve.sessions`: 1 is not allowed: it takes a whole number, 2 to 4096",
        ),
        (
            "[serve]\nsessions = -1",
            "writ.toml:2:12: `serve.sessions`: -1 is not allowed: it takes a whole number, 2 to 4096",
        ),
        (
            "[serve]\ndrain_seconds = 1.5",
            "writ.toml:2:17: `serve.drain_seconds`: a number with a fraction is not allowed",
        ),
        (
            "[serve]\nsessions = '9'",
            "writ.toml:2:12: `serve.sessions`: a string is not allowed: it takes a whole number, 2 to 4096",
        ),
        ("[serve]\nsessions = true", "writ.toml:2:12: `serve.sessions`: a boolean is not allowed"),
        ("[serve]\nallowed_hosts = ['a/b']", "writ.toml:2:17: `serve.allowed_hosts`: \"a/b\" is not allowed"),
        (
            "[serve]\nallowed_hosts = 'a'",
            "writ.toml:2:17: `serve.allowed_hosts`: a string is not allowed: it takes a list",
        ),
        ("[serve]\nallowed_hosts = [1]", "writ.toml:2:17: `serve.allowed_hosts`: a number in the list is not allowed"),
        ("data = ['a']", "writ.toml:1:8: `data`: a list is not allowed: it takes a path"),
        ("data = ''", "writ.toml:1:8: `data`: an empty path"),
        (
            "[telemetry]\nmetrics = 'yes'",
            "writ.toml:2:11: `telemetry.metrics`: a string is not allowed: it takes `true` or",
        ),
        ("[telemetry]\nlog = 'writ=loud'", "writ.toml:2:7: `telemetry.log`: \"writ=loud\" is no log filter"),
        (
            "[telemetry]\notlp_endpoint = 'localhost:4318'",
            "writ.toml:2:17: `telemetry.otlp_endpoint`: it takes an address",
        ),
        (
            "[telemetry]\notlp_endpoint = 'https://a'",
            "writ.toml:2:17: `telemetry.otlp_endpoint`: it takes an address that begins",
        ),
        (
            "[auth]\nclient_token = 'hunter2'",
            "writ.toml:2:16: `auth.client_token`: 7 characters are too easy to guess, 16 at",
        ),
        (
            "[auth]\nclient_token = 'hunter2 hunter2 hunter2'",
            "writ.toml:2:16: `auth.client_token`: it holds characters",
        ),
        ("[auth]\nclient_token = hunter2hunter2hunter2", "writ.toml:2:16: "),
        (
            "[auth]\nstream_key = 'hunter2'",
            "writ.toml:2:14: `auth.stream_key`: it takes hex digits of 16 to 256 bytes; make one",
        ),
        (
            "[auth]\nusers = 3",
            "writ.toml:2:9: `auth.users`: it takes tables, each under `[[auth.users]]`, not a number",
        ),
        (
            "[[auth.users]]\nname = 'a'",
            "writ.toml:2:8: `auth.users.name`: \"a\" is not allowed: it takes `realm/subject`",
        ),
        (
            "[[auth.users]]\nname = 'a/b'",
            "writ.toml:1:1: `auth.users`: it needs one of `token`, `token_file` and `digest`",
        ),
        ("[[auth.users]]\nnme = 'a/b'", "writ.toml:2:1: [[auth.users]] has no option \"nme\"; did you mean `name`?"),
        (
            "[[auth.users]]\nname = 'a/b'\ndigest = 'hunter2'",
            "writ.toml:3:10: `auth.users.digest`: it takes the SHA-256",
        ),
        ("[[webhooks]]\nname = 'a b'", "writ.toml:2:8: `webhooks.name`: \"a b\" is not allowed"),
        (
            "[[webhooks]]\nurl = 'ftp://hunter2'",
            "writ.toml:2:7: `webhooks.url`: it takes an address that begins with `http://`",
        ),
        ("[[webhooks]]\nurl = 'http://u:hunter2@a'", "writ.toml:2:7: `webhooks.url`: a user or password in a URL"),
        (
            "[[webhooks]]\nevents = ['done']",
            "writ.toml:2:10: `webhooks.events`: \"done\" is not allowed: it takes a list of",
        ),
        (
            "[[webhooks]]\nevents = ['failed', 'failed']",
            "writ.toml:2:10: `webhooks.events`: \"failed\" stands in the list tw",
        ),
        ("store = 'redb'\nstore = 'memory'", "writ.toml:2:1: duplicate key"),
        ("[serve\naddr = 1", "writ.toml:1:"),
    ];
    for (text, expected) in cases {
        let problems = Place::new(text).problems();
        assert!(problems.iter().any(|p| p.starts_with(expected)), "{text:?} gave {problems:#?}, not {expected}");
    }
    let place = Place::new("");
    std::fs::write(place.folder.path().join(FILE), b"# ok\n# \xff").unwrap();
    assert_eq!(place.problems(), ["writ.toml:2:3: it is no UTF-8 text from here on"]);
    std::fs::write(place.folder.path().join(FILE), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(place.problems(), ["writ.toml:1:1: it is larger than 1048576 bytes"]);
}

#[test]
fn all_problems_are_told_at_once() {
    let text = "store = 1\n[serve]\nadr = 2\nsessions = 0\n[[webhooks]]\nname = '.'\n[[webhooks]]\nurl = ''\n";
    let place = Place::new(text).env("WRIT_SERVE__STREAMS", "many").flag("serve.addr", "--addr", "here");
    let problems = place.problems();
    let places: Vec<_> = problems.iter().map(|p| p.split(": ").next().unwrap()).collect();
    let expected = ["writ.toml:1:9", "writ.toml:3:1", "writ.toml:4:12", "writ.toml:6:8", "writ.toml:8:7"];
    assert_eq!(places[..5], expected, "{problems:#?}");
    assert_eq!(places[5..], ["WRIT_SERVE__STREAMS", "--addr"], "{problems:#?}");
    // What only shows when all is put together: the second webhook lacks all but its name.
    let problems = Place::new("[[webhooks]]\nname = 'a'\n\n[[webhooks]]\nname = 'a'\n").problems();
    assert_eq!(problems.iter().filter(|p| p.starts_with("writ.toml:4:1: `webhooks`: ")).count(), 4, "{problems:#?}");
}

#[test]
fn a_mistaken_variable_is_refused() {
    let place = Place::new("").env("WRIT_SERVE__ADR", "1").env("WRIT_SERVE__SESSIONS", "many").env("WRIT_OTHER", "x");
    let problems = place.problems();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert_eq!(
        problems[0],
        "WRIT_SERVE__SESSIONS: `serve.sessions`: this is not allowed: it takes a whole number, 2 to 4096"
    );
    assert!(problems[1].starts_with("WRIT_SERVE__ADR: no option has this variable. Known are WRIT_SERVE__ADDR"));
}

#[test]
fn secrets_never_show() {
    let text = format!(
        "[auth]\nclient_token = '{TOKEN}-1'\nstream_key = '{key}'\n[[auth.users]]\nname = 'org/ann'\ntoken = '{TOKEN}-2'\n\
         [[webhooks]]\nname = 'w'\nurl = 'https://hooks.test/{TOKEN}-3'\nsecret = '{TOKEN}-4'\nevents = ['settled']\n",
        key = "ab".repeat(16),
    );
    let place = Place::new(&text).env("WRIT_AUTH__CLIENT_TOKEN", &format!("{TOKEN}-5"));
    let config = place.load();
    let found = Found::read(&place.input).unwrap();
    let rows: Vec<Json> = found.rows().iter().map(Row::json).collect();
    for shown in [format!("{config:?}"), format!("{config:#?}"), format!("{found:?}"), json!(rows).to_string()] {
        assert!(!shown.contains("correct-horse") && !shown.contains("abab"), "{shown}");
        assert!(shown.contains(MASK), "{shown}");
    }
    let url = rows.iter().find(|row| row["option"] == "webhooks[0].url").unwrap();
    assert_eq!(url["value"], "https://hooks.test/…");
    let told = json!(config.component_settings()).to_string();
    assert!(!told.contains("correct-horse") && !told.contains("hooks.test"), "{told}");
}

#[test]
fn a_secret_that_is_refused_is_not_told() {
    let place = Place::new("").env("WRIT_CLIENT_TOKEN", "hunter2").env("WRIT_AUTH__STREAM_KEY", "hunter2");
    assert_eq!(place.problems().len(), 2);
}

#[test]
fn tokens_become_digests_and_principals() {
    let digest = "AA".repeat(32);
    let text = format!(
        "[auth]\nclient_token = '{TOKEN}'\n[[auth.users]]\nname = 'org/ann'\ndigest = '{digest}'\n\
         [[auth.users]]\nname = 'org/bob'\ntoken_file = 'bob'\n",
    );
    let place = Place::new(&text).file(FILE, &text, 0o600).file("bob", &format!("{TOKEN}-bob\n"), 0o600);
    let config = place.load();
    assert!(config.auth.is_multi_user());
    assert_eq!(config.warnings, Vec::<String>::new());
    let auth: Json = serde_json::from_str(&config.component_settings()["auth"]).unwrap();
    let of = |text: &str| auth::digest(&Secret::new(text));
    assert_eq!(
        auth,
        json!({"clients": [
            {"digest": of(TOKEN), "principal": "local/operator"},
            {"digest": digest.to_lowercase(), "principal": "org/ann"},
            {"digest": of(&format!("{TOKEN}-bob")), "principal": "org/bob"},
        ]})
    );
    assert_eq!(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let one = Place::new(&format!("[auth]\nclient_token = '{TOKEN}'\nstream_key = '{}'\n", "00".repeat(16))).load();
    assert!(!one.auth.is_multi_user());
    let auth: Json = serde_json::from_str(&one.component_settings()["auth"]).unwrap();
    assert_eq!(auth["stream_key"], "00".repeat(16));
}

#[test]
fn a_token_stands_for_one_user_and_is_given_one_way() {
    let same = format!("[auth]\nclient_token = '{TOKEN}'\n[[auth.users]]\nname = 'org/ann'\ntoken = '{TOKEN}'\n");
    let expected =
        "writ.toml:3:1: `auth.users`: the same token is given at writ.toml:2:16: a token stands for one user";
    assert_eq!(Place::new(&same).problems(), [expected]);
    let both = format!("[auth]\nclient_token = '{TOKEN}'\nclient_token_file = 't'\n");
    let expected = "writ.toml:3:21: `auth.client_token`: give it or `client_token_file`, not both";
    assert_eq!(Place::new(&both).problems(), [expected]);
    // The environment is stronger than the file, of whichever kind they are.
    let place = Place::new("[auth]\nclient_token_file = 'none'\n").env("WRIT_CLIENT_TOKEN", TOKEN);
    assert_eq!(place.load().auth.clients[0].digest, auth::digest(&Secret::new(TOKEN)));
}

#[test]
fn a_file_with_a_secret_is_checked_like_the_secret() {
    let text = "[auth]\nclient_token_file = 't'\n";
    let problems = Place::new(text).problems();
    assert!(problems[0].starts_with("writ.toml:2:21: `auth.client_token_file`: t: it can't be read"), "{problems:?}");
    let problems = Place::new(text).file("t", "hunter2\n", 0o600).problems();
    assert!(problems[0].starts_with("writ.toml:2:21: `auth.client_token_file`: t: 7 characters"), "{problems:?}");
    let problems = Place::new(text).file("t", &"hunter2".repeat(1000), 0o600).problems();
    assert!(problems[0].contains("at most 4096"), "{problems:?}");
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_can_read_is_warned_of() {
    let place = Place::new("[auth]\nclient_token_file = 't'\n").file("t", TOKEN, 0o604);
    let warnings = place.load().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("chmod 600"), "{warnings:?}");
    let text = format!("[auth]\nclient_token = '{TOKEN}'\n");
    let place = Place::new(&text);
    for (mode, warned) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
        let place = Place::new(&text).file(FILE, &text, mode);
        assert_eq!(place.load().warnings.len(), warned, "{mode:o}");
    }
    drop(place);
}

#[test]
fn webhooks_are_told_to_the_component_without_url_and_secret() {
    let hook = |name: &str, more: &str| {
        format!(
            "[[webhooks]]\nname = '{name}'\nurl = 'https://a.test/x'\nsecret = '{TOKEN}'\nevents = ['failed']\n{more}\n"
        )
    };
    let config = Place::new(&(hook("one", "") + &hook("two", "agents = ['helper']"))).load();
    assert_eq!(
        serde_json::from_str::<Json>(&config.component_settings()["webhooks"]).unwrap(),
        json!([{"name": "one", "events": ["failed"]}, {"name": "two", "events": ["failed"], "agents": ["helper"]}])
    );
    assert_eq!(config.webhooks[1].secret.expose(), TOKEN);
    assert_eq!(
        (config.webhooks[1].url.expose(), config.webhooks[1].origin().as_str()),
        ("https://a.test/x", "https://a.test/…")
    );
    assert_eq!(config.auth.setting(), None);
    let many: String = (0..8).map(|i| hook(&format!("h{i}"), "")).collect();
    assert_eq!(Place::new(&many).load().webhooks.len(), 8);
    let problems = Place::new(&(many + &hook("h8", "agents = ['helper', 'clerk']"))).problems();
    let expected = "writ.toml:49:1: `webhooks`: 9 webhooks for agent \"helper\", at most 8";
    assert_eq!(problems, [expected]);
}

#[test]
fn lists_in_variables_are_divided_by_commas() {
    let place = Place::new("").env("WRIT_SERVE__ALLOWED_HOSTS", "writ.test, writ.test:8080,[::1]");
    assert_eq!(place.load().serve.allowed_hosts, ["writ.test", "writ.test:8080", "[::1]"]);
    let (on, off): (OsString, OsString) = ("true".into(), "false".into());
    assert_eq!(Kind::Switch.of_text(&on), Ok(Value::Switch(true)));
    assert_eq!(Kind::Switch.of_text(&off), Ok(Value::Switch(false)));
}
