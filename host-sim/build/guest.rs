//! What build scripts share that build components: a cargo of their own with a clean environment, and the target.

use std::env;
use std::path::Path;
use std::process::Command;

/// What components are built for.
pub const TARGET: &str = "wasm32-wasip2";

/// What the outer cargo, clippy or a coverage tool sets for the host's own code, and the component must not see.
const FOREIGN: [&str; 9] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    "CARGO_MAKEFLAGS",
];

/// The cargo that runs this build script, without what was set for the host's own code.
pub fn cargo() -> Result<Command, String> {
    Ok(clean(&var("CARGO")?))
}

/// Sees to it that the target's standard library is there.
pub fn require_target() -> Result<(), String> {
    if has_target()? {
        return Ok(());
    }
    println!("cargo:warning=the target {TARGET} is missing: running `rustup target add {TARGET}`");
    let advice = format!("the target {TARGET} is missing; run `rustup target add {TARGET}` and build again");
    run(clean("rustup").args(["target", "add", TARGET]), &advice)?;
    if has_target()? { Ok(()) } else { Err(advice) }
}

fn has_target() -> Result<bool, String> {
    let output = clean(&var("RUSTC")?).args(["--print", "target-libdir", "--target", TARGET]).output();
    let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
    let folder = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && Path::new(folder.trim()).is_dir())
}

fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    for name in FOREIGN {
        command.env_remove(name);
    }
    command
}

/// Runs a command; if it fails, says what to do.
pub fn run(command: &mut Command, advice: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{advice} ({status})")),
        Err(error) => Err(format!("{advice} ({error})")),
    }
}

/// A variable that cargo sets.
pub fn var(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
