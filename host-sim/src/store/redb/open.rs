//! Opening: the folder, its `FORMAT` file, the database, and what can be wrong with them.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use redb::Builder;
use redb::Database;
use redb::DatabaseError;
use redb::ReadableDatabase;
use redb::StorageBackend;
use redb::StorageError;
use redb::TableError;
use serde::Deserialize;

use super::CACHE_BYTES;
use super::PAIRS;

/// The version of the folder's format that this build writes and reads.
pub const FORMAT_VERSION: u64 = 1;

const DATABASE_FILE: &str = "writ.redb";
const FORMAT_FILE: &str = "FORMAT";
/// Written first and then renamed, so that `FORMAT` is never half written.
const FORMAT_DRAFT: &str = "FORMAT.new";

/// Why a store can't be opened. The text is for people: what is wrong, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The database file is damaged.
    #[error("{place} is damaged ({detail}); restore the store folder from a backup")]
    Damaged {
        /// The file, or a description of the storage.
        place: PathBuf,
        /// What the database library found.
        detail: String,
    },
    /// The `FORMAT` file is missing beside a database, or can't be understood.
    #[error("{dir} holds a store of an unknown format ({detail}); copy or restore a store folder as a whole")]
    Format {
        /// The store folder.
        dir: PathBuf,
        /// What is wrong with the file.
        detail: String,
    },
    /// Another store has the storage open.
    #[error("{place} is in use by another process; stop that one, or choose another store folder")]
    InUse {
        /// The file, or a description of the storage.
        place: PathBuf,
    },
    /// Reading or writing failed.
    #[error("{place}: {source}; check the disk and the path")]
    Io {
        /// The file, the folder, or a description of the storage.
        place: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder was written by a newer build. Nothing was touched.
    #[error("{dir} has format {found}, and this build knows formats up to {known}; use a newer build")]
    NewerFormat {
        /// The store folder.
        dir: PathBuf,
        /// The version that the folder has.
        found: u64,
        /// The newest version that this build knows.
        known: u64,
    },
    /// The database file is something else.
    #[error("{place} is not a store ({detail}); move it away, or choose another store folder")]
    NotADatabase {
        /// The file, or a description of the storage.
        place: PathBuf,
        /// What the database library found.
        detail: String,
    },
    /// The path, or a part of it, is not a folder.
    #[error("{dir} is not a folder, or lies below something that is none; choose another store folder")]
    NotAFolder {
        /// The path that was given.
        dir: PathBuf,
    },
    /// The system refuses access.
    #[error("no permission to read and write {place}; change its owner or mode, or choose another store folder")]
    Permission {
        /// The file or folder.
        place: PathBuf,
    },
    /// The system gave no thread to commit with.
    #[error("the committer thread could not be started: {0}; check the limit on threads")]
    Thread(io::Error),
}

/// Opens the database, the first time and after failures.
pub(super) type Opener = Box<dyn FnMut() -> Result<Database, OpenError> + Send>;

/// An opener for a folder. Makes the folder and its `FORMAT` at once; the database is made by the first opening only,
/// so that a file which disappears later is reported and not replaced by an empty one.
pub(super) fn folder(dir: &Path) -> Result<Opener, OpenError> {
    let dir = dir.to_owned();
    prepare_folder(&dir)?;
    let mut first = true;
    Ok(Box::new(move || {
        let place = dir.join(DATABASE_FILE);
        let made = if first { make(&dir, &place)? } else { None };
        let database = match made {
            Some(database) => database,
            None => {
                let opened = builder(CACHE_BYTES).open(&place).map_err(|error| database_error(error, &place))?;
                with_table(opened, &place)?
            }
        };
        if first {
            remove_drafts(&dir);
        }
        // The file's entry in the folder must be as durable as its content.
        sync_folder(&dir)?;
        first = false;
        Ok(database)
    }))
}

/// Makes the database if there is none: under a name of this process's own, and given its place only when it is whole,
/// so that who is killed here leaves no half of one. `None`: there is one, perhaps just made by another process.
fn make(dir: &Path, place: &Path) -> Result<Option<Database>, OpenError> {
    if place.try_exists().map_err(|error| io_error(error, place))? {
        return Ok(None);
    }
    let draft = dir.join(format!("{DATABASE_FILE}.{}.new", std::process::id()));
    // One that a killed process of the same number has left.
    let _ = fs::remove_file(&draft);
    let created = builder(CACHE_BYTES).create(&draft).map_err(|error| database_error(error, &draft))?;
    let database = with_table(created, &draft)?;
    // Unlike a rename this never replaces what another process has made meanwhile.
    let placed = fs::hard_link(&draft, place);
    let _ = fs::remove_file(&draft);
    match placed {
        Ok(()) => Ok(Some(database)),
        // Another process was first: its database is there, or our draft was tidied away by it.
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(io_error(error, place)),
    }
}

