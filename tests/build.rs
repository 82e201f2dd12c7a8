//! Builds the components of `examples/` once for the tests, and exports their paths: `WRIT_TRIAGE` and so on.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[path = "../host-sim/build/guest.rs"]
mod guest;

/// Packages of `examples/`, and the variables that name their files.
const EXAMPLES: [(&str, &str); 3] = [("mailer", "WRIT_MAILER"), ("triage", "WRIT_TRIAGE"), ("trials", "WRIT_TRIALS")];

fn main() -> ExitCode {
    if env::var_os("CARGO_CFG_TARGET_FAMILY").is_some_and(|family| family == "wasm") {
        return ExitCode::SUCCESS;
    }
    match components() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("cargo:warning={text}");
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn components() -> Result<(), String> {
    let root = Path::new(&guest::var("CARGO_MANIFEST_DIR")?).join("..");
    for input in ["src", "wit", "examples", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    guest::require_target()?;
    let packages = EXAMPLES.map(|(package, _)| package);
    build(&root, &packages, &[])?;
    for (package, variable) in EXAMPLES {
        keep(package, package, variable)?;
    }
    // One of them once more, with a runtime that can be broken on purpose (`tests/mutations.rs`).
    build(&root, &["mailer"], &["--features", "mutations"])?;
    keep("mailer", "broken", "WRIT_BROKEN")
}

fn build(root: &Path, packages: &[&str], more: &[&str]) -> Result<(), String> {
    let mut cargo = guest::cargo()?;
    cargo.args(["build", "--release", "--target", guest::TARGET]).arg("--manifest-path").arg(root.join("Cargo.toml"));
    for package in packages {
        cargo.args(["--package", package]);
    }
    cargo.args(more).env("CARGO_TARGET_DIR", target_dir()?);
    guest::run(&mut cargo, "the example components could not be built; see the errors above")
}

/// Takes what was built out of the way of the next build, and exports its path.
fn keep(package: &str, name: &str, variable: &str) -> Result<(), String> {
    let built = target_dir()?.join(guest::TARGET).join("release").join(format!("{package}.wasm"));
    let kept = Path::new(&guest::var("OUT_DIR")?).join(format!("{name}.wasm"));
    std::fs::copy(&built, &kept).map_err(|error| format!("{}: {error}", built.display()))?;
    println!("cargo:rustc-env={variable}={}", kept.display());
    Ok(())
}

/// A folder of its own: the outer cargo holds the lock of the other.
fn target_dir() -> Result<PathBuf, String> {
    Ok(Path::new(&guest::var("OUT_DIR")?).join("components"))
}
