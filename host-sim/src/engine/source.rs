//! Where a component comes from, and why it could not be loaded.

use std::path::PathBuf;

/// The component that this crate was built with; see build.rs.
static EMBEDDED: &[u8] = include_bytes!(env!("HOST_SIM_COMPONENT"));

/// Where the component comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ComponentSource {
    /// The one that came with this host.
    #[default]
    Embedded,
    /// A `.wasm` file: an author's component.
    File(PathBuf),
}

/// Why a component could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The file could not be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Not WebAssembly, or broken.
    #[error("{name} is not a WebAssembly component: {text}")]
    NotComponent {
        /// What was loaded.
        name: String,
        /// What is wrong, and what to do.
        text: String,
    },
    /// A component, but not of the world `writ:runtime/writ`.
    #[error("{name} does not fit the world `writ:runtime/writ@0.1.0`: {text}")]
    OtherWorld {
        /// What was loaded.
        name: String,
        /// The import or export that doesn't fit.
        text: String,
    },
    /// The engine itself could not be set up.
    #[error("cannot set up the WebAssembly engine: {0}")]
    Setup(String),
}

impl ComponentSource {
    /// How it is named in texts.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Embedded => "the embedded component".into(),
            Self::File(path) => format!("`{}`", path.display()),
        }
    }

    /// Its bytes, known to be a component by their first eight.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, EngineError> {
        let bytes = match self {
            Self::Embedded => EMBEDDED.to_vec(),
            Self::File(path) => {
                std::fs::read(path).map_err(|source| EngineError::Read { path: path.clone(), source })?
            }
        };
        let problem = match bytes.get(..8) {
            Some([0, b'a', b's', b'm', 0x0d, 0, 1, 0]) => return Ok(bytes),
            Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => "it is a core module; build it for wasm32-wasip2",
            Some([0, b'a', b's', b'm', ..]) => "it is of another version of the component model",
            _ => "it does not begin as WebAssembly does",
        };
        Err(EngineError::NotComponent { name: self.name(), text: problem.into() })
    }
}
