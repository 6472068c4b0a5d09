//! Tests of lineage.

use proptest::prelude::*;

use super::*;
use crate::library::facts::samples::*;
use crate::{Header, LibraryError, Message};

fn ids(relatives: &[Relative]) -> Vec<(&str, usize)> {
    relatives
        .iter()
        .map(|r| (&*r.session.id, r.depth))
        .collect()
}

fn forks(forks: &[Fork]) -> Vec<(&str, Evidence, usize)> {
    let evidence = |f: &'_ Fork| (f.evidence, f.copied_messages);
    forks
        .iter()
        .map(|f| (&*f.session.id, evidence(f).0, evidence(f).1))
        .collect()
}

fn header_with_title(id: &str, created: i64, title: &str) -> Header {
    Header {
        title: Some(title.into()),
        ..header(id, created)
    }
}

/// Questions and answers, starting at `from`, ten milliseconds apart.
fn dialogue(from: i64, count: i64) -> Vec<Message> {
    let one = |n: i64| match n % 2 {
        0 => question(&format!("m{}", from + n), from + 10 * n),
        _ => answer(&format!("m{}", from + n), from + 10 * n),
    };
    (0..count).map(one).collect()
}

fn joined(a: Vec<Message>, b: Vec<Message>) -> Vec<Message> {
    a.into_iter().chain(b).collect()
}

#[test]
fn relatives_name_the_calls_that_started_them() {
    let root = vec![starts(starts(answer("m1", 10), "c1", "a"), "c2", "b")];
    let a = vec![starts(answer("m2", 30), "c3", "deep")];
    let elsewhere = Header {
        project_id: Some("q".into()),
        ..child("b", 40, "root")
    };
    let source = source_of(vec![
        (header("root", 0), root),
        (child("a", 20, "root"), a),
        (elsewhere, vec![starts(answer("m3", 50), "c4", "not there")]),
        (child("deep", 60, "a"), vec![]),
        (header("stranger", 70), vec![]),
    ]);
    let library = library(&source);
    let of_root = lineage(&library, "root").unwrap();
    assert_eq!(
        ids(&of_root.child_sessions),
        [("a", 1), ("deep", 2), ("b", 1)]
    );
    let calls = of_root.child_sessions.iter().map(|r| {
        let text = |id: &'_ Option<String>| id.clone().unwrap();
        (text(&r.message_id), text(&r.call_id))
    });
    let expected = [("m1", "c1"), ("m2", "c3"), ("m1", "c2")];
    assert_eq!(
        calls.collect::<Vec<_>>(),
        expected.map(|(m, c)| (m.to_owned(), c.to_owned()))
    );
    assert!(of_root.parent_sessions.is_empty() && of_root.siblings.is_empty());
    assert!(!of_root.cycle && of_root.gaps.is_empty() && of_root.notices.is_empty());

    let of_deep = lineage(&library, "deep").unwrap();
    assert_eq!(ids(&of_deep.parent_sessions), [("a", 1), ("root", 2)]);
    assert_eq!(of_deep.parent_sessions[0].call_id.as_deref(), Some("c1"));
    assert_eq!(of_deep.call_id.as_deref(), Some("c3"));
    assert_eq!(of_deep.message_id.as_deref(), Some("m2"));

    let of_b = lineage(&library, "b").unwrap();
    assert_eq!(ids(&of_b.siblings), [("a", 0)]);
    assert_eq!(
        of_b.notices,
        ["1 tool call names a session that is not there"]
    );
    assert!(matches!(
        lineage(&library, "not there"),
        Err(LibraryError::NoSession(_))
    ));
}

#[test]
fn gaps_and_cycles_are_reported() {
    let source = source_of(vec![
        (child("orphan", 1, "gone"), vec![]),
        (child("other", 2, "gone"), vec![]),
        (child("x", 3, "y"), vec![]),
        (child("y", 4, "x"), vec![]),
        (child("below", 5, "x"), vec![]),
        (child("self", 6, "self"), vec![]),
    ]);
    let library = library(&source);
    let orphan = lineage(&library, "orphan").unwrap();
    assert_eq!(orphan.gaps, ["gone"]);
    assert_eq!(ids(&orphan.siblings), [("other", 0)]);
    assert!(!orphan.cycle);

    let x = lineage(&library, "x").unwrap();
    assert!(x.cycle);
    assert_eq!(ids(&x.parent_sessions), [("y", 1)]);
    assert_eq!(ids(&x.child_sessions), [("y", 1), ("below", 1)]);

    let below = lineage(&library, "below").unwrap();
    assert!(below.cycle);
    assert_eq!(ids(&below.parent_sessions), [("x", 1), ("y", 2)]);

    let own_parent = lineage(&library, "self").unwrap();
    assert!(own_parent.cycle);
    assert!(own_parent.parent_sessions.is_empty() && own_parent.child_sessions.is_empty());
    assert!(own_parent.siblings.is_empty());
}

