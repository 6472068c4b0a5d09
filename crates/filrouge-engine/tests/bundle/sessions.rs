//! Sessions with every event of a turn, and with contents that are hard to preserve byte for byte.

use filrouge_engine::{
    AppendItems, CancelTurn, CreateSession, ErrorBody, FailTurn, FinalizeTurn, RedactTurn,
    StartTurn, Written,
};
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_types::{
    Channel, Failure, ItemBody, ItemId, JsonText, ProjectId, RawJson, Role, Turn, Variant,
};

use crate::world::{BundleWorld, operator, request_id, session_id, user};

/// Contents that a reader might normalize; all are arrays of parts.
pub(crate) fn unusual_parts() -> Vec<String> {
    let deep = format!(
        r#"[{{"type":"deep","d":{}{}}}]"#,
        "[".repeat(126),
        "]".repeat(126)
    );
    let long = "9".repeat(5000);
    vec![
        r#"[{"type":"text","text":"lone \ud800 and \uDC00, \u0041\/é"}]"#.into(),
        r#"[{"type":"n","n":1.0,"n":1e400,"m":-0.0,"m":1E+2}]"#.into(),
        format!(r#"[{{"type":"n","big":{long},"f":{long}.5e-3}}]"#),
        "[ {\n\t\"type\" : \"text\" ,\r\n \"text\":\"spread\"\n}\n, {\"type\":\"x\"} ]".into(),
        "[\n]".into(),
        "[]".into(),
        deep,
        r#"[{"type":"text","text":"\u0000\u001f 🧵 naïve \ufffd �  quote \" back \\ end"}]"#.into(),
        r#"[{"type":"redact","redact":{"seqs":[[1,2]]},"link":"}\n]","NaN":"NaN"}]"#.into(),
    ]
}

/// Metadata that a reader might normalize.
pub(crate) const UNUSUAL_OBJECT: &str =
    "{\"a\":1.0 ,\n\"a\":1e400,\"\\ud800\":[ \"\\u00e9\" ],\"redacted\":true}";

pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

fn json_text(token: &str) -> JsonText {
    JsonText::from_raw(raw(token)).unwrap()
}

/// An item with every member.
pub(crate) fn full_item(id: &str, parts: &str) -> ItemBody {
    ItemBody {
        item_id: Some(ItemId::new(id).unwrap()),
        variant: Variant::Translated,
        agent: Some("agent \u{1} \"é\"".into()),
        model: Some("".into()),
        usage: Some(raw(r#"{ "input": 1.50 }"#)),
        metadata: Some(raw(UNUSUAL_OBJECT)),
        occurred_at: Some("-000044-03-15T11:59:59.000001Z".parse().unwrap()),
        ..ItemBody::new(Role::Tool, Channel::from_word("own channel ü"), raw(parts))
    }
}

pub(crate) fn observation(words: &str) -> ItemBody {
    let parts = format!(r#"[{{"type":"text","text":"{words}"}}]"#);
    ItemBody {
        occurred_at: Some("1999-12-31T23:59:60.5+01:00".parse().unwrap()),
        ..ItemBody::new(Role::Assistant, Channel::Observation, raw(&parts))
    }
}

pub(crate) fn start(request: &str, question: &str) -> StartTurn {
    StartTurn {
        question_neutral: Some(json_text(question)),
        ..StartTurn::new(request_id(request))
    }
}

pub(crate) fn complete_turn(request: &str, question: &str, answer: &str) -> StartTurn {
    StartTurn {
        answer_neutral: Some(json_text(answer)),
        ..start(request, question)
    }
}

impl BundleWorld {
    pub(crate) async fn start(&self, id: &str, request: StartTurn) -> Result<Turn, Failure> {
        self.clock.advance(1_001);
        let owner = operator();
        let started = self.engine.turns.start(&owner, session_id(id), request);
        started.await.map(Written::into_value)
    }

    pub(crate) async fn append(
        &self,
        turn: &Turn,
        items: Vec<ItemBody>,
    ) -> Result<(u64, u64), Failure> {
        self.clock.advance(999);
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        let request = AppendItems {
            items,
            expected_seq: None,
            fence: None,
            release: false,
        };
        let engine = &self.engine;
        let appended = engine.turns.append(&operator(), session, id, request).await;
        appended.map(|appended| (appended.first_seq, appended.last_seq))
    }

    pub(crate) async fn finalize(
        &self,
        turn: &Turn,
        request: FinalizeTurn,
    ) -> Result<Turn, Failure> {
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        let engine = &self.engine;
        engine
            .turns
            .finalize(&operator(), session, id, request)
            .await
            .map(Written::into_value)
    }

    pub(crate) async fn fail(&self, turn: &Turn) -> Result<Turn, Failure> {
        let request = FailTurn {
            error: ErrorBody {
                code: "too_late".into(),
                message: Some(json_text(r#""no \ud800 time""#)),
                retryable: true,
            },
            partial_text: Some(json_text(r#""so far""#)),
            fence: None,
            release: false,
        };
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        self.engine
            .turns
            .fail(&operator(), session, id, request)
            .await
            .map(Written::into_value)
    }

    pub(crate) async fn cancel(&self, turn: &Turn) -> Result<Turn, Failure> {
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        let request = CancelTurn::default();
        self.engine
            .turns
            .cancel(&operator(), session, id, request)
            .await
            .map(Written::into_value)
    }

    /// Advances the clock until every open turn is interrupted.
    pub(crate) async fn interrupt_open_turns(&self) -> u64 {
        self.clock.advance(16 * 60 * 1_000_000);
        self.engine.upkeep.sweep().await.unwrap()
    }

    pub(crate) async fn replace(&self, old: &Turn, request: StartTurn) -> Result<Turn, Failure> {
        let (session, id) = (old.session_id.clone(), old.turn_id);
        self.engine
            .turns
            .replace(&operator(), session, id, request)
            .await
            .map(Written::into_value)
    }

    pub(crate) async fn redact_turn(&self, turn: &Turn) -> Result<Turn, Failure> {
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        let reason = "on \"request\"\n".into();
        let request = RedactTurn { reason };
        self.engine
            .erasure
            .redact_turn(&operator(), session, id, request)
            .await
            .map(Written::into_value)
    }

    pub(crate) async fn redact(&self, id: &str, ranges: &[(u64, u64)]) -> Result<u64, Failure> {
        let seqs = Seqs::from_ranges(ranges.iter().copied()).unwrap();
        let redacted = self
            .engine
            .erasure
            .redact(
                &operator(),
                session_id(id),
                RedactionTarget::Items(seqs),
                "reason",
            )
            .await?;
        Ok(redacted.redaction_seq)
    }

    /// A session with every kind of event except redactions.
    pub(crate) async fn write_eventful_session(&self, id: &str) -> Vec<Turn> {
        let session = CreateSession {
            session_id: Some(session_id(id)),
            title: Some("a \"title\" \u{7f} é".into()),
            team_id: None,
            project_id: Some(ProjectId::new("../p%2f").unwrap()),
            parent_session_id: Some(session_id("the parent")),
            metadata: Some(raw(UNUSUAL_OBJECT)),
        };
        let owner = user("anna \u{202e}\"");
        self.engine.sessions.create(&owner, session).await.unwrap();
        let mut first = start("r/../1 🧵", r#""what\ud800""#);
        first.question_translated = Some(json_text(r#""quoi \u00e9""#));
        first.application.translate_chat = true;
        first.application.pipeline_name = Some("pipe".into());
        first.application.consultant = Some("".into());
        first.application.repository = Some("repo \\ \"".into());
        first.metadata = Some(raw(UNUSUAL_OBJECT));
        let first_turn = self.engine.turns.start(&owner, session_id(id), first).await;
        let first_turn = first_turn.unwrap().into_value();
        let parts = unusual_parts();
        let items = parts.iter().enumerate();
        let items = items.map(|(n, parts)| full_item(&format!("it/em {n}"), parts));
        self.append(&first_turn, items.collect()).await.unwrap();
        let answer = FinalizeTurn {
            request_id: None,
            answer_neutral: Some(json_text(r#""because\ud800""#)),
            answer_translated: Some(json_text(r#""parce que""#)),
            answer_translated_is_fallback: None,
            metadata: Some(raw(r#"{"a":2 , "late":1e400}"#)),
            fence: None,
            release: false,
        };
        self.finalize(&first_turn, answer).await.unwrap();
        let mut fallback = complete_turn("fallback", r#""q2""#, r#""a2""#);
        fallback.application.translate_chat = true;
        fallback.items = vec![observation("between"), full_item("fallback item", "[ ]")];
        let second_turn = self.start(id, fallback).await.unwrap();
        let (failed, cancelled) = (start("failed", r#""q3""#), start("cancelled", r#""q4""#));
        let failed = self.start(id, failed).await.unwrap();
        let cancelled = self.start(id, cancelled).await.unwrap();
        // Two turns with interleaved items.
        for words in ["first", "second"] {
            self.append(&failed, vec![observation(words)])
                .await
                .unwrap();
            self.append(&cancelled, vec![observation(words), observation(words)])
                .await
                .unwrap();
        }
        self.fail(&failed).await.unwrap();
        self.cancel(&cancelled).await.unwrap();
        for request in ["interrupted", "reopened"] {
            self.start(id, start(request, r#""q5""#)).await.unwrap();
        }
        assert_eq!(self.interrupt_open_turns().await, 2);
        let reopened = self.start(id, start("reopened", r#""q5""#)).await.unwrap();
        assert!(reopened.replayed);
        let second_version = complete_turn("version 2", r#""q2 again""#, r#""a2 again""#);
        let second_turn_version_2 = self.replace(&second_turn, second_version).await.unwrap();
        let third_version = complete_turn("version 3", r#""q2 more""#, r#""a2 more""#);
        self.replace(&second_turn_version_2, third_version)
            .await
            .unwrap();
        self.start(id, start("open", r#""still open""#))
            .await
            .unwrap();
        self.turns(id).await
    }
}
