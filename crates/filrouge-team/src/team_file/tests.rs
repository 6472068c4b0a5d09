//! Team files: their fields, their formats, and the errors of invalid ones.

use std::time::Duration;

use super::*;
use crate::context::TEAM_TASK_BYTES_MAX;
use crate::team::MemberKind;

const HUMAN: &str = "[[members]]\nname = \"Ada\"\nkind = \"human\"\n";

fn toml(text: &str) -> Result<Team, Failure> {
    Team::parse(text, Format::Toml, Path::new("/teams"))
}

/// The error of a refused team file in TOML, as text.
fn refusal(text: &str) -> String {
    let failure = toml(text).unwrap_err();
    assert!(failure.hint.is_some(), "{failure}");
    format!("{failure}")
}

#[test]
fn a_team_file_may_set_every_field() {
    let text = r#"
        name = "Bridge"
        description = "builds bridges"
        task = "a bridge"
        max_agent_turns = 7
        [[members]]
        name = "Ada"
        kind = "human"
        [[members]]
        name = "bob"
        role = "reviews"
        kind = "agent"
        command = "./bob.sh"
        args = ["-p", "{prompt}"]
        env = { B = "2", A = "1" }
        cwd = "work"
        prompt_template = "{{ message }}"
        timeout = "90s"
        [[members]]
        name = "carol"
        kind = "agent"
        command = "carol"
    "#;
    let team = toml(text).unwrap();
    assert_eq!((&*team.name, team.max_agent_turns), ("Bridge", 7));
    assert_eq!(team.first_human().unwrap().name, "Ada".into());
    let MemberKind::Agent(bob) = &team.find("BOB").unwrap().kind else {
        panic!("bob is an agent");
    };
    assert_eq!(&*bob.program, "/teams/./bob.sh");
    assert_eq!(bob.folder.as_deref(), Some("/teams/work"));
    assert_eq!(bob.environment[0], ("A".into(), "1".into()));
    assert_eq!(bob.timeout, Duration::from_secs(90));
    assert!(bob.has_prompt_argument() && bob.template.is_some());
    let MemberKind::Agent(carol) = &team.members[2].kind else {
        panic!("carol is an agent");
    };
    assert_eq!(
        (&*carol.program, carol.timeout),
        ("carol", Duration::from_secs(600))
    );
    assert!(!carol.has_prompt_argument() && carol.folder.is_none());

    let json = r#"{"name": "Bridge", "description": "builds bridges", "task": "a bridge", "max_agent_turns": 7,
        "members": [{"name": "Ada", "kind": "human"},
            {"name": "bob", "role": "reviews", "kind": "agent", "command": "./bob.sh", "args": ["-p", "{prompt}"],
             "env": {"B": "2", "A": "1"}, "cwd": "work", "prompt_template": "{{ message }}", "timeout": "90s"},
            {"name": "carol", "kind": "agent", "command": "carol"}]}"#;
    assert_eq!(
        Team::parse(json, Format::Json, Path::new("/teams")).unwrap(),
        team
    );
}

#[test]
fn the_format_follows_the_extension_then_the_content() {
    for (path, text, format) in [
        ("a.toml", "{", Format::Toml),
        ("a.JSON", "name", Format::Json),
        ("a", " \n{", Format::Json),
        ("a.team", "name = 1", Format::Toml),
    ] {
        assert_eq!(Format::detect(Path::new(path), text), format, "{path}");
    }
}

#[test]
fn parse_errors_name_their_line() {
    for (text, expected) in [
        ("name = \"a\"\nname = \"b\"", "line 2"),
        (
            "name = \"a\"\nmember = []",
            "line 2: member: unknown field `member`",
        ),
        ("name = 3", "line 1: name: invalid type: integer"),
        ("", "missing field `name`"),
        (
            "name = \"a\"\n\n[[members]]\nname = \"x\"\nkind = \"robot\"",
            "line 5: members[0].kind: unknown variant",
        ),
        (
            "name = \"a\"\n[[members]]\nname = \"x\"\nkind = \"human\"\nshell = 1",
            "members[0].shell",
        ),
        (
            "name = \"a\"\n[[members]]\nkind = \"human\"",
            "missing field `name`",
        ),
    ] {
        let refused = refusal(text);
        assert!(
            refused.starts_with("bad_request: ") && refused.contains(expected),
            "{refused}"
        );
    }
    for (text, expected) in [
        (
            "{\"name\": \"a\",\n \"x\": 1}",
            "line 2: x: unknown field `x`",
        ),
        ("{\"name\": \"a\"} {}", "line 1: trailing characters"),
        ("[]", "line 1: invalid type: sequence"),
        (
            "{\"name\": \"a\", \"members\": [[\"x\"]]}",
            "members[0]: invalid type: sequence",
        ),
        ("{\"name\": \"a\", \"name\": \"b\"}", "duplicate field"),
    ] {
        let refused = Team::parse(text, Format::Json, Path::new("/"))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(expected) && !refused.contains(" column "),
            "{refused}"
        );
    }
}

