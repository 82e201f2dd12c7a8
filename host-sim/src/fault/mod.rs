//! Crash it everywhere: faults at every call that a component makes of its host, and what must hold after each.
//!
//! A [`Scenario`] is a script with a client; a [`Plan`] says at which host call which [`Kind`] of fault happens, in the
//! first life of a host and in its recovery. [`play`](play::play) plays one and judges it; [`matrix`] enumerates them.
//! One plan with one seed is one run: the clock is virtual, the runtime has one thread, and randomness is drawn from the
//! seed. docs/proof.md says what is proven.

mod client;
mod disk;
pub mod effects;
mod inline;
mod judge;
mod life;
pub mod matrix;
mod order;
pub mod plan;
pub mod play;
pub mod scenario;
pub mod shrink;
mod step;
pub mod trace;
mod world;

pub use plan::{Fault, Kind, Plan, PlanError, StoreKind};
pub use play::{Played, Stage};
pub use scenario::{Scenario, ScenarioError};
pub use world::Twist;

/// What was found to be wrong after a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `I1` to `I16`, or one of the promises beyond them: `answer`, `baseline`, `effects`, `leak`, `liveness`, `order`,
    /// `outcome`, `retry`.
    pub invariant: String,
    /// What is wrong.
    pub text: String,
}

impl Finding {
    pub(crate) fn new(invariant: impl Into<String>, text: impl Into<String>) -> Self {
        Self { invariant: invariant.into(), text: text.into() }
    }
}