#[test]
fn forks_are_inferred_from_shared_messages() {
    let first = dialogue(10, 6);
    let cut = copies(&first[..2], "cut-");
    let fork = joined(copies(&first, "fork-"), dialogue(2_000, 2));
    let again = joined(copies(&fork, "again-"), dialogue(3_000, 2));
    let source = source_of(vec![
        (header("bystander", 0), dialogue(10_000, 4)),
        (
            header_with_title("origin", 5, "Plan"),
            joined(first.clone(), dialogue(9_000, 2)),
        ),
        (header_with_title("fork", 1_000, "Plan (fork #1)"), fork),
        (header_with_title("cut", 1_500, "Plan (fork #1)"), cut),
        (header_with_title("again", 2_900, "New name"), again),
    ]);
    let library = library(&source);
    let inferred = Evidence::Inferred;

    let of_fork = lineage(&library, "fork").unwrap();
    assert_eq!(forks(&of_fork.forked_from), [("origin", inferred, 6)]);
    assert_eq!(forks(&of_fork.forks), [("again", inferred, 8)]);
    // `fork` was created later and shares as many messages, but a fork of `fork` would be numbered #2.
    let of_cut = lineage(&library, "cut").unwrap();
    assert_eq!(forks(&of_cut.forked_from), [("origin", inferred, 2)]);
    // The nearest origin is the one that has the messages written after the first fork.
    let of_again = lineage(&library, "again").unwrap();
    assert_eq!(
        forks(&of_again.forked_from),
        [("fork", inferred, 8), ("origin", inferred, 6)]
    );
    let of_origin = lineage(&library, "origin").unwrap();
    assert_eq!(
        forks(&of_origin.forks),
        [("fork", inferred, 6), ("cut", inferred, 2)]
    );
    assert!(of_origin.forked_from.is_empty());
    let stranger = lineage(&library, "bystander").unwrap();
    assert!(stranger.forks.is_empty() && stranger.forked_from.is_empty());
    assert!(stranger.notices.is_empty());
}

#[test]
fn without_titles_the_newest_candidate_is_the_origin() {
    let first = dialogue(10, 4);
    let source = source_of(vec![
        (header("origin", 5), first.clone()),
        (header("fork", 1_000), copies(&first, "f-")),
        (header("cut", 1_500), copies(&first[..2], "c-")),
    ]);
    let of_cut = lineage(&library(&source), "cut").unwrap();
    let expected = [
        ("fork", Evidence::Inferred, 2),
        ("origin", Evidence::Inferred, 2),
    ];
    assert_eq!(forks(&of_cut.forked_from), expected);
}

#[test]
fn subagents_with_copied_messages_of_their_parents_are_not_forks() {
    let first = dialogue(10, 4);
    let source = source_of(vec![
        (header("root", 5), first.clone()),
        (child("a", 1_000, "root"), copies(&first, "a-")),
        (child("b", 1_001, "root"), copies(&first, "b-")),
    ]);
    let library = library(&source);
    for id in ["root", "a", "b"] {
        let found = lineage(&library, id).unwrap();
        assert!(found.forks.is_empty() && found.forked_from.is_empty());
        assert!(found.notices.is_empty(), "{:?}", found.notices);
    }
    let root = crate::library::stats::session(&library, "root").unwrap();
    assert_eq!(root.with_descendants.message_count, 12);
    assert_eq!(root.without_copied.message_count, 4);
}

#[test]
fn other_projects_and_later_sessions_are_no_origins() {
    let first = dialogue(10, 4);
    let elsewhere = Header {
        project_id: Some("q".into()),
        ..header("elsewhere", 5)
    };
    let source = source_of(vec![
        (elsewhere, first.clone()),
        (header("fork", 1_000), copies(&first, "f-")),
        (header("later", 2_000), copies(&first, "l-")),
    ]);
    let library = library(&source);
    let of_fork = lineage(&library, "fork").unwrap();
    assert!(of_fork.forked_from.is_empty());
    assert_eq!(forks(&of_fork.forks), [("later", Evidence::Inferred, 4)]);
    assert!(of_fork.notices[0].starts_with("4 of its messages are older than the session"));
}

