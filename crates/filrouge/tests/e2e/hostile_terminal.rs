//! Hostile texts do not act on a terminal that shows a command's output.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use serde::de::IgnoredAny;
use serde_json::Deserializer;

use crate::audit_rows::controls_terminal;
use crate::hostile::{HOSTILE, LONE, record};
use crate::hostile_corpus::corpus;
use crate::world::World;

/// Runs a command whose stdout is a terminal; returns what the terminal receives. The command must succeed.
fn on_terminal(mut command: Command) -> String {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    command.stdout(slave).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let what = format!("{command:?}");
    // Only the child still has the terminal open.
    drop(command);
    let mut bytes = Vec::new();
    // The read fails when the child has ended.
    File::from(master).read_to_end(&mut bytes).ok();
    let text = String::from_utf8(bytes).unwrap();
    assert!(child.wait().unwrap().success(), "{what}: {text}");
    // The terminal's driver adds a carriage return to each line feed; lines of CSV have one already.
    text.replace("\r\r\n", "\n").replace("\r\n", "\n")
}

/// Checks that a command prints no character that acts on a terminal, and valid JSON if `arguments` request it.
pub(crate) fn check(command: Command, arguments: &[&str]) {
    let text = on_terminal(command);
    // A search may find nothing in a small history.
    assert!(
        !text.is_empty() || arguments[0] == "search",
        "{arguments:?}"
    );
    if let Some(c) = text.chars().find(|c| controls_terminal(*c)) {
        panic!("{arguments:?} prints {c:?}: {text:?}");
    }
    if arguments.contains(&"--json") {
        let mut documents = Deserializer::from_str(&text).into_iter::<IgnoredAny>();
        assert!(
            documents.all(|document| document.is_ok()),
            "{arguments:?}: {text}"
        );
    }
}

#[test]
fn hostile_texts_do_not_act_on_a_terminal() {
    let world = World::new();
    let server = world.serve();
    record(&server.client(), "http://evil.example");
    server.stop();
    for query in [
        &["sessions", "list"][..],
        &["sessions", "show", HOSTILE],
        &["sessions", "show", LONE],
        &["search", "alert"],
        &["lineage", HOSTILE],
        &["stats", HOSTILE],
        &["stats", "--kpi"],
        &["audit"],
        &["export", HOSTILE],
    ] {
        check(world.command(query), query);
        let query = [query, &["--json"]].concat();
        check(world.command(&query), &query);
    }
    for query in [
        &["audit", "--format", "csv"][..],
        &["export", HOSTILE, "--format", "md"],
        &["export", HOSTILE, "--format", "html"],
    ] {
        check(world.command(query), query);
    }
    let id = corpus("texts").into_iter().find(|text| {
        text.contains('\u{202e}') && text.len() < 256 && !text.contains(char::is_control)
    });
    let id = id.unwrap();
    let id = id.as_str();
    for query in [
        &["sessions", "show", id][..],
        &["lineage", id],
        &["erase", "--session", id, "--yes"],
        &["erase", "--session", id, "--yes", "--json"],
    ] {
        check(world.command(query), query);
    }
}
