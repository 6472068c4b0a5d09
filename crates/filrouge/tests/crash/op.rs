//! One write of a client, and what the client knows of its outcome.

use serde_json::{Value, json};

use crate::http::{CrashClient, CrashResponse, NoResponse};

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// Creates a session.
    Create,
    /// Starts a turn.
    Start,
    /// Writes a complete, finalized turn in one call.
    Complete,
    Append,
    Finalize,
    Fail,
    Cancel,
    Replace,
}

/// The outcome of a write, as far as the client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No response arrived, or one that allows a retry.
    Unknown,
    /// The write is durable.
    Acked(Ack),
    /// The write did not happen.
    Rejected,
}

/// An acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ack {
    /// When the response arrived, on the [`Clock`](crate::world::Clock).
    pub(crate) at: u64,
    /// Whether the response is a replay.
    pub(crate) replayed: bool,
    pub(crate) turn_id: Option<String>,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

/// An item that a write creates: its channel and its text, which no other item of the test has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemText {
    pub(crate) channel: &'static str,
    pub(crate) item_id: Option<String>,
    pub(crate) text: String,
}

/// A write with a key, which makes retries safe.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) kind: WriteKind,
    pub(crate) key: String,
    pub(crate) session: String,
    /// The turn that the write changes.
    pub(crate) turn: Option<String>,
    pub(crate) body: Value,
    /// The items that the write creates, in order.
    pub(crate) texts: Vec<ItemText>,
    /// When the write was first sent, on the same clock.
    pub(crate) sent: u64,
    pub(crate) outcome: Outcome,
}

impl Op {
    /// Sends the write, and waits for the response.
    pub(crate) fn send(&self, client: &CrashClient) -> Result<CrashResponse, NoResponse> {
        client.post(&self.path(), &self.body)
    }

    fn path(&self) -> String {
        let session = format!("/api/v1/sessions/{}", self.session);
        let turn = self.turn.as_deref().unwrap_or_default();
        match self.kind {
            WriteKind::Create => "/api/v1/sessions".to_owned(),
            WriteKind::Start | WriteKind::Complete => format!("{session}/turns"),
            WriteKind::Append => format!("{session}/turns/{turn}/items"),
            WriteKind::Finalize => format!("{session}/turns/{turn}/finalize"),
            WriteKind::Fail => format!("{session}/turns/{turn}/fail"),
            WriteKind::Cancel => format!("{session}/turns/{turn}/cancel"),
            WriteKind::Replace => format!("{session}/turns/{turn}/replace"),
        }
    }

    /// Derives the outcome from the response that arrived at `at`; returns whether the outcome is now known.
    pub(crate) fn apply_response(&mut self, response: &CrashResponse, at: u64) -> bool {
        if response.is_success() {
            assert_eq!(
                response.durability.as_deref(),
                Some("flushed"),
                "{self:?}: {response:?}"
            );
            self.outcome = Outcome::Acked(self.parse_ack(response, at));
        } else if self.is_legitimate_refusal(response) {
            self.outcome = Outcome::Rejected;
        } else {
            assert!(response.status >= 500, "{self:?}: {response:?}");
        }
        self.outcome != Outcome::Unknown
    }

    /// Returns whether the refusal is legitimate: another writer may have written since this writer's last response.
    fn is_legitimate_refusal(&self, response: &CrashResponse) -> bool {
        response.status == 409
            && response.code() == "seq_conflict"
            && self.body.get("expected_seq").is_some()
    }

    /// Reads the acknowledgement in a successful response.
    pub(crate) fn parse_ack(&self, response: &CrashResponse, at: u64) -> Ack {
        let expected = match self.kind {
            WriteKind::Finalize | WriteKind::Fail | WriteKind::Cancel => [200, 200],
            _ => [200, 201],
        };
        assert!(
            expected.contains(&response.status),
            "{self:?}: {response:?}"
        );
        let seq = |name: &str| {
            response.body[name]
                .as_u64()
                .unwrap_or_else(|| panic!("no {name}: {self:?}: {response:?}"))
        };
        let replayed = response.status == 200;
        let turn_id = response.body["turn_id"].as_str().map(str::to_owned);
        let (first_seq, last_seq) = if self.kind == WriteKind::Create {
            (0, 0)
        } else {
            (seq("first_seq"), seq("last_seq"))
        };
        if matches!(
            self.kind,
            WriteKind::Start | WriteKind::Complete | WriteKind::Replace
        ) {
            assert_eq!(
                response.body["request_id"],
                json!(self.key),
                "{self:?}: {response:?}"
            );
            assert_eq!(
                response.body["differs"],
                json!(false),
                "{self:?}: {response:?}"
            );
        }
        Ack {
            at,
            replayed,
            turn_id,
            first_seq,
            last_seq,
        }
    }

    /// Returns the acknowledgement, if one arrived.
    pub(crate) fn acked(&self) -> Option<&Ack> {
        match &self.outcome {
            Outcome::Acked(ack) => Some(ack),
            Outcome::Unknown | Outcome::Rejected => None,
        }
    }

    /// Returns the id of the turn that the write started or changed.
    pub(crate) fn turn_id(&self) -> Option<&str> {
        match self.kind {
            WriteKind::Start | WriteKind::Complete | WriteKind::Replace => {
                self.acked()?.turn_id.as_deref()
            }
            _ => self.turn.as_deref(),
        }
    }

    /// Returns whether the response to a retry agrees with the first response.
    pub(crate) fn agrees_with(&self, replay: &Ack) -> bool {
        let Some(first) = self.acked() else {
            return false;
        };
        let same_place = first.first_seq == replay.first_seq && first.turn_id == replay.turn_id;
        replay.replayed
            && same_place
            && (self.kind != WriteKind::Append || first.last_seq == replay.last_seq)
    }
}
