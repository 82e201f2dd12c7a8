//! Script files: what is wrong with one, and where.

use host_sim::script::Script;

fn wrong(text: &str) -> String {
    Script::parse(text).unwrap_err().to_string()
}

#[test]
fn errors_say_where_what_and_what_is_allowed() {
    let cases = [
        (
            "[[answer]]\ntext = \"a\"\ntxt = \"b\"\n",
            "script:3:1: ",
            "unknown field `txt`, expected one of `when`, `text`",
        ),
        ("[modell]\n", "script:1:2: ", "expected one of `model`, `answer`, `summary`, `tool`"),
        ("[model]\ncontext_window = -1\n", "script:2:18: ", "-1"),
        ("\n[[answer]]\nfail = { kind = \"sudden\" }\n", "script:3:17: ", "unknown variant `sudden`, expected one of"),
        ("[[answer]]\nstop = \"never\"\n", "script:2:8: ", "`end`, `length`, `pause`, `tool-use`"),
        ("[[answer]]\nchunks = 0\n", "script:1:1: ", "`chunks` is 0; allowed are 1 to 10000"),
        ("[[answer]]\n\n[[answer]]\nfail = {}\n", "script:3:1: ", "either `kind` or `cut = true`"),
        ("[[answer]]\nfail = { kind = \"quota\", cut = true }\n", "script:1:1: ", "either `kind` or `cut = true`"),
        ("[[answer]]\nfail = { kind = \"quota\", retry_after_ms = 1 }\n", "script:1:1: ", "\"transient\"` only"),
        ("[[answer]]\nfail = { cut = true, times = 0 }\n", "script:1:1: ", "at least 1"),
        ("[[answer]]\nwhen = \"\"\n", "script:1:1: ", "`when` must not be empty"),
        ("[[answer]]\ncalls = [ { name = \"a\", arguments = { x = inf } } ]\n", "script:2:", "give a finite number"),
        ("[[tool]]\nname = \"a b\"\nreply = \"\"\n", "script:1:1: ", "1 to 64 of A–Z"),
        ("[[tool]]\nname = \"a\"\n", "script:1:1: ", "needs `reply = "),
        ("[[tool]]\nname = \"a\"\nreply = \"x\"\nreplies = [\"y\"]\n", "script:1:1: ", "not both"),
        ("[[tool]]\nname = \"a\"\nreply = \"\"\n[[tool]]\nname = \"a\"\nreply = \"\"\n", "script:4:1: ", "named `a`"),
        ("[[tool]]\nname = \"a\"\npolicy = \"magic\"\nreply = \"\"\n", "script:3:10: ", "`replay-safe`"),
        ("[[answer]]\ntext = \"é\" x\n", "script:2:12: ", ""),
        ("[summary]\ntext = \" \"\n", "script:1:1: ", "must not be empty"),
    ];
    for (text, place, what) in cases {
        let error = wrong(text);
        assert!(error.starts_with(place), "{text:?} gives {error}");
        assert!(error.contains(what), "{text:?} gives {error}");
    }
}

#[test]
fn limits_hold_at_the_boundary() {
    let answers = |count: usize| "[[answer]]\n".repeat(count);
    assert!(Script::parse(&answers(10_000)).is_ok());
    assert!(wrong(&answers(10_001)).contains("10001 answers; a script has at most 10000"));
    let tools =
        |count: usize| -> String { (0..count).map(|n| format!("[[tool]]\nname = \"t{n}\"\nreply = \"\"\n")).collect() };
    assert!(Script::parse(&tools(256)).is_ok());
    assert!(wrong(&tools(257)).contains("257 tools"));
    let padded = |bytes: usize| format!("#{}", "x".repeat(bytes - 1));
    assert!(Script::parse(&padded(1024 * 1024)).is_ok());
    assert!(wrong(&padded(1024 * 1024 + 1)).contains("at most 1048576"));
}

#[test]
fn a_file_is_named_in_its_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    let error = Script::load(&path).unwrap_err();
    assert_eq!(error.code(), "script-unreadable");
    assert!(error.to_string().contains("a.toml"));
    std::fs::write(&path, "[[answer]]\nnope = 1\n").unwrap();
    let error = Script::load(&path).unwrap_err();
    assert_eq!(error.code(), "script-invalid");
    assert!(error.to_string().contains("a.toml:2:1: "), "{error}");
    std::fs::write(&path, "[[answer]]\ntext = \"ok\"\n").unwrap();
    assert_eq!(Script::load(&path).unwrap().answers.len(), 1);
}
