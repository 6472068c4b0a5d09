//! The ledger's turns in the form that exports are made of.

use filrouge_types::{Channel, Item, ItemBody, RawJson, Turn, TurnStatus};

use super::parts::REDACTED;
use super::rows::Origin;
use crate::{ForeignSession, ForeignTurn, LoadedSession, Outcome};

/// The session with its turns, of replaced ones the newest version; what was redacted says so.
pub(super) fn of(read: filrouge_engine::Conversation) -> LoadedSession {
    let origin = Origin::of(&read.session);
    let turns = read.turns.iter();
    let turns = turns.filter(|(turn, _)| turn.replaced_by_turn_id.is_none());
    let turns = turns.map(|(turn, items)| one(turn, items)).collect();
    let session = read.session;
    LoadedSession {
        session: ForeignSession {
            id: session.session_id,
            parent_id: session.parent_session_id,
            project_id: session.project_id,
            project_name: None,
            worktree: None,
            directory: None,
            title: session.title,
            agent: None,
            version: origin.version,
            created: session.created_at,
            updated: session.updated_at,
            archived: None,
            metadata: session.metadata,
        },
        turns,
        skipped: Vec::new(),
    }
}

fn one(turn: &Turn, items: &[Item]) -> ForeignTurn {
    let asked = items
        .iter()
        .take_while(|item| item.body.channel == Channel::Question);
    let (question, answers) = items.split_at(asked.count());
    ForeignTurn {
        request_id: turn.request_id.clone(),
        question: question.iter().map(shown).collect(),
        items: answers.iter().map(shown).collect(),
        outcome: outcome(turn),
        created: turn.created_at,
        metadata: turn.metadata.clone(),
    }
}

fn shown(item: &Item) -> ItemBody {
    let mut new = item.body.clone();
    new.occurred_at = Some(item.when());
    if item.redacted {
        let text = format!(r#"[{{"type":"text","text":"{REDACTED}"}}]"#);
        new.parts = RawJson::from_checked(text);
    }
    new
}

fn outcome(turn: &Turn) -> Outcome {
    match turn.status {
        TurnStatus::Finalized => Outcome::Finalized,
        TurnStatus::Cancelled => Outcome::Cancelled,
        TurnStatus::Open | TurnStatus::Interrupted => Outcome::Unanswered,
        // What it failed of is among its items.
        TurnStatus::Failed => Outcome::Failed {
            code: "failed".into(),
            message: "the turn failed".into(),
            retryable: false,
        },
    }
}
