//! Every conformance case on every store: `cargo test -p host-sim --test store_conformance`.

use std::sync::Arc;

use host_sim::store::Store;
use host_sim::store::counted::CountedStore;
use host_sim::store::memory::MemoryStore;
use host_sim::store::redb::RedbStore;
use tempfile::TempDir;

mod memory {
    host_sim::store_conformance!(super::memory_store);
}

mod redb {
    host_sim::store_conformance!(super::redb_store);
}

mod counted {
    host_sim::store_conformance!(super::counted_store);
}

/// The list of cases is kept by hand; this keeps it whole.
#[test]
fn no_case_is_forgotten() {
    let sources = [
        include_str!("../src/store/conformance/commits.rs"),
        include_str!("../src/store/conformance/journal.rs"),
        include_str!("../src/store/conformance/limits.rs"),
        include_str!("../src/store/conformance/reads.rs"),
    ];
    let list = include_str!("../src/store/conformance.rs");
    let mut cases = 0;
    for line in sources.iter().flat_map(|source| source.lines()) {
        if let Some(rest) = line.strip_prefix("pub async fn ") {
            let name = rest.split('(').next().unwrap();
            assert!(list.lines().any(|line| line.trim() == name), "{name} is not in the list");
            cases += 1;
        }
    }
    assert!(cases > 20, "{cases} cases found");
}

fn memory_store() -> (Arc<dyn Store>, ()) {
    (Arc::new(MemoryStore::new()), ())
}

fn redb_store() -> (Arc<dyn Store>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Arc::new(RedbStore::open(dir.path()).unwrap()), dir)
}

fn counted_store() -> (Arc<dyn Store>, ()) {
    (Arc::new(CountedStore::new(Arc::new(MemoryStore::new()))), ())
}
