//! Writ.
#![cfg_attr(target_family = "wasm", no_std)]
extern crate alloc;
