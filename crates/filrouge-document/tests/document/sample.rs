//! Sample conversations.

use std::ops::{Deref, DerefMut};

use filrouge_document::{html, markdown};
use filrouge_types::{
    Channel, IdentityId, Item, ItemBody, JsonText, ProjectId, RawJson, Recorded, RequestId, Role,
    Session, SessionId, SessionStatus, TenantId, Timestamp, Turn, TurnId, TurnStatus, Variant,
};
use serde_json::json;

/// A builder of a conversation.
pub(crate) struct Conversation(Recorded);

impl Deref for Conversation {
    type Target = Recorded;

    fn deref(&self) -> &Recorded {
        &self.0
    }
}

impl DerefMut for Conversation {
    fn deref_mut(&mut self) -> &mut Recorded {
        &mut self.0
    }
}

impl Conversation {
    pub(crate) fn new(title: &str) -> Self {
        let session = Session {
            session_id: SessionId::new("s-1").unwrap(),
            tenant_id: TenantId::default_tenant(),
            identity_id: Some(IdentityId::new("ada@example.org").unwrap()),
            parent_session_id: None,
            project_id: Some(ProjectId::new("billing").unwrap()),
            team_id: None,
            title: Some(title.into()),
            title_is_derived: false,
            status: SessionStatus::Active,
            state: Some("WAIT_CONFIRM".into()),
            last_seq: 0,
            turn_count: 0,
            metadata: RawJson::parse("{}").unwrap(),
            created_at: time_after(0),
            updated_at: time_after(900),
            agents: Vec::new(),
            version: [0; 16],
        };
        Self(Recorded {
            session,
            turns: Vec::new(),
            loose: Vec::new(),
        })
    }

    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        markdown(self, &mut out).unwrap();
        out
    }

    pub(crate) fn html(&self) -> String {
        let mut out = String::new();
        html(self, &mut out).unwrap();
        out
    }

    /// Begins a turn. Items added later belong to it.
    pub(crate) fn turn(&mut self, status: TurnStatus) -> &mut Turn {
        let ordinal = self.session.turn_count + 1;
        self.session.turn_count = ordinal;
        let now = time_after(ordinal * 60);
        let mut id = [0; 16];
        id[8..].copy_from_slice(&ordinal.to_be_bytes());
        let turn = Turn {
            turn_id: TurnId::from_derived(id),
            session_id: self.session.session_id.clone(),
            request_id: RequestId::new(format!("r-{ordinal}")).unwrap(),
            ordinal,
            status,
            identity_id: None,
            question_neutral: None,
            question_translated: None,
            answer_neutral: None,
            answer_translated: None,
            answer_translated_is_fallback: false,
            application: filrouge_types::Application::default(),
            metadata: RawJson::parse("{}").unwrap(),
            first_seq: self.session.last_seq + 1,
            last_seq: self.session.last_seq + 1,
            record_version: 1,
            replaced_by_turn_id: None,
            created_at: now,
            finalized_at: status
                .is_closed()
                .then(|| Timestamp::from_micros(now.as_micros() + 12_340_000)),
            deleted_at: None,
            replayed: false,
            differs: false,
        };
        self.turns.push((turn, Vec::new()));
        &mut self.turns.last_mut().unwrap().0
    }

    /// Adds an item of `parts` to the newest turn, or outside turns if there is none.
    pub(crate) fn add(
        &mut self,
        role: Role,
        channel: Channel,
        parts: &serde_json::Value,
    ) -> &mut Item {
        self.add_raw(role, channel, &parts.to_string())
    }

    /// Like [`Self::add`], but takes the parts as unparsed JSON.
    pub(crate) fn add_raw(&mut self, role: Role, channel: Channel, parts: &str) -> &mut Item {
        let seq = self.session.last_seq + 1;
        self.session.last_seq = seq;
        let item = Item {
            seq,
            turn_id: None,
            created_at: self
                .turns
                .last()
                .map_or(time_after(800 + seq), |(turn, items)| {
                    let seconds = i64::try_from(items.len()).unwrap() * 2;
                    Timestamp::from_micros(turn.created_at.as_micros() + seconds * 1_000_000)
                }),
            redacted: false,
            body: ItemBody::new(role, channel, RawJson::parse(parts).unwrap()),
        };
        let recorded = &mut self.0;
        let items = match recorded.turns.last_mut() {
            Some((_, items)) => items,
            None => &mut recorded.loose,
        };
        items.push(item);
        items.last_mut().unwrap()
    }

    /// Adds a question of the user to the newest turn.
    pub(crate) fn ask(&mut self, text: &str) -> &mut Item {
        if let Some((turn, _)) = self.turns.last_mut() {
            turn.question_neutral = Some(JsonText::from_plain(text));
        }
        self.add(
            Role::User,
            Channel::Question,
            &json!([{"type": "text", "text": text}]),
        )
    }

    /// Adds an answer of the assistant to the newest turn.
    pub(crate) fn answer(&mut self, text: &str) -> &mut Item {
        self.add(
            Role::Assistant,
            Channel::Final,
            &json!([{"type": "text", "text": text}]),
        )
    }
}

