//! A disk in memory whose flushes can be counted, held back and failed, and which can lose its power.
//!
//! For tests of what a store says and shows while a flush is under way, and after one has failed.

use std::io;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use ::redb::StorageBackend;

/// How long [`HeldSyncs::wait`] waits: only a test that is to fail waits so long.
pub const HELD_WAIT_MAX: Duration = Duration::from_secs(20);

/// A disk. Clones are the same disk. What is written is seen by later reads at once, and survives a
/// [power loss](Self::after_power_loss) only if a flush has succeeded since.
#[derive(Clone, Default)]
pub struct FaultDisk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    disk: Mutex<Disk>,
    changed: Condvar,
}

#[derive(Default)]
struct Disk {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// What was changed since the last flush, in order.
    unflushed: Vec<Change>,
    syncs: u64,
    opens: u64,
    /// Flushes that may still pass; `None`: all.
    permits: Option<u64>,
    /// Whether a flush waits for a permit.
    held: bool,
    /// How many flushes succeed before one fails; `None`: none fails.
    sync_fails_after: Option<u64>,
    reads_fail: bool,
    opens_fail: bool,
    /// Changes and flushes until the power fails; `None`: it does not.
    power: Option<u64>,
}

enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

impl Disk {
    /// Whether there is power.
    fn powered(&self) -> io::Result<()> {
        if self.power == Some(0) { Err(fault("the machine is off, and the disk")) } else { Ok(()) }
    }

    /// The same before a change or a flush, of which only so many come through.
    fn spend_power(&mut self) -> io::Result<()> {
        self.powered()?;
        self.power = self.power.map(|left| left - 1);
        Ok(())
    }
}

impl FaultDisk {
    /// An empty disk without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The disk as redb storage, for [`RedbStore::with_backend`](super::redb::RedbStore::with_backend).
    ///
    /// # Errors
    /// While [`fail_opens`](Self::fail_opens) is set.
    pub fn backend(&self) -> io::Result<FaultBackend> {
        let mut disk = self.lock();
        disk.powered()?;
        if disk.opens_fail {
            return Err(fault("opening"));
        }
        disk.opens += 1;
        Ok(FaultBackend { disk: self.clone() })
    }

    /// How many flushes have succeeded.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// How often the disk has been opened.
    pub fn opens(&self) -> u64 {
        self.lock().opens
    }

    /// From now on each flush waits for a permit, until what this gives is dropped.
    pub fn hold_syncs(&self) -> HeldSyncs {
        self.lock().permits = Some(0);
        HeldSyncs { disk: self.clone() }
    }

    /// One flush fails: the one after that many successful ones. Nothing of what it covers becomes durable by it.
    pub fn fail_sync_after(&self, successes: u64) {
        self.lock().sync_fails_after = Some(successes);
    }

    /// From now on reads fail, or no longer do.
    pub fn fail_reads(&self, fail: bool) {
        self.lock().reads_fail = fail;
    }

    /// From now on [`backend`](Self::backend) fails, or no longer does.
    pub fn fail_opens(&self, fail: bool) {
        self.lock().opens_fail = fail;
    }

    /// The power fails after so many more changes and flushes: from then on nothing works on this disk.
    pub fn lose_power_after(&self, steps: u64) {
        self.lock().power = Some(steps);
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.lock().power == Some(0)
    }

    /// Ends all faults, but not the holding of flushes and a power loss.
    pub fn heal(&self) {
        let mut disk = self.lock();
        disk.sync_fails_after = None;
        disk.reads_fail = false;
        disk.opens_fail = false;
    }

    /// Another disk without faults, with what would be found on this one if the power failed now: all that was
    /// written before the last successful flush, and nothing else.
    pub fn after_power_loss(&self) -> Self {
        Self::holding(self.lock().durable.clone())
    }

