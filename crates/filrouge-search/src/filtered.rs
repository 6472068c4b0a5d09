//! Tests of filters and of texts in other spellings, on handmade conversations.

use std::sync::Arc;

use filrouge_sources::library::Library;
use filrouge_sources::library::samples::{self, MemorySource};
use filrouge_sources::{Message, PartKind, Role};

use super::*;

const DAY: i64 = 86_400_000;
/// Saturday, 21 November 2026, 0:00 in UTC.
const TODAY: i64 = 1_795_219_200_000;

fn tool_call(tool: &str, input: &str, output: &str) -> PartKind {
    let mut call = samples::tool(Some(output));
    call.name = tool.into();
    call.input = input.into();
    PartKind::Tool(Box::new(call))
}

fn message(id: &str, role: Role, agent: &str, at: i64, kind: PartKind) -> Message {
    let mut message = samples::message(id, role, vec![samples::part("p", kind)]);
    message.created = at;
    message.agent = (!agent.is_empty()).then(|| agent.into());
    message
}

fn text(text: &str) -> PartKind {
    PartKind::Text {
        text: text.into(),
        synthetic: false,
    }
}

/// Two sessions whose messages mention a quince.
fn library() -> Library {
    let source = MemorySource::default();
    let mut first = samples::header("s1", TODAY);
    first.project_name = Some("Phare".into());
    first.title = Some("A quince".into());
    let messages = vec![
        message("u", Role::User, "", TODAY - 2 * DAY, text("quince please")),
        message("a", Role::Assistant, "build", TODAY - DAY, text("a quince")),
        message(
            "bash",
            Role::Assistant,
            "build",
            TODAY + 1,
            tool_call("bash", r#"{"c":"ls"}"#, "quince.txt"),
        ),
        message(
            "read",
            Role::Assistant,
            "plan",
            TODAY + 2,
            tool_call("Read", r#"{"f":"quince"}"#, "empty"),
        ),
    ];
    source.put(first, samples::conversation(messages));
    let mut second = samples::header("s2", TODAY - 400 * DAY);
    second.title = None;
    let old = TODAY - 400 * DAY;
    let messages = vec![message("o", Role::System, "", old, text("quince"))];
    source.put(second, samples::conversation(messages));
    Library::new(vec![Arc::new(source)], 1 << 20)
}

fn request(query: &str) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        now: Some(TODAY + DAY / 2),
        mask: true,
        ..SearchRequest::default()
    }
}

/// The places of a query's matches, sorted.
fn places(query: &str) -> Vec<String> {
    let found = search(&library(), &request(query)).unwrap();
    let places = found.sessions.iter().flat_map(|hit| &hit.excerpts);
    let mut places: Vec<String> = places.map(|one| one.place.clone()).collect();
    assert_eq!(places.len(), found.total_matches, "{query}");
    places.sort();
    places
}

#[test]
fn filters_restrict_a_search() {
    for (query, found) in [
        ("quince", "s1 s1:a s1:bash s1:read s1:u s2:o"),
        ("quince agent:BUILD", "s1:a s1:bash"),
        ("agent:plan quince", "s1:read"),
        ("quince -agent:build", "s1 s1:read s1:u s2:o"),
        ("quince tool:bash", "s1:bash"),
        ("quince -tool:bash", "s1 s1:a s1:read s1:u s2:o"),
        ("quince -tool:bash -tool:read", "s1 s1:a s1:u s2:o"),
        ("quince role:user", "s1:u"),
        ("quince role:assistant", "s1:a s1:bash s1:read"),
        ("quince role:system", "s2:o"),
        ("quince role:tool", "s1:bash"),
        ("quince -role:tool", "s1 s1:a s1:read s1:u s2:o"),
        ("quince -role:user -role:system", "s1 s1:a s1:bash s1:read"),
        ("quince project:phare role:user", "s1:u"),
        ("quince -project:phare", "s2:o"),
        ("quince session:s2", "s2:o"),
        ("quince -session:s1", "s2:o"),
        ("quince source:opencode tool:read", "s1:read"),
        ("quince source:codex", ""),
        ("quince on:yesterday", "s1:a"),
        ("quince on:2026-11-19", "s1:u"),
        ("quince on:19-november", "s1:u"),
        ("quince on:november", "s1:a s1:bash s1:read s1:u"),
        ("quince after:yesterday", "s1:a s1:bash s1:read"),
        ("quince before:yesterday", "s1:u s2:o"),
        ("quince after:2026-11-19 before:today", "s1:a s1:u"),
        ("quince -on:today role:assistant", "s1:a"),
        ("quince -before:2026", "s1 s1:a s1:bash s1:read s1:u"),
        ("/QUIN.E/i role:user", "s1:u"),
        ("agent:build /^a quin/", "s1:a"),
        ("role:user", "s1:u"),
        ("tool:read", "s1:read"),
    ] {
        assert_eq!(places(query).join(" "), found, "{query}");
    }
}

