//! Tests of parsing queries.

use filrouge_sources::Role;
use filrouge_types::Timestamp;

use super::*;
use crate::condition::{Attribute, Author};
use crate::dates::Zone;

/// Saturday, 21 November 2026.
fn date_context() -> DateContext {
    DateContext {
        now: Timestamp::from_millis(1_795_300_200_000).unwrap(),
        zone: Zone::Utc,
    }
}

fn parse(query: &str) -> Result<Query, InvalidQuery> {
    super::parse(query, &date_context())
}

/// The conditions of a query, and whether each is excluded.
fn conditions(query: &str) -> Vec<(Attribute, bool)> {
    let conditions = parse(query).unwrap().conditions.into_iter();
    conditions
        .map(|one| (one.attribute, one.excluded))
        .collect()
}

/// The terms of a query: kind, text, whether it is excluded, and position.
fn terms(query: &str) -> Vec<(Kind, String, bool, usize)> {
    let terms = parse(query).unwrap().terms;
    let parts = terms
        .into_iter()
        .map(|t| (t.kind, t.text, t.excluded, t.at));
    parts.collect()
}

#[test]
fn punctuation_is_part_of_words() {
    for word in [
        "ask_user", "foo::bar", "c++", "--flag", "it's", "/usr/lib", "->", "-", "5\"", "\"\"", "//",
    ] {
        assert_eq!(
            terms(word),
            [(Kind::Word, word.to_owned(), false, 1)],
            "{word}"
        );
    }
}

#[test]
fn terms_report_their_position() {
    let found = terms(r#" a -b -"c  d" "say \"é\"" -"#);
    let expected = [
        (Kind::Word, "a".to_owned(), false, 2),
        (Kind::Word, "b".to_owned(), true, 5),
        (Kind::Phrase, "c  d".to_owned(), true, 9),
        (Kind::Phrase, "say \"é\"".to_owned(), false, 16),
        (Kind::Word, "-".to_owned(), false, 27),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_query_between_slashes_is_a_regex() {
    let flags = Flags {
        any_case: true,
        dot_all: true,
        verbose: true,
    };
    assert_eq!(
        terms(" /a b/ims"),
        [(
            Kind::Regex(Flags {
                verbose: false,
                ..flags
            }),
            "a b".to_owned(),
            false,
            3
        )]
    );
    assert_eq!(
        terms("/usr/lib/"),
        [(
            Kind::Regex(Flags::default()),
            "usr/lib".to_owned(),
            false,
            2
        )]
    );
    assert_eq!(
        terms("/a/isx"),
        [(Kind::Regex(flags), "a".to_owned(), false, 2)]
    );
    assert_eq!(terms("/a/q").first().map(|t| t.0), Some(Kind::Word));
}

#[test]
fn errors_have_a_position() {
    assert_eq!(parse("é \"open").unwrap_err().at, 3);
    assert_eq!(
        parse(&"x".repeat(MAX_CHARS + 1)).unwrap_err().at,
        MAX_CHARS + 1
    );
    assert_eq!(
        parse(&"x ".repeat(MAX_TERMS + 1)).unwrap_err().at,
        2 * MAX_TERMS + 1
    );
    assert!(parse("  ").unwrap().terms.is_empty());
}

#[test]
fn filters_may_be_between_words() {
    let query =
        r#"agent:build foo -tool:bash "a b" role:user -project:"my project" bar session:s1"#;
    let expected = [
        (Attribute::Agent("build".to_owned()), false),
        (Attribute::Tool("bash".to_owned()), true),
        (Attribute::Role(Author::WithRole(Role::User)), false),
        (Attribute::Project("my project".to_owned()), true),
        (Attribute::Session("s1".to_owned()), false),
    ];
    assert_eq!(conditions(query), expected);
    let found = terms(query)
        .into_iter()
        .map(|(kind, text, _, at)| (kind, text, at));
    let expected = [
        (Kind::Word, "foo".to_owned(), 13),
        (Kind::Phrase, "a b".to_owned(), 29),
        (Kind::Word, "bar".to_owned(), 66),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(
        conditions("-role:tool -role:system source:Claude-Code"),
        [
            (Attribute::Role(Author::Tool), true),
            (Attribute::Role(Author::WithRole(Role::System)), true),
            (Attribute::Source("claude-code".to_owned()), false),
        ]
    );
}

#[test]
fn dates_are_time_ranges() {
    let day = 86_400_000;
    // 25 December 2025.
    let christmas = 1_766_620_800_000;
    for (query, since, until) in [
        ("on:25-december", Some(christmas), Some(christmas + day)),
        (
            "on:2025-12-25T17:00",
            Some(christmas),
            Some(christmas + day),
        ),
        ("after:2025-12-25", Some(christmas), None),
        ("before:25-dec-2025", None, Some(christmas)),
        ("before:\"25 décembre\"", None, Some(christmas)),
        ("after:2025-12-25T00:00:01Z", Some(christmas + 1000), None),
    ] {
        let expected = [(Attribute::TimeRange(since, until), false)];
        assert_eq!(conditions(query), expected, "{query}");
    }
}

#[test]
fn colons_elsewhere_are_part_of_words() {
    for word in [
        "std::vec",
        "http://x",
        "foo:bar",
        "tool::call",
        "source://x",
        "Agent:x",
        "myagent:x",
        "agent",
    ] {
        assert!(conditions(word).is_empty(), "{word}");
        assert_eq!(
            terms(word),
            [(Kind::Word, word.to_owned(), false, 1)],
            "{word}"
        );
    }
    let phrase = (Kind::Phrase, "agent:x".to_owned(), false, 2);
    assert_eq!(terms("\"agent:x\""), [phrase]);
    assert!(conditions("\"agent:x\" -\"on:y\"").is_empty());
}

#[test]
fn filters_may_precede_and_follow_a_regex() {
    for (query, at) in [
        ("agent:x /a b/i", 10),
        ("/a b/i agent:x", 2),
        (" agent:x /a b/i on:today ", 11),
        ("/a b/i project:/usr/lib/", 2),
    ] {
        let flags = Flags {
            any_case: true,
            ..Flags::default()
        };
        let term = (Kind::Regex(flags), "a b".to_owned(), false, at);
        assert_eq!(terms(query), [term], "{query}");
        assert!(!conditions(query).is_empty(), "{query}");
    }
    let inside = terms("/a agent:x b/");
    let kind = Kind::Regex(Flags::default());
    assert_eq!(inside, [(kind, "a agent:x b".to_owned(), false, 2)]);
}

#[test]
fn errors_in_filters_have_a_position() {
    for (query, at, word) in [
        ("é role:nobody", 8, "user, assistant, system or tool"),
        ("source:gemini", 8, "opencode, claude-code, codex, ledger"),
        ("x on:click", 6, "28-december"),
        ("x -before:31-february", 11, "no day"),
        ("agent:a b agent:c", 11, "twice"),
        ("agent: b", 7, "needs a value"),
        ("agent:\"\"", 7, "needs a value"),
        ("tool:\"bash", 6, "not closed"),
        ("é \"  \" x", 3, "white space"),
        ("-\" \"", 2, "white space"),
        ("agent:\" \" x", 7, "white space"),
    ] {
        let error = parse(query).unwrap_err();
        assert_eq!(error.at, at, "{query}: {error}");
        assert!(error.text.contains(word), "{query}: {error}");
    }
    assert_eq!(conditions("-agent:a -agent:b agent:c").len(), 3);
    let many = "-tool:x ".repeat(MAX_TERMS + 1);
    assert_eq!(parse(&many).unwrap_err().at, 8 * MAX_TERMS + 1);
}
