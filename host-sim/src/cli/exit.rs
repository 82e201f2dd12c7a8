//! Exit codes, in one place. `writ --help` prints [`TABLE`].

/// Done; for a submission: completed.
pub const DONE: u8 = 0;
/// It ran and the answer is no: the submission failed, a difference was found, an invariant is broken.
pub const FAILED: u8 = 1;
/// The command line makes no sense (clap's own code).
pub const USAGE: u8 = 2;
/// Refused: what was given is no good, or there is no such thing.
pub const REFUSED: u8 = 3;
/// A conflict: the same id with another request, or a state that forbids it.
pub const CONFLICT: u8 = 4;
/// The data folder can't be used.
pub const DATA: u8 = 5;
/// The host or the component is at fault.
pub const INTERNAL: u8 = 6;
/// The submission was aborted, or the command was interrupted.
pub const ABORTED: u8 = 130;

/// The table as the help shows it.
pub const TABLE: &str = "\
Exit codes:
    0  done; the submission completed
    1  the submission failed, a difference was found, or an invariant is broken
    2  usage: the command line makes no sense
    3  refused: bad input, too large, or no such thing
    4  conflict: the id names another request, or the state forbids it
    5  the data folder can't be used: in use, of a newer format, or corrupt
    6  the host or the component is at fault
  130  the submission was aborted, or the command was interrupted";

/// The exit code for an HTTP status of the component.
pub fn of_status(status: u16) -> u8 {
    match status {
        100..=399 => DONE,
        409 => CONFLICT,
        400..=499 => REFUSED,
        _ => INTERNAL,
    }
}

/// The exit code for the status of an outcome.
pub fn of_outcome(status: &str) -> u8 {
    match status {
        "completed" => DONE,
        "failed" => FAILED,
        "aborted" => ABORTED,
        _ => INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_code() {
        for (status, code) in [(200, DONE), (202, DONE), (404, REFUSED), (409, CONFLICT), (413, REFUSED)] {
            assert_eq!(of_status(status), code, "{status}");
        }
        for (status, code) in [(422, REFUSED), (429, REFUSED), (500, INTERNAL), (503, INTERNAL), (0, INTERNAL)] {
            assert_eq!(of_status(status), code, "{status}");
        }
    }

    #[test]
    fn the_table_names_every_code() {
        for code in [DONE, FAILED, USAGE, REFUSED, CONFLICT, DATA, INTERNAL, ABORTED] {
            assert!(TABLE.contains(&format!("{code:>5}  ")), "{code}");
        }
    }
}
