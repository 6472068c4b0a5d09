//! Compares the server's responses with the writes that clients sent. Every acknowledged write must be shown exactly
//! once, at the acknowledged seq and in order. Nothing of a rejected write may be shown, and nothing that no client
//! wrote.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::http::{CrashClient, CrashResponse, NoResponse};
use crate::op::{Ack, Op, Outcome, WriteKind};

/// Channels of items that the server itself writes when a turn changes.
const SERVER_CHANNELS: [&str; 4] = ["cancelled", "interrupted", "link", "system_note"];

/// Compares the server's responses with these writes. All outcomes must be known, and the writes of each writer in
/// order.
pub(crate) fn check<'a>(client: &CrashClient, ops: impl Iterator<Item = &'a Op>) {
    let mut sessions: BTreeMap<&str, Vec<&Op>> = BTreeMap::new();
    for op in ops {
        assert_ne!(
            op.outcome,
            Outcome::Unknown,
            "the outcome is unknown: {op:?}"
        );
        sessions.entry(&op.session).or_default().push(op);
    }
    for (id, ops) in sessions {
        if ops.iter().any(|op| op.acked().is_some()) {
            Session::read(client, id, ops).check();
        }
    }
}

/// Returns the number of acknowledged writes that are missing, completely or in part.
pub(crate) fn count_lost<'a>(client: &CrashClient, ops: impl Iterator<Item = &'a Op>) -> usize {
    let mut texts: HashMap<&str, BTreeSet<String>> = HashMap::new();
    ops.filter(|op| op.acked().is_some())
        .filter(|op| {
            let present = texts.entry(&op.session).or_insert_with(|| {
                let path = format!("/api/v1/sessions/{}", op.session);
                let items = try_items(client, &path).unwrap_or_default();
                items
                    .iter()
                    .filter_map(text_of)
                    .map(str::to_owned)
                    .collect()
            });
            op.texts.iter().any(|t| !present.contains(&t.text))
        })
        .count()
}

/// A session as the server shows it, and the writes to it.
struct Session<'a> {
    header: Value,
    /// All items; item `n` has seq `n + 1`.
    items: Vec<Value>,
    turns: HashMap<String, Value>,
    verify: Value,
    ops: Vec<&'a Op>,
}

/// The expected state of a turn.
struct ExpectedTurn<'a> {
    request_id: &'a str,
    question: &'a str,
    status: &'static str,
    /// The last answer that was written.
    answer: Option<&'a str>,
    replaced_by: Option<&'a str>,
    replaces: Option<&'a str>,
}

impl<'a> Session<'a> {
    fn read(client: &CrashClient, id: &str, ops: Vec<&'a Op>) -> Self {
        let path = format!("/api/v1/sessions/{id}");
        let turns = read_turns(client, &path);
        let header = client.get(&path);
        Self {
            header,
            items: read_items(client, &path),
            turns,
            verify: client.get(&format!("{path}/verify")),
            ops,
        }
    }

    fn check(&self) {
        assert_eq!(
            self.verify["status"], "intact",
            "{}: {}",
            self.header, self.verify
        );
        assert_eq!(
            self.header["last_seq"],
            json!(self.items.len()),
            "{}",
            self.header
        );
        let seqs_by_text = self.seqs_by_text();
        self.check_server_items(&seqs_by_text);
        for op in &self.ops {
            match op.acked() {
                Some(ack) => self.check_acked(op, ack, &seqs_by_text),
                None => assert!(
                    op.texts
                        .iter()
                        .all(|t| !seqs_by_text.contains_key(t.text.as_str())),
                    "a text of a rejected write is shown: {op:?}"
                ),
            }
        }
        self.check_order(&seqs_by_text);
        self.check_turns();
    }

    /// Returns the seq of every text; fails if a text occurs twice.
    fn seqs_by_text(&self) -> HashMap<&str, u64> {
        let mut seqs_by_text = HashMap::new();
        for (seq, item) in (1..).zip(&self.items) {
            assert_eq!(item["seq"], json!(seq), "{item}");
            if let Some(text) = text_of(item)
                && let Some(before) = seqs_by_text.insert(text, seq)
            {
                panic!("the text occurs twice, at seq {before} and {seq}: {item}");
            }
        }
        seqs_by_text
    }

