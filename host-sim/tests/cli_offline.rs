//! Nothing leaves the machine: the whole story works where there is no network at all.
#![cfg(all(feature = "cli", target_os = "linux"))]

use std::process::Command;

/// The demo and a first run, in a network namespace of their own in which not even loopback is up.
#[test]
fn the_demo_needs_no_network() {
    let alone = || {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "--"]);
        command
    };
    if !alone().arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine gives no network namespace (unshare --map-root-user --net)");
        return;
    }
    let links = alone().args(["cat", "/proc/net/dev"]).output().expect("cat runs");
    let links = String::from_utf8_lossy(&links.stdout).lines().filter(|line| line.contains(':')).count();
    assert_eq!(links, 1, "there is a network besides loopback");

    let demo = alone().arg(env!("CARGO_BIN_EXE_writ")).arg("demo").output().expect("the demo runs");
    let told = String::from_utf8_lossy(&demo.stdout);
    assert!(demo.status.success(), "{told}{}", String::from_utf8_lossy(&demo.stderr));
    assert!(told.contains("every invariant holds"), "{told}");

    let folder = tempfile::tempdir().expect("a folder");
    let run = alone()
        .arg(env!("CARGO_BIN_EXE_writ"))
        .args(["run", "helper", "hello", "--data"])
        .arg(folder.path().join("data"))
        .output()
        .expect("a run runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(String::from_utf8_lossy(&run.stdout).contains("hello"), "the first reply");
}
