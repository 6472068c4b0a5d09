//! Tests of the turns of an import.

use filrouge_types::Channel;

use super::*;

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
    let count = |channel: Channel| items.iter().filter(|i| i.channel == channel).count();
    assert_eq!(
        (
            count(Channel::Question),
            count(Channel::ToolCall),
            count(Channel::ToolResult),
            count(Channel::Thought),
            count(Channel::Summary)
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
