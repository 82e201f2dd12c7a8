//! Panics of a component with std: their text goes to the host's log instead of an output that leads nowhere.

use super::bindings::writ::runtime::log;
use crate::prelude::*;
use std::panic;

/// To be called before any code of an agent runs. An instance serves one call, so once a call is once an instance.
pub(super) fn to_log() {
    panic::set_hook(Box::new(|info| log::write(log::Level::Error, &info.to_string())));
}
