//! Makes a failing plan small: fewer faults first, then earlier calls.

use super::plan::{Fault, Plan};

/// Most plans that are tried.
const TRIES_MAX: u32 = 300;

/// The smallest plan found that still fails. `fails` plays a plan.
pub fn shrink(plan: Plan, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut tries = 0;
    let mut try_it = |plan: &Plan| {
        tries += 1;
        tries <= TRIES_MAX && fails(plan)
    };
    let mut best = plan;
    while let Some(smaller) = without_one(&best).into_iter().find(&mut try_it) {
        best = smaller;
    }
    for at in 0..best.first.len() + best.recovery.len() {
        let calls = 0..fault(&mut best.clone(), at).call;
        let earlier = calls.map(|call| {
            let mut plan = best.clone();
            fault(&mut plan, at).call = call;
            plan
        });
        if let Some(smaller) = earlier.collect::<Vec<_>>().into_iter().find(&mut try_it) {
            best = smaller;
        }
    }
    best
}

fn without_one(plan: &Plan) -> Vec<Plan> {
    let mut smaller = Vec::new();
    for at in 0..plan.first.len() {
        let mut less = plan.clone();
        less.first.remove(at);
        // Without a kill in the first life there is no recovery; its faults may be what matters.
        if less.first.is_empty() && !less.recovery.is_empty() {
            less.first = std::mem::take(&mut less.recovery);
        }
        smaller.push(less);
    }
    for at in 0..plan.recovery.len() {
        let mut less = plan.clone();
        less.recovery.remove(at);
        smaller.push(less);
    }
    smaller
}

/// The fault at a place of both lists, which is there.
fn fault(plan: &mut Plan, at: usize) -> &mut Fault {
    let first = plan.first.len();
    if at < first { &mut plan.first[at] } else { &mut plan.recovery[at - first] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::plan::{Kind, StoreKind};

    fn plan(first: &[(u32, Kind)], recovery: &[(u32, Kind)]) -> Plan {
        let faults = |all: &[(u32, Kind)]| all.iter().map(|(call, kind)| Fault { call: *call, kind: *kind }).collect();
        let sound = Plan::sound("s", StoreKind::Memory, 1);
        Plan { first: faults(first), recovery: faults(recovery), ..sound }
    }

    #[test]
    fn the_fault_that_does_not_matter_goes_and_the_other_moves_to_the_front() {
        let start = plan(&[(9, Kind::KillAfter)], &[(7, Kind::Unanswered)]);
        let matters = |plan: &Plan| {
            plan.first.iter().chain(&plan.recovery).any(|fault| fault.kind == Kind::Unanswered && fault.call >= 5)
        };
        assert_eq!(shrink(start, matters), plan(&[(5, Kind::Unanswered)], &[]));
    }

    #[test]
    fn what_needs_both_keeps_both() {
        let start = plan(&[(3, Kind::KillAfter)], &[(2, Kind::KillAfter)]);
        let both = |plan: &Plan| plan.first.len() + plan.recovery.len() == 2;
        assert_eq!(shrink(start, both), plan(&[(0, Kind::KillAfter)], &[(0, Kind::KillAfter)]));
    }
}
