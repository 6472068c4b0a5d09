//! A ledger in which somebody has changed a record.

use filrouge_sources::Library;
use filrouge_sources::library::search::{Ask, search};

use super::*;

#[test]
fn a_search_tells_of_sessions_that_were_tampered_with() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("filrouge.db");
    let world = stored_at(&path);
    for id in ["a", "b", "c"] {
        world.make(&operator(), id, None);
        let asked = json!([text("user", "question", "Where is the quince?")]);
        world.say(&operator(), id, "r", asked);
    }
    drop(world);
    let tamper = "c.execute(\"UPDATE record SET body = zeroblob(length(body)) WHERE id IN (SELECT record_id FROM record_key \
         WHERE session_pk = (SELECT pk FROM session WHERE session_id = 'b'))\")\n\
         assert c.execute('SELECT changes()').fetchone()[0] > 0";
    crate::databases::python(&path, tamper);
    let world = stored_at(&path);
    let source = Arc::new(world.seen_by(operator()));
    assert!(matches!(
        source.conversation("b"),
        Err(ReadError::Skipped(_))
    ));
    // Everything is listed, and only what is asked for is looked through.
    let library = Library::new(Vec::new(), 0).with(source);
    for (exclude, found, notices) in [("a", 1, 1), ("b", 2, 0)] {
        let ask = Ask {
            query: "quince".to_owned(),
            exclude_session: Some(exclude.to_owned()),
            ..Ask::default()
        };
        let answer = search(&library, &ask).unwrap();
        assert_eq!(
            (answer.total_sessions, answer.notices.len()),
            (found, notices)
        );
        let told = "sessions that could not be read, or not completely: 1";
        assert!(answer.notices.iter().all(|notice| notice == told));
    }
}
