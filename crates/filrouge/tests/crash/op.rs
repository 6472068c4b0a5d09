//! One write of a client, and its known outcome.

use serde_json::{Value, json};

use crate::http::{CrashClient, CrashReply, NoAnswer};

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Creates a session.
    Create,
    /// Starts a turn.
    Start,
    /// Writes a complete finished turn.
    Whole,
    Append,
    Finalize,
    Fail,
    Cancel,
    Replace,
}

/// The outcome of a write, as far as the client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No answer, or one that allows a retry.
    Unknown,
    /// The write is durable.
    Acked(Reported),
    /// The write did not happen.
    Rejected,
}

/// The facts of an acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reported {
    /// The time at which the answer arrived.
    pub(crate) at: u64,
    /// Whether it repeats an answer that may have been lost.
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

/// A write with a stable key: it can be retried safely.
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
    /// The time at which the write was first sent.
    pub(crate) sent: u64,
    pub(crate) outcome: Outcome,
}

impl Op {
    /// Sends the write; returns the answer, if one arrives.
    pub(crate) fn send(&self, client: &CrashClient) -> Result<CrashReply, NoAnswer> {
        client.post(&self.path(), &self.body)
    }

    fn path(&self) -> String {
        let session = format!("/api/v1/sessions/{}", self.session);
        let turn = self.turn.as_deref().unwrap_or_default();
        match self.kind {
            Kind::Create => "/api/v1/sessions".to_owned(),
            Kind::Start | Kind::Whole => format!("{session}/turns"),
            Kind::Append => format!("{session}/turns/{turn}/items"),
            Kind::Finalize => format!("{session}/turns/{turn}/finalize"),
            Kind::Fail => format!("{session}/turns/{turn}/fail"),
            Kind::Cancel => format!("{session}/turns/{turn}/cancel"),
            Kind::Replace => format!("{session}/turns/{turn}/replace"),
        }
    }

    /// Processes the answer that arrived at `at`; returns whether it settles the outcome.
    pub(crate) fn take(&mut self, reply: &CrashReply, at: u64) -> bool {
        if reply.is_success() {
            assert_eq!(
                reply.durability.as_deref(),
                Some("flushed"),
                "{self:?}: {reply:?}"
            );
            self.outcome = Outcome::Acked(self.reported(reply, at));
        } else if self.may_be_refused(reply) {
            self.outcome = Outcome::Rejected;
        } else {
            assert!(reply.status >= 500, "{self:?}: {reply:?}");
        }
        self.outcome != Outcome::Unknown
    }

    /// Whether the refusal is legitimate: another writer may have written since this client read.
    fn may_be_refused(&self, reply: &CrashReply) -> bool {
        reply.status == 409
            && reply.code() == "seq_conflict"
            && self.body.get("expected_seq").is_some()
    }

    /// The facts of a successful answer.
    pub(crate) fn reported(&self, reply: &CrashReply, at: u64) -> Reported {
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
        if matches!(self.kind, Kind::Start | Kind::Whole | Kind::Replace) {
            assert_eq!(
                reply.body["request_id"],
                json!(self.key),
                "{self:?}: {reply:?}"
            );
            assert_eq!(reply.body["differs"], json!(false), "{self:?}: {reply:?}");
        }
        Reported {
            at,
            replayed,
            turn_id,
            first_seq,
            last_seq,
        }
    }

    /// The facts of the acknowledgement, if one arrived.
    pub(crate) fn acked(&self) -> Option<&Reported> {
        match &self.outcome {
            Outcome::Acked(reported) => Some(reported),
            Outcome::Unknown | Outcome::Rejected => None,
        }
    }

    /// The turn that the write started or changed.
    pub(crate) fn turn_id(&self) -> Option<&str> {
        match self.kind {
            Kind::Start | Kind::Whole | Kind::Replace => self.acked()?.turn_id.as_deref(),
            _ => self.turn.as_deref(),
        }
    }

    /// Whether the answer to a retry equals the first one.
    pub(crate) fn agrees(&self, again: &Reported) -> bool {
        let Some(first) = self.acked() else {
            return false;
        };
        let same_place = first.first_seq == again.first_seq && first.turn_id == again.turn_id;
        again.replayed
            && same_place
            && (self.kind != Kind::Append || first.last_seq == again.last_seq)
    }
}
