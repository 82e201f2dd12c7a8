//! Models and tools that need no account: scripted, offline, replayed; the workspace; recordings and their comparison.

mod compare;
mod offline;
mod real;
mod replay;
mod script;
mod scripted;
mod support;
mod tools;
mod workspace;