    /// Checks that the server itself wrote every item that no client wrote, because a turn changed.
    fn check_server_items(&self, seqs_by_text: &HashMap<&str, u64>) {
        let by_clients: BTreeSet<u64> = self
            .ops
            .iter()
            .flat_map(|op| &op.texts)
            .filter_map(|t| seqs_by_text.get(t.text.as_str()).copied())
            .collect();
        for (seq, item) in (1..)
            .zip(&self.items)
            .filter(|(seq, _)| !by_clients.contains(seq))
        {
            let by_server = item["channel"]
                .as_str()
                .is_some_and(|c| SERVER_CHANNELS.contains(&c));
            let known_turn = item["turn_id"]
                .as_str()
                .is_some_and(|t| self.turns.contains_key(t));
            assert!(
                by_server && known_turn,
                "neither a client nor the server wrote seq {seq}: {item}"
            );
        }
    }

    fn check_acked(&self, op: &Op, ack: &Ack, seqs_by_text: &HashMap<&str, u64>) {
        let mut seqs = Vec::new();
        for text in &op.texts {
            let seq = *seqs_by_text
                .get(text.text.as_str())
                .unwrap_or_else(|| panic!("the acknowledged {text:?} is lost: {op:?}"));
            let item = &self.items[usize::try_from(seq - 1).expect("a seq")];
            assert_eq!(item["channel"], text.channel, "{item} of {op:?}");
            assert_eq!(item["turn_id"].as_str(), op.turn_id(), "{item} of {op:?}");
            if text.item_id.is_some() {
                assert_eq!(
                    item["item_id"].as_str(),
                    text.item_id.as_deref(),
                    "{item} of {op:?}"
                );
            }
            seqs.push(seq);
        }
        let [Some(first), Some(last)] = [seqs.first(), seqs.last()] else {
            return;
        };
        assert!(
            seqs.windows(2).all(|w| w[0] + 1 == w[1]),
            "the items of one write are not adjacent or not in order: seqs {seqs:?} of {op:?}"
        );
        match op.kind {
            WriteKind::Finalize | WriteKind::Fail | WriteKind::Cancel => {
                assert!(*last <= ack.last_seq, "seqs {seqs:?} of {op:?}");
            }
            WriteKind::Append => {
                assert_eq!((*first, *last), (ack.first_seq, ack.last_seq), "{op:?}");
            }
            // The last seq of a replay may include later items.
            _ if ack.replayed => assert_eq!(*first, ack.first_seq, "{op:?}"),
            _ => assert_eq!((*first, *last), (ack.first_seq, ack.last_seq), "{op:?}"),
        }
    }

    /// Checks that a write that was sent after an acknowledgement has greater seqs than the acknowledged write.
    fn check_order(&self, seqs_by_text: &HashMap<&str, u64>) {
        let seqs = |op: &Op| -> Vec<u64> {
            op.texts
                .iter()
                .filter_map(|t| seqs_by_text.get(t.text.as_str()).copied())
                .collect()
        };
        let mut acknowledgements: Vec<(u64, u64)> = self
            .ops
            .iter()
            .filter_map(|op| Some((op.acked()?.at, seqs(op).into_iter().max()?)))
            .collect();
        acknowledgements.sort_unstable();
        let mut by_sending: Vec<(u64, u64, &Op)> = self
            .ops
            .iter()
            .filter_map(|op| Some((op.sent, seqs(op).into_iter().min()?, *op)))
            .collect();
        by_sending.sort_unstable_by_key(|(sent, _, _)| *sent);
        let mut earlier_acknowledgements = acknowledgements.into_iter().peekable();
        let mut newest = 0;
        for (sent, seq, op) in by_sending {
            while let Some((_, last)) = earlier_acknowledgements.next_if(|(at, _)| *at < sent) {
                newest = newest.max(last);
            }
            assert!(
                seq > newest,
                "at seq {seq}, although seq {newest} was acknowledged before it was sent: {op:?}"
            );
        }
    }