#[test]
fn filters_of_the_query_and_of_the_fields_both_apply() {
    let found = |query: &str, agent: &str| {
        let agent = Some(agent.to_owned());
        let request = SearchRequest {
            agent,
            ..request(query)
        };
        search(&library(), &request).unwrap().total_matches
    };
    assert_eq!(found("quince", "build"), 2);
    assert_eq!(found("quince tool:bash", "build"), 1);
    assert_eq!(found("quince agent:plan", "build"), 0);
    let results = search(&library(), &request("quince -tool:bash on:yesterday")).unwrap();
    let expected = "filters of the query: -tool:\"bash\", \
                    (from 2026-11-20T00:00:00Z before 2026-11-21T00:00:00Z)";
    assert_eq!(results.notices, [expected]);
    let error = |query: &str| search(&library(), &request(query)).unwrap_err();
    assert_eq!(error("quince session:nobody").code(), "session_not_found");
    let message = error("quince role:nobody").to_string();
    assert!(message.starts_with("query, character 13: role: \"nobody\" is not a role"));
    assert!(
        error("-tool:bash")
            .to_string()
            .contains("something to search for")
    );
}

#[test]
fn days_follow_the_time_zone() {
    let zone = TimeZone::fixed(jiff::tz::offset(-2));
    let zoned = SearchRequest {
        zone: Zone::Of(zone),
        ..request("quince on:yesterday session:s1")
    };
    let found = search(&library(), &zoned).unwrap();
    let excerpts = found.sessions[0].excerpts.iter();
    let places: Vec<_> = excerpts.map(|one| one.place.as_str()).collect();
    // In UTC-2 the 20th begins at 2:00 UTC, after the agent's answer, and ends at 2:00 UTC of the 21st.
    assert_eq!(places, ["s1:bash", "s1:read"]);
}

#[test]
fn text_in_another_spelling_is_found_and_shown_as_written() {
    let source = MemorySource::default();
    let texts = [
        "Où est le Café ?",
        "das Cafe\u{301} in der Hauptstraße",
        "ＣＡＦＥ",
        "日本語のカフェ がある",
        "か\u{3099}ある",
    ];
    let messages = texts.iter().enumerate().map(|(n, said)| {
        let id = format!("m{n}");
        message(&id, Role::User, "", 0, text(said))
    });
    let mut header = samples::header("s", 1);
    header.title = None;
    source.put(header, samples::conversation(messages.collect()));
    let library = Library::new(vec![Arc::new(source)], 1 << 20);
    for (query, excerpts) in [
        (
            "cafe",
            vec![
                "Où est le «Café» ?",
                "das «Cafe\u{301}» in der Hauptstraße",
                "«ＣＡＦＥ»",
            ],
        ),
        ("CAFÉ ou", vec!["«Où» est le Café ?"]),
        ("strasse", vec!["das Cafe\u{301} in der Haupt«straße»"]),
        ("Hauptstras", vec!["das Cafe\u{301} in der «Hauptstraß»e"]),
        ("\"LE  cafe\"", vec!["Où est «le Café» ?"]),
        (
            "がある",
            vec!["日本語のカフェ «がある»", "«か\u{3099}ある»"],
        ),
        ("かある", vec![]),
        ("/Café/", vec!["Où est le «Café» ?"]),
        ("/cafe/", vec![]),
    ] {
        let found = search(&library, &request(query)).unwrap();
        let hits = found.sessions.iter().flat_map(|hit| &hit.excerpts);
        let hits: Vec<_> = hits.map(|one| one.text.as_str()).collect();
        assert_eq!(hits, excerpts, "{query}");
    }
    let message = search(&library, &request("x \u{301}"))
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("query, character 3: "), "{message}");
}
