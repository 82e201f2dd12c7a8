//! Builds the components of `examples/` once for the tests, and exports their paths: `WRIT_TRIAGE` and so on.

use std::env;
use std::path::Path;
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
    // A folder of its own: the outer cargo holds the lock of the other.
    let target_dir = Path::new(&guest::var("OUT_DIR")?).join("components");
    let mut cargo = guest::cargo()?;
    cargo.args(["build", "--release", "--target", guest::TARGET]).arg("--manifest-path").arg(root.join("Cargo.toml"));
    for (package, _) in EXAMPLES {
        cargo.args(["--package", package]);
    }
    cargo.env("CARGO_TARGET_DIR", &target_dir);
    guest::run(&mut cargo, "the example components could not be built; see the errors above")?;
    broken(&root, &target_dir)?;
    for (package, variable) in EXAMPLES {
        let file = target_dir.join(guest::TARGET).join("release").join(format!("{package}.wasm"));
        println!("cargo:rustc-env={variable}={}", file.display());
    }
    Ok(())
}

/// One of them once more, with a runtime that can be broken on purpose: `WRIT_BROKEN`.
fn broken(root: &Path, target_dir: &Path) -> Result<(), String> {
    let target_dir = target_dir.join("broken");
    let mut cargo = guest::cargo()?;
    cargo.args(["build", "--release", "--target", guest::TARGET, "--package", "mailer", "--features", "mutations"]);
    cargo.arg("--manifest-path").arg(root.join("Cargo.toml")).env("CARGO_TARGET_DIR", &target_dir);
    guest::run(&mut cargo, "the broken component could not be built; see the errors above")?;
    let file = target_dir.join(guest::TARGET).join("release").join("mailer.wasm");
    println!("cargo:rustc-env=WRIT_BROKEN={}", file.display());
    Ok(())
}
