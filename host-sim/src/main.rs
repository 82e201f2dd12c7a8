//! The `writ` command.
fn main() {}