/// The time this many seconds after 2026-11-21 09:00:00 UTC.
pub(crate) fn time_after(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_795_251_600_000_000 + i64::try_from(seconds).unwrap() * 1_000_000)
}

/// A valid PNG image as a data URL.
pub(crate) const PNG_URL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAADAAAAAcCAIAAACoDqudAAAARUlEQVR42u3OoRWAIAAFQAYzm8gmsolMIpPMjsNsLvCL/d67Aa7s88iumt0tGz1bM3ufqAgJCQkJCQkJCQkJCQkJCf0JfR24NHk+0EcZAAAAAElFTkSuQmCC";

/// A small conversation with items of every kind. Golden files contain its documents.
pub(crate) fn small() -> Conversation {
    let mut c = Conversation::new("Why is the invoice total off by a cent?");
    add_work(&mut c);
    add_languages(&mut c);
    add_endings(&mut c);
    add_replaced(&mut c);
    c.session.updated_at = time_after(c.session.turn_count * 60 + 12);
    let seq = c.session.last_seq + 1;
    let turns = std::mem::take(&mut c.turns);
    c.add(
        Role::System,
        Channel::Redaction,
        &json!([{"type": "redaction", "seqs": [[9, 9]], "reason": "asked by the customer"}]),
    );
    c.add(
        Role::System,
        Channel::Link,
        &json!([{"type": "link", "url": "https://example.org/ticket/7", "title": "Ticket 7"}]),
    );
    c.turns = turns;
    assert_eq!(c.loose[0].seq, seq);
    c
}

/// Turn 1: reasoning, a plan, two tool calls and an answer with a table.
fn add_work(c: &mut Conversation) {
    let turn = c.turn(TurnStatus::Finalized);
    turn.identity_id = Some(IdentityId::new("ada@example.org").unwrap());
    turn.application.pipeline_name = Some("support".into());
    turn.application.repository = Some("acme/billing".into());
    c.ask("The invoice shows **19.99** but the lines add up to 20.00.\nCan you find out why?");
    c.add(Role::Assistant, Channel::Thought, &json!([{"type": "reasoning", "text": "Rounding per line or per total? Look at `total()` first."}]));
    c.add(Role::Assistant, Channel::Plan, &json!([{"type": "text", "text": "1. read the code\n2. run its tests\n3. propose a change"}]));
    let call = c.add(
        Role::Assistant,
        Channel::ToolCall,
        &json!([
            {"type": "tool_call", "call_id": "call_1", "name": "read_file", "args": {"path": "src/total.rs", "lines": [1, 9]}},
            {"type": "tool_call", "call_id": "call_2", "name": "bash", "args": {"command": "cargo test total"}},
        ]),
    );
    call.body.agent = Some("researcher".into());
    call.body.model = Some("model-large".into());
    c.add(Role::Tool, Channel::ToolResult, &json!([{"type": "tool_result", "call_id": "call_1", "ok": true, "latency_ms": 12, "content": "pub fn total(lines: &[Line]) -> Cents {\n    lines.iter().map(|l| (l.price * l.count).round()).sum()\n}\n"}]));
    c.add(Role::Tool, Channel::ToolResult, &json!([{"type": "tool_result", "call_id": "call_2", "ok": false, "latency_ms": 3480, "content": "test total_is_exact ... FAILED\n\nleft: 1999\nright: 2000\n"}]));
    let cause = "# Cause\n\nEach line is rounded **before** the sum:\n\n| line | exact | rounded |\n|:-----|------:|--------:|\n| a | 9.995 | 9.99 |\n| b | 10.005 | 10.00 |\n\n```rust\nlet sum: Decimal = lines.iter().map(Line::exact).sum();\nsum.round_dp(2)\n```\n\n- [x] found\n- [ ] fixed\n\nSee [the rounding rules](https://example.org/rounding?mode=half-even).";
    let answer = c.answer(cause);
    answer.body.agent = Some("researcher".into());
    answer.body.model = Some("model-large".into());
    answer.body.usage = Some(
        RawJson::parse(r#"{"input_tokens":1834,"output_tokens":211,"cost_usd":0.0123}"#).unwrap(),
    );
}

/// Turn 2: a redacted item, attachments, and translations.
fn add_languages(c: &mut Conversation) {
    c.turn(TurnStatus::Finalized);
    c.ask("And what does the customer's screenshot show?");
    c.add(
        Role::User,
        Channel::Question,
        &json!([
            {"type": "text", "text": ""},
        ]),
    )
    .redacted = true;
    let items = &mut c.turns.last_mut().unwrap().1;
    items.last_mut().unwrap().body.parts = RawJson::parse("[]").unwrap();
    c.add(
        Role::User,
        Channel::Question,
        &json!([{"type": "text", "text": "Et que montre la capture d'écran du client ?"}]),
    )
    .body
    .variant = Variant::Translated;
    c.add(Role::User, Channel::Question, &json!([
        {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}},
        {"type": "file", "name": "invoice-4711.pdf", "media_type": "application/pdf", "url": "https://example.org/invoice-4711.pdf"},
    ]));
    c.answer("The same invoice, after a *refresh*.");
    c.answer("La même facture, après un *rafraîchissement*.")
        .body
        .variant = Variant::Translated;
    c.answer("الفاتورة نفسها بعد **تحديث** الصفحة.")
        .body
        .variant = Variant::Translated;
}

