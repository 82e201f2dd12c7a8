//! The host that comes with Writ: a wasmtime embedding with real stores, real and scripted models, tools, a scheduler
//! and the `writ` command.
//!
//! Nothing in here knows the runtime's keys or its crate: it meets the component only through `wit/`.
#![cfg(not(target_family = "wasm"))]

pub mod clock;
pub mod compare;
pub mod model;
pub mod recording;
pub mod script;
pub mod store;
pub mod tools;
