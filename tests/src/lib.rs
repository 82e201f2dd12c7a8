//! What the tests share.
#![cfg(not(target_family = "wasm"))]
