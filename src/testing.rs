//! Fakes of the ports for unit tests.

use crate::ports::Host;
use crate::prelude::*;

/// Settings in memory; schemas accept everything.
#[derive(Default)]
pub struct FakeHost {
    pub settings: BTreeMap<String, String>,
}

impl Host for FakeHost {
    fn poll(&self) -> bool {
        false
    }
    fn publish(&self, _: &str, _: u64, _: String) {}
    fn setting(&self, name: &str) -> Option<String> {
        self.settings.get(name).cloned()
    }
    fn check(&self, _: &str, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
    fn warn(&self, _: &str) {}
}
