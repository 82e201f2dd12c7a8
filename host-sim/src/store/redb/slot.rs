//! The place of the open database: shared by readers and the committer, emptied and filled again after a failure.

use std::sync::PoisonError;
use std::sync::RwLock;

use redb::Database;

/// Why the database did not do what was asked.
#[derive(Debug)]
pub(super) struct Fault {
    /// For people.
    pub(super) text: String,
    /// Whether closing and opening the database may mend it. Damaged content stays damaged.
    pub(super) reopening_helps: bool,
}

impl Fault {
    fn closed(reason: &str) -> Self {
        Self { text: reason.to_owned(), reopening_helps: true }
    }
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        let error = error.into();
        Self { reopening_helps: !matches!(error, redb::Error::Corrupted(_)), text: error.to_string() }
    }
}

/// Holds the database while it is open, else the reason why it is not.
///
/// Using it takes the lock shared, also for the length of a flush; replacing the database takes it alone. Readers so
/// never keep an old database, and with it the file's lock, alive.
pub(super) struct Slot {
    held: RwLock<Held>,
}

struct Held {
    /// Raised by each opening, so that a failure reported late does not close a database opened since.
    generation: u64,
    database: Result<Database, String>,
}

impl Slot {
    pub(super) fn new(database: Database) -> Self {
        Self { held: RwLock::new(Held { generation: 0, database: Ok(database) }) }
    }

    /// Uses the database; a failure comes with the generation that failed.
    pub(super) fn with<T, E: From<Fault>>(&self, work: impl FnOnce(&Database) -> Result<T, E>) -> Result<T, (E, u64)> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let result = match &held.database {
            Ok(database) => work(database),
            Err(reason) => Err(Fault::closed(reason).into()),
        };
        result.map_err(|error| (error, held.generation))
    }

    /// Closes the database, if it is still the one that failed, and puts in its place what `open` gives.
    pub(super) fn replace(&self, failed: u64, open: impl FnOnce() -> Result<Database, String>) -> Result<(), String> {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if held.generation == failed || held.database.is_err() {
            // Closed first: the file's lock is free again only then.
            held.database = Err("the database is being opened again".to_owned());
            held.database = open();
            held.generation += 1;
        }
        held.database.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Closes the database for good.
    pub(super) fn close(&self, reason: &str) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.database = Err(reason.to_owned());
    }
}
