//! Plans: at which host call which fault happens. A plan is one line of text, and one line is one run.

use std::fmt;
use std::str::FromStr;

use crate::engine::Import;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A minute passes before the call.
    Delay,
    /// A second host on the same store takes the work up at this moment, and both go on.
    DuplicateRun,
    /// The call is not made, and fails as its handle can; where it can't, the instance traps.
    FailBefore,
    /// The disk's next flush fails. redb only.
    FlushFails,
    /// The call is made, then the host dies.
    KillAfter,
    /// The host dies instead of the call.
    KillBefore,
    /// The disk has no space left during the call. redb only.
    NoSpace,
    /// The call is made, then the power fails: what was not flushed is gone. redb only.
    PowerLoss,
    /// The power fails within the commit, at its flush: any part of what was written is on the disk. redb only.
    Torn,
    /// The commit is applied, and answered `unknown`.
    Unanswered,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Delay,
        Self::DuplicateRun,
        Self::FailBefore,
        Self::FlushFails,
        Self::KillAfter,
        Self::KillBefore,
        Self::NoSpace,
        Self::PowerLoss,
        Self::Torn,
        Self::Unanswered,
    ];

    /// Its name in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::DuplicateRun => "duplicate-run",
            Self::FailBefore => "fail-before",
            Self::FlushFails => "flush-fails",
            Self::KillAfter => "kill-after",
            Self::KillBefore => "kill-before",
            Self::NoSpace => "no-space",
            Self::PowerLoss => "power-loss",
            Self::Torn => "torn",
            Self::Unanswered => "unanswered",
        }
    }

    /// Whether the host has to be started anew.
    pub fn kills(self) -> bool {
        matches!(self, Self::KillAfter | Self::KillBefore | Self::PowerLoss | Self::Torn)
    }

    /// Whether the kind needs a disk.
    pub fn needs_disk(self) -> bool {
        matches!(self, Self::FlushFails | Self::NoSpace | Self::PowerLoss | Self::Torn)
    }

    /// Whether it means something at a call of `import`, made by an instance for `export`, on a store.
    pub fn applies(self, import: Import, export: &str, store: StoreKind) -> bool {
        if self.needs_disk() && store != StoreKind::Redb {
            return false;
        }
        match self {
            Self::Delay | Self::FailBefore | Self::KillAfter | Self::KillBefore => true,
            Self::DuplicateRun => export == "run",
            Self::FlushFails | Self::NoSpace | Self::Torn | Self::Unanswered => import == Import::KvCommit,
            Self::PowerLoss => matches!(import, Import::KvCommit | Import::KvAppendLater),
        }
    }

    /// Whether it is put on top of another one. A kill before a call is the kill after the one before, and a delay or
    /// a second host is no crash.
    pub fn is_second(self) -> bool {
        matches!(self, Self::KillAfter | Self::Unanswered | Self::Torn)
    }
}

/// The store that a plan is played on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreKind {
    /// In memory.
    Memory,
    /// redb on a disk in memory that can fail.
    Redb,
}

impl StoreKind {
    /// Its name in plans and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redb => "redb",
        }
    }
}

impl FromStr for StoreKind {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        match text {
            "memory" => Ok(Self::Memory),
            "redb" => Ok(Self::Redb),
            _ => Err(PlanError(format!("there is no store {text:?}; known are memory and redb"))),
        }
    }
}

/// A fault at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The number of the call among all calls of this life of the host, from 0.
    pub call: u32,
    /// What happens there.
    pub kind: Kind,
}

/// Which faults happen when: one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// The store.
    pub store: StoreKind,
    /// What randomness and interleavings are drawn from.
    pub seed: u64,
    /// Faults in the first life of the host.
    pub first: Vec<Fault>,
    /// Faults in the life after the first kill.
    pub recovery: Vec<Fault>,
}

/// Why a text is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a plan: {0}")]
pub struct PlanError(pub String);

impl Plan {
    /// The plan without a fault.
    pub fn sound(scenario: &str, store: StoreKind, seed: u64) -> Self {
        Self { scenario: scenario.to_owned(), store, seed, first: Vec::new(), recovery: Vec::new() }
    }

