//! Builds the component.
fn main() {}
