//! Deliberate breaks, chosen by the setting `mutation`: for the tests that show that the proof notices them
//! (`tests/mutations.rs`). Without the feature `mutations` there is none, and nothing of this is in the component.

use crate::ports::Host;

/// Whether this run is to be broken in this way.
#[cfg(feature = "mutations")]
pub fn is(host: &dyn Host, name: &str) -> bool {
    host.setting("mutation").as_deref() == Some(name)
}

/// Whether this run is to be broken in this way: never.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub fn is(_: &dyn Host, _: &str) -> bool {
    false
}
