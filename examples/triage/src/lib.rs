//! An agent.
