//! The network face, over real sockets: a server in this process over the real component, one over the test guest, and
//! `writ serve` as a process of its own.
#![cfg(all(feature = "cli", not(target_family = "wasm")))]

mod client;
mod drain;
mod foreign;
mod hostile;
mod injecting;
#[path = "../kit/mod.rs"]
mod kit;
mod load;
mod mcp;
mod process;
mod readme;
mod requests;
mod served;
mod streams;
mod webhooks;
