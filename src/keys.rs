//! The names of all keys. Each begins with its partition, `p/<pp>`; the tables of docs/store.md say who may put which.

use crate::id::{Place, owner_tag, partition_of_id};
use crate::prelude::*;

/// The store's format record: a partition of its own.
pub const FORMAT: &str = "format";

/// The agents that are paused, of all owners: a partition and a guard of its own.
pub const PAUSED: &str = "paused";

/// Slots of a journal ring.
pub const RING: u64 = 20_000;

/// The admission guard **Q** of a partition.
pub fn queue(partition: u8) -> String {
    format!("p/{partition:02x}/queue")
}

/// A queue slot.
pub fn slot(partition: u8, n: u64) -> String {
    format!("p/{partition:02x}/queue/{n}")
}

/// A submission's record.
pub fn sub(id: &str) -> String {
    format!("p/{:02x}/sub/{id}", partition_of_id(id).unwrap_or_default())
}

/// Where maintenance moved a submission's slot to.
pub fn moved(id: &str) -> String {
    format!("{}/moved", sub(id))
}

/// A submission's delivery; gone once it has settled.
pub fn start(id: &str) -> String {
    format!("{}/start", sub(id))
}

/// The mark that a submission is to be cancelled.
pub fn cancel(id: &str) -> String {
    format!("{}/cancel", sub(id))
}

/// The answer to the question of a call; `call` is `<message>.<index>`.
pub fn answer(id: &str, call: &str) -> String {
    format!("{}/answer/{call}", sub(id))
}

/// The mark that a submission is paused.
pub fn pause(id: &str) -> String {
    format!("{}/pause", sub(id))
}

/// A notice about a submission that is not delivered to everybody yet.
pub fn notice(id: &str, subject: &str) -> String {
    format!("{}/notice/{subject}", sub(id))
}

/// To whom a notice about a submission was delivered.
pub fn sent(id: &str, subject: &str) -> String {
    format!("{}/sent/{subject}", sub(id))
}

/// A recorded step; `call` is `<message>.<index>`.
pub fn step(id: &str, call: &str, n: u16) -> String {
    format!("{}/step/{call}/{n}", sub(id))
}

/// A list of a partition: numbered entries that are only appended.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    /// The threads of an owner, in order of birth.
    Owner(&'a str),
    /// The tasks of an owner: its submissions of kind run that are no steering messages, in order of acceptance.
    Tasks(&'a str),
    /// All births, of whatever owner: what `audit` walks.
    Births,
    /// Submissions whose thread never came to be: copies that failed. Their records outlive it.
    Orphans,
    /// The owners that have a list here: what `audit` finds their lists by.
    Owners,
}

/// The head of a list.
pub fn list(partition: u8, list: List) -> String {
    match list {
        List::Owner(owner) => format!("p/{partition:02x}/idx/{}/threads", owner_tag(owner)),
        List::Tasks(owner) => format!("p/{partition:02x}/idx/{}/tasks", owner_tag(owner)),
        List::Births => format!("p/{partition:02x}/idx/births"),
        List::Orphans => format!("p/{partition:02x}/idx/orphans"),
        List::Owners => format!("p/{partition:02x}/idx/owners"),
    }
}

/// An entry of a list.
pub fn list_entry(partition: u8, of: List, n: u64) -> String {
    format!("{}/{n}", list(partition, of))
}

impl Place {
    /// The place that an instance's name (`p/<pp>/ses/<tag>`) stands for.
    pub fn parse(instance: &str) -> Option<Self> {
        let rest = instance.strip_prefix("p/")?;
        let (partition, tag) = rest.split_once("/ses/")?;
        let place = Self { partition: u8::from_str_radix(partition, 16).ok()?, tag: tag.to_owned() };
        (place.head() == instance && !tag.is_empty() && tag.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(place)
    }

    /// The session head **H**; also the instance's name towards the host.
    pub fn head(&self) -> String {
        format!("p/{:02x}/ses/{}", self.partition, self.tag)
    }

    /// The inbox's head.
    pub fn inbox(&self) -> String {
        format!("{}/in", self.head())
    }

    /// An entry of the inbox.
    pub fn entry(&self, k: u64) -> String {
        format!("{}/in/{k}", self.head())
    }

    /// A message, or the list of its parts.
    pub fn message(&self, n: u64) -> String {
        format!("{}/m/{n}", self.head())
    }

    /// A part of a message that is too large for one value.
    pub fn part(&self, n: u64, part: u32) -> String {
        format!("{}/m/{n}/{part}", self.head())
    }

    /// What the user says of the thread, and where it stands in lists.
    pub fn meta(&self) -> String {
        format!("{}/meta", self.head())
    }

    /// The journal's guard.
    pub fn journal(&self) -> String {
        format!("{}/j", self.head())
    }

    /// The slot of a journal number.
    pub fn ring(&self, n: u64) -> String {
        format!("{}/j/{}", self.head(), n % RING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_name_reads_back() {
        let place = Place { partition: 0x3f, tag: "abc".into() };
        assert_eq!(Place::parse(&place.head()), Some(place));
        for bad in ["", "p/3f/ses/", "p/3f/ses/a/in", "p/+f/ses/a", "p/3F/ses/a", "q/3f/ses/a"] {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }
}