    /// The same with one more fault in the first life.
    #[must_use]
    pub fn then(&self, fault: Fault) -> Self {
        let mut plan = self.clone();
        plan.first.push(fault);
        plan
    }

    /// The same with one more fault in the recovery.
    #[must_use]
    pub fn then_in_recovery(&self, fault: Fault) -> Self {
        let mut plan = self.clone();
        plan.recovery.push(fault);
        plan
    }

    /// Fewer faults first, then earlier calls.
    pub fn size(&self) -> (usize, u64) {
        let faults = self.first.iter().chain(&self.recovery);
        (faults.clone().count(), faults.map(|fault| u64::from(fault.call)).sum())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} seed={}", self.scenario, self.store.name(), self.seed)?;
        for (name, faults) in [("first", &self.first), ("recovery", &self.recovery)] {
            let shown: Vec<String> = faults.iter().map(|f| format!("{}:{}", f.call, f.kind.name())).collect();
            if !shown.is_empty() {
                write!(f, " {name}={}", shown.join(","))?;
            }
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut words = text.split_whitespace();
        let (Some(scenario), Some(store)) = (words.next(), words.next()) else {
            return Err(PlanError("a line is due like `plain-turn memory seed=1 first=12:kill-after`".into()));
        };
        let mut plan = Self::sound(scenario, store.parse()?, 1);
        let mut seen = Vec::new();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if seen.contains(&name) {
                return Err(PlanError(format!("`{name}` stands there twice")));
            }
            seen.push(name);
            match name {
                "seed" => {
                    plan.seed = value.parse().map_err(|_| PlanError(format!("`{word}`: a seed is a whole number")))?;
                }
                "first" => plan.first = faults(value)?,
                "recovery" => plan.recovery = faults(value)?,
                _ => return Err(PlanError(format!("`{word}`: known are `seed=`, `first=` and `recovery=`"))),
            }
        }
        let disk = plan.first.iter().chain(&plan.recovery).find(|fault| fault.kind.needs_disk());
        match disk {
            Some(fault) if plan.store != StoreKind::Redb => {
                Err(PlanError(format!("`{}` needs a disk: only the store redb has one", fault.kind.name())))
            }
            _ => Ok(plan),
        }
    }
}

fn faults(text: &str) -> Result<Vec<Fault>, PlanError> {
    let fault = |text: &str| {
        let known = || Kind::ALL.map(Kind::name).join(", ");
        let (call, kind) = text
            .split_once(':')
            .ok_or_else(|| PlanError(format!("`{text}`: a fault is `<call>:<kind>`, and the kinds are {}", known())))?;
        let call = call.parse().map_err(|_| PlanError(format!("`{text}`: {call:?} is no number of a call")))?;
        let found = Kind::ALL.into_iter().find(|known| known.name() == kind);
        let kind = found.ok_or_else(|| PlanError(format!("there is no kind {kind:?}; known are {}", known())))?;
        Ok(Fault { call, kind })
    };
    text.split(',').map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_plan_and_a_plan_is_a_line() {
        for line in [
            "plain-turn memory seed=1",
            "one-tool redb seed=7 first=12:kill-after",
            "mine redb seed=18446744073709551615 first=1:unanswered,2:torn recovery=0:power-loss,9:no-space",
            "mine memory seed=0 recovery=3:fail-before",
        ] {
            let plan: Plan = line.parse().unwrap();
            assert_eq!(plan.to_string(), line);
        }
        for kind in Kind::ALL {
            let plan = Plan::sound("s", StoreKind::Redb, 3).then(Fault { call: 4, kind });
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
    }

    #[test]
    fn a_bad_line_says_what_is_allowed() {
        for (line, named) in [
            ("", "plain-turn memory"),
            ("s", "plain-turn memory"),
            ("s disk", "memory and redb"),
            ("s memory seed=x", "whole number"),
            ("s memory first=3", "<call>:<kind>"),
            ("s memory first=x:kill-after", "no number"),
            ("s memory first=3:explode", "duplicate-run"),
            ("s memory first=3:torn", "only the store redb"),
            ("s memory second=3:delay", "`first=`"),
            ("s memory seed=1 seed=2", "twice"),
        ] {
            let error = line.parse::<Plan>().unwrap_err().to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
