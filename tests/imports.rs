//! The component can reach nothing but its handles: it imports the nine interfaces of its world, and no WASI.
#![cfg(not(target_family = "wasm"))]

use writ_tests::World;

/// Shows A42.
#[tokio::test(flavor = "multi_thread")]
async fn the_component_imports_its_nine_handles_and_nothing_else() {
    let world = World::new("[[answer]]\ntext = \"Hello.\"\n").await;
    let mut imports = world.host.imports();
    imports.sort();
    let handles = ["clock", "control", "events", "kv", "log", "model", "schema", "settings", "tools"];
    assert_eq!(imports, handles.map(|name| format!("writ:runtime/{name}@0.1.0")));
}