/// Turns 3 to 5: a failed, a cancelled and an interrupted one.
fn add_endings(c: &mut Conversation) {
    c.turn(TurnStatus::Failed);
    c.ask("Fix it, please.");
    c.add(
        Role::Assistant,
        Channel::HitlRequest,
        &json!([{"type": "text", "text": "May I change `src/total.rs`?"}]),
    )
    .body
    .agent = Some("coder".into());
    c.add(
        Role::User,
        Channel::HitlResponse,
        &json!([{"type": "text", "text": "Yes."}]),
    );
    c.add(Role::Assistant, Channel::ToolCall, &json!([{"type": "tool_call", "call_id": "call_3", "name": "edit_file", "args": "{\"path\":\"src/total.rs\"}"}]));
    c.add(
        Role::Assistant,
        Channel::Partial,
        &json!([{"type": "text", "text": "I have begun to"}]),
    );
    c.add(Role::System, Channel::Error, &json!([{"type": "error", "code": "provider_overloaded", "message": "529: overloaded", "source": "provider", "retryable": true}]));
    c.turn(TurnStatus::Cancelled);
    c.ask("Try again.");
    c.add(
        Role::User,
        Channel::Cancelled,
        &json!([{"type": "turn_status", "status": "cancelled"}]),
    );
    c.turn(TurnStatus::Interrupted);
    c.ask("Hello?");
    c.add(
        Role::System,
        Channel::Summary,
        &json!([{"type": "text", "text": "Ada reported a rounding error; the cause is known."}]),
    );
    c.add(
        Role::System,
        Channel::Interrupted,
        &json!([{"type": "turn_status", "status": "interrupted"}]),
    );
}

/// Turn 6: a finalized one and its replacement, with content of unknown types.
fn add_replaced(c: &mut Conversation) {
    c.turn(TurnStatus::Finalized);
    c.ask("What is 2 + 2?");
    c.answer("5");
    let first = c.turns.len() - 1;
    let ordinal = c.session.turn_count;
    let second = c.turn(TurnStatus::Finalized);
    second.ordinal = ordinal;
    second.record_version = 2;
    let id = second.turn_id;
    c.session.turn_count = ordinal;
    c.turns[first].0.replaced_by_turn_id = Some(id);
    c.ask("What is 2 + 2?");
    c.add_raw(
        Role::Assistant,
        Channel::Other("telemetry".into()),
        r#"[{"type":"sensor","values":[1.0,1e400],"note":"\ud800"}]"#,
    );
    c.add(
        Role::Assistant,
        Channel::Observation,
        &json!([
            {"type": "code", "language": "python", "code": "print(2 + 2)"},
            {"type": "refusal", "refusal": "I would rather not say 5 again."},
        ]),
    );
    c.answer("4");
}
