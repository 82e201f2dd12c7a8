//! What `std`'s prelude would bring: this crate is `no_std`, so that its component imports nothing but its handles.

pub use alloc::{
    borrow::ToOwned,
    boxed::Box,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
