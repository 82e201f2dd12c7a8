//! Writ: a durable agent runtime as one WebAssembly component.
//!
//! It writes down what it was asked before it says yes; an interrupted turn says so in its transcript; a repeated request
//! can't quietly become a different one. It reaches storage, models, tools and the clock only through the handles of
//! `wit/`, which a host injects into each call.
//!
//! An author of agents needs [`agent`] and [`export!`]. The rest is the runtime: arrows run downwards only, from
//! [`faces`] over [`admission`] and [`session`] to [`ports`]; only `component/` knows WIT.
// On wasm the default component has no std, so that it imports nothing but its handles. An author's component (without
// the feature `standalone`) brings std, and with it the allocator and the panic handler.
#![cfg_attr(all(target_family = "wasm", feature = "standalone"), no_std)]

extern crate alloc;
#[cfg(target_family = "wasm")]
extern crate self as writ;

pub mod admission;
pub mod agent;
pub mod approval;
pub mod audit;
mod auth;
pub mod canon;
#[cfg(target_family = "wasm")]
pub mod component;
pub mod delivery;
pub mod error;
pub mod explain;
pub mod faces;
pub mod follow;
pub mod id;
pub mod journal;
pub mod keys;
mod mutation;
pub mod notice;
mod owned;
pub mod pause;
pub mod ports;
mod prelude;
pub mod queue;
pub mod record;
pub mod run;
pub mod session;
pub mod store;
#[cfg(test)]
mod testing;
pub mod view;

/// Makes a component of agents that are functions. The name of a function is the name of its agent.
///
/// ```ignore
/// fn triage(cx: &mut writ::agent::Render) -> String {
///     cx.model("small");
///     "You sort what comes in.".into()
/// }
/// writ::export!(triage);
/// ```
///
/// The crate is a `cdylib` for `wasm32-wasip2` that depends on `writ` without default features. It may use std; a panic's
/// text goes to the host's log. `docs/agents.md` is the guide, `examples/triage` the example.
#[macro_export]
macro_rules! export {
    ($($agent:ident),+ $(,)?) => {
        // Natively there is nothing to export; the agents are type-checked all the same.
        #[cfg(not(target_family = "wasm"))]
        const _: $crate::agent::CodeAgents = $crate::agent::CodeAgents(&[$((stringify!($agent), $agent)),+]);
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Component;
            impl $crate::component::Exported for Component {
                type Agents = $crate::agent::CodeAgents;
                const AGENTS: Self::Agents = $crate::agent::CodeAgents(&[$((stringify!($agent), $agent)),+]);
            }
            $crate::component::export_component!(Component);
        };
    };
}
