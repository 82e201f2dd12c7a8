//! Compiled components on disk: loading one is some hundred times cheaper than compiling (wasm-notes 3.1).
//!
//! Everything here may fail silently: without a cache, the component is compiled.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use wasmtime::Engine;
use wasmtime::component::Component;

/// Most files that are kept; the oldest go.
const FILES_MAX: usize = 32;
/// Bytes of the checksum before the compiled code.
const SUM_BYTES: usize = 16;

/// The component of `wasm`, from the cache if it is there, else compiled and put there.
pub(super) fn compile(engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Component> {
    let Some(folder) = folder() else {
        return Component::new(engine, wasm);
    };
    compile_in(&folder, engine, wasm)
}

fn compile_in(folder: &Path, engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Component> {
    let file = folder.join(format!("{:032x}.cwasm", key(engine, wasm)));
    if let Some(component) = load(engine, &file) {
        return Ok(component);
    }
    let component = Component::new(engine, wasm)?;
    if let Ok(code) = component.serialize() {
        let _ = save(&file, &code);
        prune(folder);
    }
    Ok(component)
}

/// `$XDG_CACHE_HOME/writ` or `~/.cache/writ`, made if need be, if nobody else can write to it.
fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    private(cache.join("writ"))
}

#[cfg(unix)]
fn private(folder: PathBuf) -> Option<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let found = fs::symlink_metadata(&folder).ok()?;
    // The owner of a file that this process makes is this process.
    let ours = tempfile::NamedTempFile::new_in(&folder).ok()?.as_file().metadata().ok()?.uid();
    (found.is_dir() && found.mode() & 0o077 == 0 && found.uid() == ours).then_some(folder)
}

#[cfg(not(unix))]
fn private(_: PathBuf) -> Option<PathBuf> {
    None
}

/// Names what was compiled, by which version of wasmtime under which settings.
fn key(engine: &Engine, wasm: &[u8]) -> u128 {
    hash(|hasher| {
        engine.precompile_compatibility_hash().hash(hasher);
        wasm.hash(hasher);
    })
}

/// 128 bits against accidents, not against an enemy: the folder is this user's own.
fn hash(feed: impl Fn(&mut DefaultHasher)) -> u128 {
    [0u8, 1].into_iter().fold(0, |sum, half| {
        let mut hasher = DefaultHasher::new();
        half.hash(&mut hasher);
        feed(&mut hasher);
        sum << 64 | u128::from(hasher.finish())
    })
}

fn checksum(code: &[u8]) -> [u8; SUM_BYTES] {
    hash(|hasher| code.hash(hasher)).to_le_bytes()
}

#[expect(unsafe_code, reason = "wasmtime trusts what it loads")]
fn load(engine: &Engine, file: &Path) -> Option<Component> {
    let bytes = fs::read(file).ok()?;
    let (sum, code) = bytes.split_at_checked(SUM_BYTES)?;
    if sum != checksum(code) {
        return None;
    }
    // SAFETY: the bytes must be what `Component::serialize` gave. They are: the file lies in a folder that belongs to
    // this user and that nobody else may read or write (checked by `private`), only `save` writes there, the checksum
    // shows that the file is whole, and wasmtime itself refuses code of another version or other settings. Who can
    // change the file all the same can change this program too.
    unsafe { Component::deserialize(engine, code) }.ok()
}

/// Writes to a file of its own and renames it: a reader sees all of it or nothing.
fn save(file: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().ok_or(std::io::ErrorKind::NotFound)?;
    let mut whole = tempfile::NamedTempFile::new_in(folder)?;
    whole.write_all(&checksum(code))?;
    whole.write_all(code)?;
    whole.persist(file)?;
    Ok(())
}

fn prune(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let is_code = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "cwasm");
    let age = |path: PathBuf| Some((fs::metadata(&path).ok()?.modified().ok()?, path));
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_code).filter_map(age).collect();
    files.sort();
    let extra = files.len().saturating_sub(FILES_MAX);
    for (_, file) in files.drain(..extra) {
        let _ = fs::remove_file(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest component: nothing in it.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn files(folder: &Path) -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn a_broken_file_is_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        let engine = super::super::config::engine(&crate::limits::HostLimits::small()).unwrap();
        compile_in(folder.path(), &engine, EMPTY).unwrap();
        let [file] = &files(folder.path())[..] else { panic!("one file") };
        assert!(load(&engine, file).is_some());
        let good = fs::read(file).unwrap();

        for broken in [&good[..0], &good[..10], &good[..good.len() - 1], &[&good[..], b"x"].concat()] {
            fs::write(file, broken).unwrap();
            assert!(load(&engine, file).is_none());
            compile_in(folder.path(), &engine, EMPTY).unwrap();
            assert!(fs::read(file).unwrap() == good, "written anew");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_can_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("writ");
        assert_eq!(private(path.clone()), Some(path.clone()), "made private");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(private(path), None);
    }
}
