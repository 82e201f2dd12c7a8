//! The host that comes with Writ: a wasmtime embedding with real stores, real and scripted models, tools, a scheduler
//! and the `writ` command.
//!
//! Nothing in here knows the runtime's keys or its crate: it meets the component only through `wit/`.
//!
//! [`host::Host`] is the way in: give it [`host::Parts`], hand it requests.
#![cfg(not(target_family = "wasm"))]

#[cfg(feature = "cli")]
pub mod cli;
pub mod clock;
pub mod compare;
pub mod config;
pub mod data;
pub mod engine;
pub mod error;
pub mod fault;
pub mod host;
pub mod http;
pub mod hub;
pub mod limits;
pub mod model;
pub mod recording;
mod scheduler;
pub mod script;
pub mod stdio;
pub mod store;
pub mod telemetry;
mod tls;
pub mod tools;
pub mod webhook;
