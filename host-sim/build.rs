//! Builds the component that the host embeds, and exports its path as `WRIT_COMPONENT`.
//!
//! The package `writ` is both a `cdylib` and an `rlib`; as a dependency it would lose its link-time optimisation, so
//! it is built here as a `cdylib` alone, by a cargo of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const TARGET: &str = "wasm32-wasip2";
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

fn main() -> ExitCode {
    if env::var_os("CARGO_CFG_TARGET_FAMILY").is_some_and(|family| family == "wasm") {
        return ExitCode::SUCCESS;
    }
    match component() {
        Ok(file) => {
            println!("cargo:rustc-env=WRIT_COMPONENT={}", file.display());
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("cargo:warning={text}");
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn component() -> Result<PathBuf, String> {
    let root = Path::new(&var("CARGO_MANIFEST_DIR")?).join("..");
    for input in ["src", "wit", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    require_target()?;
    let target_dir = Path::new(&var("OUT_DIR")?).join("component");
    let mut cargo = clean(&var("CARGO")?);
    cargo
        .args(["rustc", "--package", "writ", "--lib", "--crate-type", "cdylib", "--release", "--target", TARGET])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        // A folder of its own: the outer cargo holds the lock of the other.
        .env("CARGO_TARGET_DIR", &target_dir);
    run(&mut cargo, "the component could not be built; see the errors above")?;
    Ok(target_dir.join(TARGET).join("release").join("writ.wasm"))
}

/// Sees to it that the target's standard library is there.
fn require_target() -> Result<(), String> {
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

fn run(command: &mut Command, advice: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{advice} ({status})")),
        Err(error) => Err(format!("{advice} ({error})")),
    }
}

fn var(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