    /// The same with a part of what was not flushed: each change whole, half, or not at all. `draw` gives a number below
    /// the one that it is given.
    pub fn after_torn_power_loss(&self, mut draw: impl FnMut(u64) -> u64) -> Self {
        let disk = self.lock();
        let mut found = disk.durable.clone();
        for change in &disk.unflushed {
            match (change, draw(3)) {
                (_, 0) => {}
                (Change::Length(len), _) => found.resize(*len, 0),
                (Change::Write(start, data), part) => {
                    let data = if part == 1 { &data[..data.len() / 2] } else { data };
                    // Beyond the end: the change of length before it is not on the disk.
                    if let Some(to) = found.get_mut(*start..start + data.len()) {
                        to.copy_from_slice(data);
                    }
                }
            }
        }
        Self::holding(found)
    }

    fn holding(durable: Vec<u8>) -> Self {
        let disk = Disk { live: durable.clone(), durable, ..Disk::default() };
        Self { shared: Arc::new(Shared { disk: Mutex::new(disk), changed: Condvar::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.shared.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.lock();
        while disk.permits == Some(0) {
            disk.held = true;
            self.shared.changed.notify_all();
            disk = self.shared.changed.wait(disk).unwrap_or_else(PoisonError::into_inner);
        }
        disk.permits = disk.permits.map(|permits| permits.saturating_sub(1));
        disk.spend_power()?;
        match disk.sync_fails_after {
            Some(0) => {
                disk.sync_fails_after = None;
                return Err(fault("flushing"));
            }
            Some(successes) => disk.sync_fails_after = Some(successes - 1),
            None => {}
        }
        disk.syncs += 1;
        disk.durable = disk.live.clone();
        disk.unflushed.clear();
        Ok(())
    }
}

/// The flushes of a [`FaultDisk`] wait for permits while this lives. Declare it after the store, so that a test that
/// panics lets the store end.
#[must_use]
pub struct HeldSyncs {
    disk: FaultDisk,
}

impl HeldSyncs {
    /// Lets that many held or future flushes pass.
    pub fn allow(&self, more: u64) {
        let mut disk = self.disk.lock();
        disk.permits = disk.permits.map(|permits| permits + more);
        disk.held = false;
        self.disk.shared.changed.notify_all();
    }

    /// Blocks until a flush waits for a permit.
    ///
    /// # Panics
    /// When none has come within [`HELD_WAIT_MAX`]: the store under test flushes less than the test expects.
    pub fn wait(&self) {
        let disk = self.disk.lock();
        let waited = self.disk.shared.changed.wait_timeout_while(disk, HELD_WAIT_MAX, |disk| !disk.held);
        let (_disk, end) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!end.timed_out(), "no flush came to be held");
    }
}

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        let mut disk = self.disk.lock();
        disk.permits = None;
        disk.held = false;
        self.disk.shared.changed.notify_all();
    }
}

/// One opening of a [`FaultDisk`].
pub struct FaultBackend {
    disk: FaultDisk,
}

impl std::fmt::Debug for FaultBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultBackend").finish_non_exhaustive()
    }
}

impl StorageBackend for FaultBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.disk.lock();
        disk.powered()?;
        if disk.reads_fail {
            return Err(fault("reading"));
        }
        let start = index(offset)?;
        let from = start.checked_add(out.len()).and_then(|end| disk.live.get(start..end));
        out.copy_from_slice(from.ok_or_else(out_of_range)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.spend_power()?;
        let len = index(len)?;
        disk.live.resize(len, 0);
        disk.unflushed.push(Change::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.spend_power()?;
        let start = index(offset)?;
        let to = start.checked_add(data.len()).and_then(|end| disk.live.get_mut(start..end));
        to.ok_or_else(out_of_range)?.copy_from_slice(data);
        disk.unflushed.push(Change::Write(start, data.to_vec()));
        Ok(())
    }
}

fn fault(what: &str) -> io::Error {
    io::Error::other(format!("injected fault: {what} failed"))
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| out_of_range())
}

fn out_of_range() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the disk")
}