#[test]
fn recorded_forks_are_reported_as_such() {
    let first = dialogue(10, 4);
    let recorded = |id: &str, created, of: &str| Header {
        fork_of: Some(of.into()),
        ..header(id, created)
    };
    // The origin has changed since the fork, so the two share no times.
    let mut copied = copies(&dialogue(20, 3), "r-");
    copied.iter_mut().for_each(|m| m.copied = true);
    let source = source_of(vec![
        (header("origin", 5), first),
        (recorded("fork", 1_000, "origin"), copied),
        (recorded("lost", 1_001, "gone"), vec![]),
        (recorded("a", 1_002, "b"), vec![]),
        (recorded("b", 1_003, "a"), vec![]),
    ]);
    let library = library(&source);
    let of_fork = lineage(&library, "fork").unwrap();
    assert_eq!(
        forks(&of_fork.forked_from),
        [("origin", Evidence::Recorded, 3)]
    );
    let of_origin = lineage(&library, "origin").unwrap();
    assert_eq!(forks(&of_origin.forks), [("fork", Evidence::Recorded, 3)]);
    assert_eq!(lineage(&library, "lost").unwrap().gaps, ["gone"]);
    let cyclic = lineage(&library, "a").unwrap();
    assert!(cyclic.cycle);
    assert_eq!(forks(&cyclic.forked_from), [("b", Evidence::Recorded, 0)]);
}

#[test]
fn the_child_of_a_copied_call_belongs_to_the_original_session() {
    let first = vec![question("m1", 10), starts(answer("m2", 20), "c1", "sub")];
    let source = source_of(vec![
        (header("origin", 5), first.clone()),
        (child("sub", 21, "origin"), vec![]),
        (header("fork", 1_000), copies(&first, "f-")),
    ]);
    let library = library(&source);
    assert!(lineage(&library, "fork").unwrap().child_sessions.is_empty());
    let sub = lineage(&library, "sub").unwrap();
    assert_eq!(sub.message_id.as_deref(), Some("m2"));
    assert_eq!(ids(&sub.parent_sessions), [("origin", 1)]);
    // Copied calls to a deleted session do not count as the fork's missing sessions.
    let source = source_of(vec![
        (header("origin", 5), first.clone()),
        (header("fork", 1_000), copies(&first, "f-")),
    ]);
    let library = self::library(&source);
    assert!(lineage(&library, "fork").unwrap().notices.is_empty());
    assert_eq!(lineage(&library, "origin").unwrap().notices.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// For every graph of sessions, the function ends and returns each relative once.
    #[test]
    fn lineage_ends_in_any_graph(graph in prop::collection::vec((0..14_usize, 0..14_usize, 0..3_i64), 1..12)) {
        let name = |n: usize| (n < 13).then(|| format!("s{n}").into());
        let sessions = graph.iter().enumerate().map(|(n, (parent, origin, created))| {
            let header = Header {
                parent_id: name(*parent),
                fork_of: name(*origin).filter(|_| origin % 2 == 0),
                ..header(&format!("s{n}"), *created)
            };
            (header, dialogue(0, *parent as i64 % 3))
        });
        let source = source_of(sessions.collect());
        let library = library(&source);
        for n in 0..graph.len() {
            let found = lineage(&library, &format!("s{n}")).unwrap();
            for relatives in [&found.parent_sessions, &found.child_sessions, &found.siblings] {
                let mut ids: Vec<_> = relatives.iter().map(|r| &r.session.id).collect();
                prop_assert!(!ids.contains(&&found.session.id));
                ids.sort();
                ids.dedup();
                prop_assert_eq!(ids.len(), relatives.len());
            }
            // Its descendants are exactly the sessions with it among their ancestors.
            let below = (0..graph.len()).filter(|m| *m != n && {
                let up = std::iter::successors(Some(*m), |m| Some(graph.get(*m)?.0));
                up.skip(1).take(14).any(|m| m == n)
            });
            prop_assert_eq!(below.count(), found.child_sessions.len());
            let stats = crate::library::stats::session(&library, &found.session.id).unwrap();
            let expected = found.child_sessions.len() as u64 + 1;
            prop_assert_eq!(stats.with_descendants.sessions, expected);
        }
    }
}