    fn check_turns(&self) {
        let expected = self.expected_turns();
        for id in self.turns.keys() {
            assert!(
                expected.contains_key(id.as_str()),
                "no client started turn {id} of {}",
                self.header
            );
        }
        let mut ordinals = BTreeSet::new();
        for (id, expected) in &expected {
            let turn = self
                .turns
                .get(*id)
                .unwrap_or_else(|| panic!("turn {id} of {} is lost", self.header));
            assert_eq!(turn["request_id"], expected.request_id, "{turn}");
            assert_eq!(turn["status"], expected.status, "{turn}");
            assert_eq!(turn["question_neutral"], expected.question, "{turn}");
            if expected.status == "finalized" {
                assert_eq!(turn["answer_neutral"].as_str(), expected.answer, "{turn}");
            }
            assert_eq!(
                turn["replaced_by_turn_id"].as_str(),
                expected.replaced_by,
                "{turn}"
            );
            if let Some(old) = expected.replaces.map(|old| &self.turns[old]) {
                assert_eq!(turn["ordinal"], old["ordinal"], "{turn} replaces {old}");
                assert_eq!(
                    turn["record_version"].as_u64(),
                    old["record_version"].as_u64().map(|v| v + 1),
                    "{turn}"
                );
            } else {
                assert_eq!(turn["record_version"], json!(1), "{turn}");
                assert!(
                    ordinals.insert(turn["ordinal"].as_u64()),
                    "two turns have one ordinal: {turn}"
                );
            }
        }
        assert!(
            (1..).zip(&ordinals).all(|(n, o)| Some(n) == *o),
            "the ordinals are not dense: {ordinals:?}"
        );
        let count = self.header["turn_count"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok());
        assert!(
            count.is_some_and(|n| n >= ordinals.len() && n <= expected.len()),
            "wrong turn_count: {}",
            self.header
        );
    }

    /// Computes the turns that the acknowledged writes produced.
    fn expected_turns(&self) -> HashMap<&'a str, ExpectedTurn<'a>> {
        let mut turns: HashMap<&str, ExpectedTurn<'_>> = HashMap::new();
        for op in self.ops.iter().filter(|op| op.acked().is_some()) {
            let Some(id) = op.turn_id() else {
                assert_eq!(self.header["title"], op.body["title"], "{op:?}");
                continue;
            };
            let answer = op
                .texts
                .iter()
                .rfind(|t| t.channel == "final")
                .map(|t| t.text.as_str());
            if let WriteKind::Start | WriteKind::Complete | WriteKind::Replace = op.kind {
                let status = if op.kind == WriteKind::Start {
                    "open"
                } else {
                    "finalized"
                };
                let (question, replaces) = (op.texts[0].text.as_str(), op.turn.as_deref());
                let turn = ExpectedTurn {
                    request_id: &op.key,
                    question,
                    status,
                    answer,
                    replaced_by: None,
                    replaces,
                };
                assert!(
                    turns.insert(id, turn).is_none(),
                    "two turns have one id: {op:?}"
                );
                if let Some(old) = replaces {
                    turns
                        .get_mut(old)
                        .expect("a writer replaces its own turns")
                        .replaced_by = Some(id);
                }
                continue;
            }
            let turn = turns.get_mut(id).expect("a writer writes to its own turns");
            turn.answer = answer.or(turn.answer);
            match op.kind {
                WriteKind::Finalize => turn.status = "finalized",
                WriteKind::Fail => turn.status = "failed",
                WriteKind::Cancel => turn.status = "cancelled",
                _ => {}
            }
        }
        turns
    }
}

/// Returns the first text of an item, or the message of an error.
fn text_of(item: &Value) -> Option<&str> {
    let parts = item["parts"].as_array()?;
    parts
        .iter()
        .find_map(|part| part["text"].as_str().or_else(|| part["message"].as_str()))
}

fn read_items(client: &CrashClient, session: &str) -> Vec<Value> {
    try_items(client, session).unwrap_or_else(|response| panic!("{session}/items: {response:?}"))
}

/// Reads all items; returns the failed response if a page cannot be read.
fn try_items(
    client: &CrashClient,
    session: &str,
) -> Result<Vec<Value>, Result<CrashResponse, NoResponse>> {
    let mut items: Vec<Value> = Vec::new();
    loop {
        let after = items.last().map_or(0, |item| {
            item["seq"]
                .as_u64()
                .unwrap_or_else(|| panic!("no seq: {item}"))
        });
        let path = format!("{session}/items?after={after}&limit=500");
        let mut page = match client.try_get(&path) {
            Ok(response) if response.is_success() => response.body,
            other => return Err(other),
        };
        items.append(page["data"].as_array_mut().expect("a page has data"));
        if page["next_cursor"].is_null() {
            return Ok(items);
        }
    }
}

/// Reads all turns, including replaced ones.
fn read_turns(client: &CrashClient, session: &str) -> HashMap<String, Value> {
    let mut turns = HashMap::new();
    let mut cursor = String::new();
    loop {
        let mut page = client.get(&format!("{session}/turns?limit=500{cursor}"));
        for turn in page["data"]
            .as_array_mut()
            .expect("a page has data")
            .drain(..)
        {
            let id = turn["turn_id"]
                .as_str()
                .expect("a turn has an id")
                .to_owned();
            assert!(
                turns.insert(id, turn).is_none(),
                "a turn is listed twice in {session}"
            );
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return turns,
        }
    }
}
