//! Redactions: when and why the contents of items were erased.

use filrouge_types::{Channel, Item, Timestamp, replace_lone_surrogates};

use crate::part::{Kind, parts};

/// One redaction, read from the item that records it.
#[derive(Debug)]
pub(crate) struct Redaction {
    /// The items that lost their content, as ranges of a first and a last seq.
    seqs: Vec<(u64, u64)>,
    /// The time at which the content was erased.
    pub(crate) at: Timestamp,
    /// The reason that was given.
    pub(crate) reason: Option<String>,
    /// The seq of the item that records the redaction.
    pub(crate) seq: u64,
}

/// All redactions of a session.
#[derive(Debug)]
pub struct Redactions(Vec<Redaction>);

impl Redactions {
    /// Reads the redactions among the items outside turns. A `redaction` item within a turn was written by a caller, so
    /// it is no evidence of a redaction.
    pub fn from_items(loose: &[Item]) -> Self {
        let records = loose
            .iter()
            .filter(|i| i.body.channel == Channel::Redaction);
        Self(records.flat_map(parse_redactions).collect())
    }

    /// The first redaction that covers `seq`.
    pub(crate) fn covering(&self, seq: u64) -> Option<&Redaction> {
        let covers = |r: &&Redaction| {
            r.seqs
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&seq))
        };
        self.0.iter().find(covers)
    }
}

fn parse_redactions(item: &Item) -> Vec<Redaction> {
    let json = replace_lone_surrogates(item.body.parts.as_str());
    let redactions = parts(&json).into_iter().filter_map(|part| match part.kind {
        Kind::Redaction(part) => Some(Redaction {
            seqs: part.seqs,
            at: item.created_at,
            reason: part.reason,
            seq: item.seq,
        }),
        _ => None,
    });
    redactions.collect()
}
