//! One write of a client, and what the client knows of its outcome.

use serde_json::{Value, json};

use crate::http::{CrashClient, CrashReply, NoAnswer};

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
    /// No answer arrived, or one that allows a retry.
    Unknown,
    /// The write is durable.
    Acked(Ack),
    /// The write did not happen.
    Rejected,
}

/// An acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ack {
    /// When the answer arrived, on the [`Clock`](crate::world::Clock).
    pub(crate) at: u64,
    /// Whether the answer is a replay.
    pub(crate) replayed: bool,
    pub(crate) turn_id: Option<String>,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

/// An item that a write creates: its channel and its text, which no other item of the test has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) channel: &'static str,
    pub(crate) item_id: Option<String>,
    pub(crate) text: String,
}

/// A write with a key, which makes retries safe.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) session: String,
    /// The turn that the write changes.
    pub(crate) turn: Option<String>,
    pub(crate) body: Value,
    /// The items that the write creates, in order.
    pub(crate) texts: Vec<Text>,
    /// When the write was first sent, on the same clock.
    pub(crate) sent: u64,
    pub(crate) outcome: Outcome,
}

impl Op {
    /// Sends the write, and waits for the answer.
    pub(crate) fn send(&self, client: &CrashClient) -> Result<CrashReply, NoAnswer> {
        client.post(&self.path(), &self.body)
    }

    fn path(&self) -> String {
        let session = format!("/api/v1/sessions/{}", self.session);
        let turn = self.turn.as_deref().unwrap_or_default();
        match self.kind {
            Kind::Create => "/api/v1/sessions".to_owned(),
            Kind::Start | Kind::Complete => format!("{session}/turns"),
            Kind::Append => format!("{session}/turns/{turn}/items"),
            Kind::Finalize => format!("{session}/turns/{turn}/finalize"),
            Kind::Fail => format!("{session}/turns/{turn}/fail"),
            Kind::Cancel => format!("{session}/turns/{turn}/cancel"),
            Kind::Replace => format!("{session}/turns/{turn}/replace"),
        }
    }

    /// Derives the outcome from the answer that arrived at `at`; returns whether the outcome is now known.
    pub(crate) fn apply_reply(&mut self, reply: &CrashReply, at: u64) -> bool {
        if reply.is_success() {
            assert_eq!(
                reply.durability.as_deref(),
                Some("flushed"),
                "{self:?}: {reply:?}"
            );
            self.outcome = Outcome::Acked(self.parse_ack(reply, at));
        } else if self.is_legitimate_refusal(reply) {
            self.outcome = Outcome::Rejected;
        } else {
            assert!(reply.status >= 500, "{self:?}: {reply:?}");
        }
        self.outcome != Outcome::Unknown
    }

    /// Returns whether the refusal is legitimate: another writer may have written since this writer's last answer.
    fn is_legitimate_refusal(&self, reply: &CrashReply) -> bool {
        reply.status == 409
            && reply.code() == "seq_conflict"
            && self.body.get("expected_seq").is_some()
    }

    /// Reads the acknowledgement in a successful answer.
    pub(crate) fn parse_ack(&self, reply: &CrashReply, at: u64) -> Ack {
        let expected = match self.kind {
            Kind::Finalize | Kind::Fail | Kind::Cancel => [200, 200],
            _ => [200, 201],
        };
        assert!(expected.contains(&reply.status), "{self:?}: {reply:?}");
        let seq = |name: &str| {
            reply.body[name]
                .as_u64()
                .unwrap_or_else(|| panic!("no {name}: {self:?}: {reply:?}"))
        };
        let replayed = reply.status == 200;
        let turn_id = reply.body["turn_id"].as_str().map(str::to_owned);
        let (first_seq, last_seq) = if self.kind == Kind::Create {
            (0, 0)
        } else {
            (seq("first_seq"), seq("last_seq"))
        };
        if matches!(self.kind, Kind::Start | Kind::Complete | Kind::Replace) {
            assert_eq!(
                reply.body["request_id"],
                json!(self.key),
                "{self:?}: {reply:?}"
            );
            assert_eq!(reply.body["differs"], json!(false), "{self:?}: {reply:?}");
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
            Kind::Start | Kind::Complete | Kind::Replace => self.acked()?.turn_id.as_deref(),
            _ => self.turn.as_deref(),
        }
    }

    /// Returns whether the answer to a retry agrees with the first answer.
    pub(crate) fn agrees_with(&self, replay: &Ack) -> bool {
        let Some(first) = self.acked() else {
            return false;
        };
        let same_place = first.first_seq == replay.first_seq && first.turn_id == replay.turn_id;
        replay.replayed
            && same_place
            && (self.kind != Kind::Append || first.last_seq == replay.last_seq)
    }
}
