//! What the client of a scenario does, one step after the other.

use serde::Deserialize;

/// What the client does.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "act", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Answers a call, once it waits; nothing when the submission has its outcome before.
    Answer {
        /// The submission's key.
        key: String,
        /// The tool: the first call of it that waits is meant.
        tool: String,
        /// `approve` or `deny`.
        decision: String,
    },
    /// Cancels a submission.
    Cancel {
        /// Its key.
        key: String,
    },
    /// Deletes a thread.
    Delete {
        /// Its name.
        #[serde(default = "thread")]
        thread: String,
        /// The agent.
        #[serde(default = "agent")]
        agent: String,
    },
    /// Copies a thread.
    Fork {
        /// The key of the copy.
        key: String,
        /// The source.
        #[serde(default = "thread")]
        thread: String,
        /// The agent.
        #[serde(default = "agent")]
        agent: String,
        /// The name of the copy.
        to: String,
        /// How many messages; without it, all.
        at: Option<u64>,
    },
    /// Imports a thread of made-up messages.
    Import {
        /// The key of the import.
        key: String,
        /// The thread.
        #[serde(default = "thread")]
        thread: String,
        /// The agent.
        #[serde(default = "agent")]
        agent: String,
        /// How many messages.
        messages: u64,
    },
    /// Time passes, while others work.
    Pass {
        /// Milliseconds.
        ms: u64,
    },
    /// Pauses a submission.
    Pause {
        /// Its key.
        key: String,
    },
    /// Resumes a submission.
    Resume {
        /// Its key.
        key: String,
    },
    /// Submits a message.
    Submit {
        /// The key.
        key: String,
        /// The thread.
        #[serde(default = "thread")]
        thread: String,
        /// The agent.
        #[serde(default = "agent")]
        agent: String,
        /// The message.
        message: String,
        /// Deliver it into the running turn.
        #[serde(default)]
        steer: bool,
        /// Its deadline, in milliseconds.
        deadline_ms: Option<u64>,
        /// JSON Schema of the result, as JSON text.
        result_schema: Option<String>,
    },
    /// Waits until nothing is left to do.
    Wait {},
}

fn thread() -> String {
    "t".into()
}

fn agent() -> String {
    "helper".into()
}
