//! The disk below redb: a [`FaultDisk`] whose faults a plan turns on and off, and which outlives its host.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::redb::StorageBackend;

use super::life::Draw;
use crate::store::fault::{FaultBackend, FaultDisk};

/// A disk. Clones are the same disk.
#[derive(Clone)]
pub(super) struct Disk(Arc<Mutex<State>>);

struct State {
    disk: FaultDisk,
    mode: Mode,
    /// What is left after a power failure at a flush.
    torn: Option<FaultDisk>,
    draw: Draw,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sound,
    /// The next flush fails.
    FlushFails,
    /// Nothing can be written.
    NoSpace,
    /// The power fails at the next flush.
    Tears,
    /// The machine is off.
    Off,
}

impl Disk {
    /// An empty disk; what is torn is drawn from `draw`.
    pub(super) fn new(draw: Draw) -> Self {
        Self::with(FaultDisk::new(), draw)
    }

    fn with(disk: FaultDisk, draw: Draw) -> Self {
        Self(Arc::new(Mutex::new(State { disk, mode: Mode::Sound, torn: None, draw })))
    }

    /// An opening of the disk.
    pub(super) fn backend(&self) -> io::Result<DiskBackend> {
        let state = self.lock();
        if state.mode == Mode::Off {
            return Err(off());
        }
        Ok(DiskBackend { disk: self.clone(), inner: state.disk.backend()? })
    }

    /// The next flush fails, once.
    pub(super) fn fail_flush(&self) {
        self.lock().mode = Mode::FlushFails;
    }

    /// There is no space left, until [`Disk::heal`].
    pub(super) fn fill(&self) {
        self.lock().mode = Mode::NoSpace;
    }

    /// The power fails at the next flush.
    pub(super) fn tear(&self) {
        self.lock().mode = Mode::Tears;
    }

    /// Ends all faults that can be ended.
    pub(super) fn heal(&self) {
        let mut state = self.lock();
        if state.mode != Mode::Off {
            state.mode = Mode::Sound;
        }
    }

    /// Switches this disk off. The disk that the next host finds: with all that was written, or only with what was
    /// flushed (and what a torn flush left).
    pub(super) fn restart(&self, keeps_unflushed: bool) -> io::Result<Self> {
        let mut state = self.lock();
        state.mode = Mode::Off;
        let found = match state.torn.take() {
            Some(torn) => torn,
            None if keeps_unflushed => copy(&state.disk)?,
            None => state.disk.after_power_loss(),
        };
        let draw = state.draw.split();
        Ok(Self::with(found, draw))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another disk with all that a disk shows now.
fn copy(disk: &FaultDisk) -> io::Result<FaultDisk> {
    let from = disk.backend()?;
    let len = from.len()?;
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    from.read(0, &mut bytes)?;
    let copy = FaultDisk::new();
    let to = copy.backend()?;
    to.set_len(len)?;
    to.write(0, &bytes)?;
    to.sync_data()?;
    Ok(copy)
}

/// An opening of a [`Disk`].
pub(super) struct DiskBackend {
    disk: Disk,
    inner: FaultBackend,
}

impl std::fmt::Debug for DiskBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskBackend").finish_non_exhaustive()
    }
}

impl DiskBackend {
    fn change(&self, apply: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        // Held during the change.
        let state = self.disk.lock();
        match state.mode {
            Mode::Off => Err(off()),
            Mode::NoSpace => Err(io::Error::new(io::ErrorKind::StorageFull, "injected fault: no space left")),
            Mode::FlushFails | Mode::Sound | Mode::Tears => apply(),
        }
    }
}

impl StorageBackend for DiskBackend {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.disk.lock().mode == Mode::Off {
            return Err(off());
        }
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|| self.inner.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        match state.mode {
            Mode::Off => Err(off()),
            Mode::FlushFails => {
                state.mode = Mode::Sound;
                Err(io::Error::other("injected fault: the flush failed"))
            }
            Mode::Tears => {
                let State { disk, draw, .. } = &mut *state;
                state.torn = Some(disk.after_torn_power_loss(|end| draw.below(end)));
                state.mode = Mode::Off;
                Err(off())
            }
            Mode::NoSpace | Mode::Sound => self.inner.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|| self.inner.write(offset, data))
    }
}

fn off() -> io::Error {
    io::Error::other("injected fault: the machine is off")
}
