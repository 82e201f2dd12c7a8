//! I9: no effect is started after a failed or unknown commit until the store has answered.

use std::collections::BTreeMap;

use super::Finding;
use super::trace::Entry;
use crate::engine::{End, Import};

/// Looks at what each instance did after a commit that was not surely answered.
pub(super) fn check(trace: &[Entry]) -> Vec<Finding> {
    let mut doubts: BTreeMap<(u32, bool, u64), &Entry> = BTreeMap::new();
    let mut findings = Vec::new();
    for entry in trace {
        let instance = (entry.life, entry.twin, entry.instance);
        match (entry.import, &entry.end) {
            (Import::KvCommit, Some(End::Committed | End::Stale)) => {
                doubts.remove(&instance);
            }
            (Import::KvCommit, Some(End::Failed(_) | End::Unknown(_))) => {
                doubts.insert(instance, entry);
            }
            (Import::ModelStart | Import::ToolsStart, _) => {
                if let Some(commit) = doubts.get(&instance) {
                    let text = format!(
                        "{} was called (call {}) after the commit of call {} had not been answered surely",
                        entry.import.name(),
                        entry.number,
                        commit.number
                    );
                    findings.push(Finding::new("I9", text));
                }
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32, import: Import, end: End) -> Entry {
        let (detail, fault) = (String::new(), None);
        Entry { life: 0, twin: false, number, instance: 0, export: "run", import, detail, fault, end: Some(end) }
    }

    /// Shows trap 10.
    #[test]
    fn an_effect_waits_for_the_stores_answer() {
        let unknown = || entry(0, Import::KvCommit, End::Unknown(String::new()));
        let start = || entry(2, Import::ToolsStart, End::done());
        let found = check(&[unknown(), start()]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].invariant, "I9");
        assert!(check(&[unknown(), entry(1, Import::KvCommit, End::Stale), start()]).is_empty());
        let other = Entry { instance: 1, ..start() };
        assert!(check(&[unknown(), other]).is_empty());
        assert_eq!(check(&[entry(0, Import::KvCommit, End::Failed(String::new())), start()]).len(), 1);
    }
}