/// Removes what killed processes have left of databases that they were making. Who holds the database may: nobody else's
/// draft will get its place any more.
fn remove_drafts(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|n| n.starts_with(DATABASE_FILE) && n.ends_with(".new")) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// An opener for storage of the caller's own.
pub(super) fn backend<B, F>(mut factory: F, cache_bytes: usize) -> Opener
where
    B: StorageBackend,
    F: FnMut() -> io::Result<B> + Send + 'static,
{
    let place = PathBuf::from("the given storage");
    Box::new(move || {
        let backend = factory().map_err(|source| io_error(source, &place))?;
        let opened =
            builder(cache_bytes).create_with_backend(backend).map_err(|error| database_error(error, &place))?;
        with_table(opened, &place)
    })
}

fn builder(cache_bytes: usize) -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    builder
}

/// Makes the table if it is missing, so that readers always find one.
fn with_table(database: Database, place: &Path) -> Result<Database, OpenError> {
    let failed = |error: redb::Error| error_of(error, place);
    match database.begin_read().map_err(|error| failed(error.into()))?.open_table(PAIRS) {
        Ok(_) => return Ok(database),
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let mut transaction = database.begin_write().map_err(|error| failed(error.into()))?;
    transaction.set_quick_repair(true);
    transaction.open_table(PAIRS).map_err(|error| failed(error.into()))?;
    transaction.commit().map_err(|error| failed(error.into()))?;
    Ok(database)
}

fn prepare_folder(dir: &Path) -> Result<(), OpenError> {
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => OpenError::NotAFolder { dir: dir.to_owned() },
        _ => io_error(error, dir),
    })?;
    // Asked in this order: who makes a store writes `FORMAT` before the database.
    let database = dir.join(DATABASE_FILE);
    let exists = database.try_exists().map_err(|error| io_error(error, &database))?;
    let format = dir.join(FORMAT_FILE);
    match fs::read(&format) {
        Ok(text) => check_format(dir, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if exists {
                let detail = format!("{DATABASE_FILE} without {FORMAT_FILE}");
                return Err(OpenError::Format { dir: dir.to_owned(), detail });
            }
            write_format(dir).map_err(|error| io_error(error, &format))?;
            sync_folder(dir)
        }
        Err(error) => Err(io_error(error, &format)),
    }
}

fn check_format(dir: &Path, text: &[u8]) -> Result<(), OpenError> {
    #[derive(Deserialize)]
    struct Format {
        version: u64,
    }
    let unknown = |detail: String| OpenError::Format { dir: dir.to_owned(), detail };
    let Format { version } =
        serde_json::from_slice(text).map_err(|error| unknown(format!("{FORMAT_FILE}: {error}")))?;
    match version {
        FORMAT_VERSION => Ok(()),
        0 => Err(unknown(format!("{FORMAT_FILE}: there is no version 0"))),
        found => Err(OpenError::NewerFormat { dir: dir.to_owned(), found, known: FORMAT_VERSION }),
    }
}

fn write_format(dir: &Path) -> io::Result<()> {
    let draft = dir.join(FORMAT_DRAFT);
    let mut file = File::create(&draft)?;
    writeln!(file, "{{\"version\":{FORMAT_VERSION}}}")?;
    file.sync_all()?;
    fs::rename(&draft, dir.join(FORMAT_FILE))
}

/// Makes the entries of a folder durable, and its own entry in the folder above as far as that can be opened.
#[cfg(unix)]
fn sync_folder(dir: &Path) -> Result<(), OpenError> {
    File::open(dir).and_then(|folder| folder.sync_all()).map_err(|error| io_error(error, dir))?;
    if let Ok(above) = dir.canonicalize().and_then(|dir| File::open(dir.parent().unwrap_or(&dir))) {
        // A folder above that is not ours may refuse; the store's own folder has been synced.
        let _ = above.sync_all();
    }
    Ok(())
}

/// Elsewhere a folder can't be opened as a file, and its entries are durable without that.
#[cfg(not(unix))]
fn sync_folder(_dir: &Path) -> Result<(), OpenError> {
    Ok(())
}

fn database_error(error: DatabaseError, place: &Path) -> OpenError {
    match error {
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            OpenError::NotADatabase { place: place.to_owned(), detail: error.to_string() }
        }
        DatabaseError::UpgradeRequired(version) => OpenError::NotADatabase {
            place: place.to_owned(),
            detail: format!("a redb file of the older format {version}"),
        },
        error => error_of(error.into(), place),
    }
}

fn error_of(error: redb::Error, place: &Path) -> OpenError {
    let damaged = |detail: String| OpenError::Damaged { place: place.to_owned(), detail };
    match error {
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
            OpenError::InUse { place: place.to_owned() }
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => damaged(error.to_string()),
        redb::Error::Io(error) => io_error(error, place),
        error @ (redb::Error::Corrupted(_) | redb::Error::TableTypeMismatch { .. }) => damaged(error.to_string()),
        error => io_error(io::Error::other(error.to_string()), place),
    }
}

fn io_error(source: io::Error, place: &Path) -> OpenError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => OpenError::Permission { place: place.to_owned() },
        _ => OpenError::Io { place: place.to_owned(), source },
    }
}
