//! Builds the component that the host embeds, and exports its path as `HOST_SIM_COMPONENT`.
//!
//! The package `writ` is both a `cdylib` and an `rlib`; as a dependency it would lose its link-time optimisation, so
//! it is built here as a `cdylib` alone, by a cargo of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[path = "build/guest.rs"]
mod guest;

fn main() -> ExitCode {
    if env::var_os("CARGO_CFG_TARGET_FAMILY").is_some_and(|family| family == "wasm") {
        return ExitCode::SUCCESS;
    }
    match component() {
        Ok(file) => {
            println!("cargo:rustc-env=HOST_SIM_COMPONENT={}", file.display());
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
    let root = Path::new(&guest::var("CARGO_MANIFEST_DIR")?).join("..");
    for input in ["src", "wit", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    guest::require_target()?;
    let target_dir = Path::new(&guest::var("OUT_DIR")?).join("component");
    let mut cargo = guest::cargo()?;
    cargo
        .args(["rustc", "--package", "writ", "--lib", "--crate-type", "cdylib", "--release", "--target", guest::TARGET])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        // A folder of its own: the outer cargo holds the lock of the other.
        .env("CARGO_TARGET_DIR", &target_dir);
    guest::run(&mut cargo, "the component could not be built; see the errors above")?;
    Ok(target_dir.join(guest::TARGET).join("release").join("writ.wasm"))
}
