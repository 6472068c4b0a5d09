//! What is made of conversations: hits of a scan, turns of an import.

use std::sync::Mutex;

use filrouge_sources::Scan;
use filrouge_types::Channel;

use super::*;

#[test]
fn a_scan_finds_what_conversations_hold() {
    let source = open(&fixture("claude-code"));
    for word in ["flash", "brume", "lenses", "exist", "nothing-of-this", "e"] {
        let found: Mutex<BTreeMap<(String, String), usize>> = Mutex::default();
        let scan = Scan {
            may_hold: &|line: &[u8]| line.windows(word.len()).any(|w| w == word.as_bytes()),
            wanted: &|id: &str| id != LENS,
            ids: None,
            roles: true,
            stopped: &|| false,
            unread: &|id| panic!("{id} can be read"),
            found: &|one| {
                let whole = source.conversation(one.session).unwrap();
                let message = whole
                    .messages
                    .iter()
                    .find(|m| &*m.id == one.message)
                    .unwrap();
                assert_eq!(one.role, Some(message.role));
                assert!(one.parts.iter().all(|part| message.parts.contains(part)));
                let key = (one.session.to_owned(), one.message.to_owned());
                assert!(found.lock().unwrap().insert(key, one.parts.len()).is_none());
            },
        };
        source.scan(&scan).unwrap();
        let found = found.into_inner().unwrap();
        for id in [LAMP, BRUME, AGENT] {
            for message in source.conversation(id).unwrap().messages {
                let holds = message
                    .parts
                    .iter()
                    .filter(|p| format!("{:?}", p.kind).contains(word))
                    .count();
                let handed = found.get(&(id.to_owned(), message.id.to_string())).copied();
                let least = if word == "e" { 1 } else { holds };
                assert!(
                    holds == 0 || handed.unwrap_or(0) >= least,
                    "{word} {id} {}",
                    message.id
                );
            }
        }
        assert_eq!(found.is_empty(), word == "nothing-of-this", "{word}");
    }
}

#[test]
fn a_session_becomes_turns() {
    let source = open(&fixture("claude-code"));
    let loaded = source.load(LAMP).unwrap();
    assert_eq!(loaded, source.load(LAMP).unwrap());
    assert_eq!(loaded.skipped, []);
    let answers: Vec<_> = loaded
        .turns
        .iter()
        .map(|t| t.answer().unwrap().parts.as_str().to_owned())
        .collect();
    assert_eq!(
        answers,
        [
            r#"[{"type":"text","text":"Fixed: one flash every **5 s**, as the chart says."}]"#,
            r#"[{"type":"text","text":"Written to `NOTES.md`."}]"#,
        ]
    );
    let items: Vec<_> = loaded
        .turns
        .iter()
        .flat_map(|t| t.question.iter().chain(&t.items))
        .collect();
    let of = |channel: Channel| items.iter().filter(|i| i.channel == channel).count();
    assert_eq!(
        (
            of(Channel::Question),
            of(Channel::ToolCall),
            of(Channel::ToolResult),
            of(Channel::Thought),
            of(Channel::Summary)
        ),
        (2, 4, 4, 1, 1)
    );
    assert_eq!(items.iter().filter(|i| i.usage.is_some()).count(), 6);
    let ids: BTreeSet<_> = items.iter().map(|i| i.item_id.clone().unwrap()).collect();
    assert_eq!(ids.len(), items.len());
    let unfinished = source.load(LENS).unwrap();
    assert_eq!(unfinished.session.id.to_string(), LENS);
    let call = unfinished.turns[0]
        .items
        .iter()
        .find(|i| i.channel == Channel::ToolCall)
        .unwrap();
    let call: Value = serde_json::from_str(call.parts.as_str()).unwrap();
    assert_eq!(call[0]["args"]["subagent_type"], "general-purpose");
    assert_eq!(
        source
            .load(AGENT)
            .unwrap()
            .session
            .parent_id
            .unwrap()
            .to_string(),
        LENS
    );
}