#[test]
fn errors_do_not_contain_values_of_environment_variables() {
    let agent = "name = \"a\"\n[[members]]\nname = \"x\"\nkind = \"agent\"\ncommand = \"x\"\n";
    for env in ["env = \"sk-secret\"", "env = { K = [\"sk-secret\"] }"] {
        let refused = refusal(&format!("{agent}{env}"));
        assert!(
            refused.contains("members[0].env") && !refused.contains("sk-secret"),
            "{refused}"
        );
    }
    let json = r#"{"name": "a", "members": [{"name": "x", "kind": "agent", "env": {"K": {"sk-secret": 1}}}]}"#;
    let refused = Team::parse(json, Format::Json, Path::new("/")).unwrap_err();
    assert!(!refused.to_string().contains("sk-secret"), "{refused}");
}

#[test]
fn invalid_teams_are_refused() {
    let with_member = |member: &str| format!("name = \"a\"\n{HUMAN}[[members]]\n{member}");
    let with_agent = |field: &str| {
        with_member(&format!(
            "name = \"bob\"\nkind = \"agent\"\ncommand = \"b\"\n{field}"
        ))
    };
    let long = "x".repeat(TEAM_TASK_BYTES_MAX + 1);
    for (text, expected) in [
        ("name = \"a\"".to_owned(), "members: there is none"),
        (
            "name = \"a\"\n[[members]]\nname = \"b\"\nkind = \"agent\"\ncommand = \"b\"".to_owned(),
            "no human",
        ),
        (format!("name = \" \"\n{HUMAN}"), "name: it is empty"),
        (
            format!("name = \"a\"\ntask = \"{long}\"\n{HUMAN}"),
            "task: it has 5121 bytes",
        ),
        (
            format!("name = \"a\"\nmax_agent_turns = 0\n{HUMAN}"),
            "max_agent_turns",
        ),
        (
            with_member("name = \"aDa\"\nkind = \"human\""),
            "members[1].name: \"aDa\" reads like",
        ),
        (
            with_member("name = \"Ａｄａ\"\nkind = \"human\""),
            "reads like",
        ),
        (
            with_member("name = \"system\"\nkind = \"human\""),
            "not for members",
        ),
        (with_member("name = \"a[b\"\nkind = \"human\""), "'['"),
        (with_member("name = \"a@b\"\nkind = \"human\""), "'@'"),
        (with_member("name = \"a：b\"\nkind = \"human\""), "'：'"),
        (
            with_member("name = \" b\"\nkind = \"human\""),
            "begins or ends",
        ),
        (
            with_member("name = \"b\\u200b\"\nkind = \"human\""),
            "invisible",
        ),
        (
            with_member("name = \"b\\nc\"\nkind = \"human\""),
            "invisible",
        ),
        (
            with_member(&format!("name = \"{}\"\nkind = \"human\"", "x".repeat(201))),
            "201 bytes",
        ),
        (
            with_member("name = \"bob\"\nkind = \"human\"\ncommand = \"x\""),
            "members[1].command: a human takes none",
        ),
        (
            with_member("name = \"bob\"\nkind = \"agent\""),
            "members[1].command: an agent needs a program",
        ),
        (
            with_member("name = \"bob\"\nkind = \"agent\"\ncommand = \" \""),
            "needs a program",
        ),
        (
            with_agent("timeout = \"soon\""),
            "members[1].timeout: \"soon\" is no time",
        ),
        (with_agent("timeout = \"0s\""), "is no time"),
        (with_agent("env = { \"A=B\" = \"1\" }"), "members[1].env"),
        (with_agent("args = [\"a\\u0000\"]"), "NUL"),
        (
            with_agent("prompt_template = \"{{mesage}}\""),
            "{{mesage}} is no placeholder",
        ),
        (
            with_agent("prompt_template = \"{{message\""),
            "{{ has no }} after it",
        ),
        (
            with_agent("prompt_template = \"hello\""),
            "has no {{message}}",
        ),
    ] {
        let refused = refusal(&text);
        assert!(
            refused.starts_with("invalid: ") && refused.contains(expected),
            "{refused}"
        );
    }
}

#[test]
fn a_name_that_equals_another_members_id_is_refused() {
    let id = crate::team::derive_id("Bob");
    let members = format!("{HUMAN}[[members]]\nname = \"Bob\"\nkind = \"human\"\n");
    let text = format!("name = \"a\"\n{members}[[members]]\nname = \"{id}\"\nkind = \"human\"");
    assert!(refusal(&text).contains("members[2].name"), "{text}");
}

#[test]
fn unreadable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("team");
    let missing = Team::read(&path).unwrap_err();
    assert_eq!(missing.code, ErrorCode::BadRequest);
    assert!(missing.detail.contains("team cannot be read") && missing.hint.is_some());
    std::fs::write(&path, format!("\u{feff}name = \"a\"\n{HUMAN}")).unwrap();
    assert_eq!(&*Team::read(&path).unwrap().id, "a");
    std::fs::write(&path, "name = ").unwrap();
    assert!(
        Team::read(&path)
            .unwrap_err()
            .detail
            .contains("team: line 1")
    );
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(Team::read(&path).unwrap_err().detail.contains("UTF-8"));
    std::fs::write(&path, vec![b' '; 2 << 20]).unwrap();
    assert!(Team::read(&path).unwrap_err().detail.contains("1 MiB"));
}
