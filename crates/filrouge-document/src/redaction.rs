//! When and why items lost their content.

use filrouge_types::{Channel, Item, Timestamp, sound_json};

use crate::part::{Kind, parts};

/// One redaction, as its item tells it.
#[derive(Debug)]
pub(crate) struct Redaction {
    seqs: Vec<(u64, u64)>,
    /// When.
    pub(crate) at: Timestamp,
    /// Why.
    pub(crate) reason: Option<String>,
    /// The seq of the item that tells it.
    pub(crate) seq: u64,
}

/// All redactions of a document.
#[derive(Debug)]
pub(crate) struct Redactions(Vec<Redaction>);

impl Redactions {
    /// Reads those among the items of no turn: what a caller has written into a turn on that channel says nothing.
    pub(crate) fn of(loose: &[Item]) -> Self {
        let told = loose
            .iter()
            .filter(|i| i.body.channel == Channel::Redaction);
        Self(told.flat_map(read).collect())
    }

    /// The one that names `seq`.
    pub(crate) fn naming(&self, seq: u64) -> Option<&Redaction> {
        let covers = |r: &&Redaction| {
            r.seqs
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&seq))
        };
        self.0.iter().find(covers)
    }
}

fn read(item: &Item) -> Vec<Redaction> {
    let json = sound_json(item.body.parts.as_str());
    let redaction = |kind| match kind {
        Kind::Redaction { seqs, reason, .. } => Some(Redaction {
            seqs,
            at: item.created_at,
            reason,
            seq: item.seq,
        }),
        _ => None,
    };
    parts(&json)
        .into_iter()
        .filter_map(|p| redaction(p.kind))
        .collect()
}
