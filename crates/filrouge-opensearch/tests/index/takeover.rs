//! Processes that end, or continue late, in the middle of a change.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use filrouge_opensearch::client::Body;
use filrouge_opensearch::text_index::OpenSearchIndex;
use filrouge_store::contract::text_index::{
    IndexTestExt as _, matching_bodies, query, query_bodies, shard, texts,
};
use filrouge_store::text_index::{IndexScope, TextIndex};
use filrouge_testbed::OpenSearch;
use reqwest::Method;
use serde_json::{Value, json};

use super::{index_at, new_prefix, send, server};

/// An index with two sessions, and what a process would need to change it.
struct World {
    server: &'static OpenSearch,
    prefix: String,
    index: OpenSearchIndex,
}

impl World {
    fn new() -> Option<Self> {
        let (server, prefix) = (server()?, new_prefix());
        let index = index_at(server, &prefix);
        let a = shard("r", "a");
        let sessions = [
            texts(&a, "s", &["apple", "pear"]),
            texts(&a, "t", &["apple pie"]),
        ];
        index.apply(&sessions, Some(b"1")).unwrap();
        Some(Self {
            server,
            prefix,
            index,
        })
    }

    fn state(&self) -> Value {
        let path = format!("{}-meta/_doc/state", self.prefix);
        send(self.server, Method::GET, &path, Body::None).body["_source"].clone()
    }

    /// Makes the state say that a process that has ended does this.
    fn lock(&self, work: Value) -> Value {
        let mut state = self.state();
        state["changes"] = (state["changes"].as_u64().unwrap() + 1).into();
        state["lock"] = json!({ "holder": "ended", "renewals": 0, "work": work });
        let path = format!("{}-meta/_doc/state", self.prefix);
        let stored = send(self.server, Method::PUT, &path, Body::Json(state.clone()));
        assert!(stored.status.is_success());
        state
    }

    /// Writes rows as a process does whose change has the number of `state`; returns their statuses.
    fn write(&self, state: &Value, rows: &[(String, Value)]) -> Vec<u64> {
        let alias = format!("{}-documents-{}-write", self.prefix, state["generation"]);
        let lines = rows.iter().map(|(id, row)| {
            let meta =
                json!({ "_id": id, "version": state["changes"], "version_type": "external_gte" });
            format!("{}\n{row}\n", json!({ "index": meta }))
        });
        let path = format!("{alias}/_bulk?require_alias=true");
        let body = Body::Lines(lines.collect());
        let answer = send(self.server, Method::POST, &path, body).body;
        let results = answer["items"].as_array().unwrap();
        results
            .iter()
            .map(|r| r["index"]["status"].as_u64().unwrap())
            .collect()
    }

    /// Waits until the lock was taken over.
    fn wait_for_takeover(&self) {
        let began = Instant::now();
        while !self
            .index
            .change(Some(&self.index.version().unwrap()), &[], Some(b"2"))
            .unwrap()
        {
            assert!(began.elapsed() < Duration::from_secs(120));
        }
    }
}

#[test]
fn what_an_ended_process_left_is_undone() {
    let Some(world) = World::new() else { return };
    let a = shard("r", "a");
    let before = world.index.version().unwrap();
    let changed = world.index.session(b"r", "s").unwrap().unwrap().no;
    let last = world.state()["last_document"].as_u64().unwrap();
    let state = world.lock(json!({ "Rows": {
        "sessions": [changed],
        "documents": [last, last + 2],
        "vectors": [],
    } }));
    // It had written one of two documents.
    let document = |no: u64| {
        let row = json!({
            "row": "document", "no": no, "session": changed, "realm": "72", "shard": "72/61",
            "session_key": "s", "key": "9", "unit": "9", "kind": 1, "created": 0, "digest": "0",
            "bytes": 5, "folded": "plums", "body": "",
        });
        (format!("d-{no}"), row)
    };
    assert_eq!(world.write(&state, &[document(last + 1)]), [201]);
    // Who does not want to wait is refused meanwhile.
    assert!(!world.index.change(Some(&before), &[], Some(b"3")).unwrap());
    world.wait_for_takeover();
    // What others have read before is refused.
    assert!(world.index.version().unwrap().forgotten > before.forgotten);
    assert_eq!(world.index.unread(9).unwrap().len(), 1);
    assert_eq!(
        matching_bodies(&world.index, &a, &["apple"]),
        ["0=apple pie"]
    );
    let reach = IndexScope::Shard(a.clone());
    assert_eq!(query_bodies(&world.index, &query(&reach, &[])).len(), 1);
    // What it still sends is refused.
    let late = [
        document(last + 1),
        document(last + 2),
        (format!("s-{changed}"), json!({})),
    ];
    assert_eq!(world.write(&state, &late), [409; 3]);
    world
        .index
        .apply(&[texts(&a, "s", &["apple", "fig"])], None)
        .unwrap();
    assert_eq!(matching_bodies(&world.index, &a, &["apple"]).len(), 2);
    assert_eq!(matching_bodies(&world.index, &a, &["fig"]), ["1=fig"]);
}

#[test]
fn a_creation_that_broke_off_is_repeated() {
    let Some(world) = World::new() else { return };
    let a = shard("r", "a");
    let state = world.lock(json!("Create"));
    world.wait_for_takeover();
    assert_eq!(
        world.index.sessions(&IndexScope::Shard(a.clone())).unwrap(),
        []
    );
    // The generation of the process that ended does not come back.
    let alias = format!("{}-documents-{}-write", world.prefix, state["generation"]);
    let path = format!("{alias}/_search");
    let answer = send(world.server, Method::POST, &path, Body::None);
    assert_eq!(answer.status, reqwest::StatusCode::NOT_FOUND);
    world
        .index
        .apply(&[texts(&a, "s", &["apple"])], None)
        .unwrap();
    assert_eq!(matching_bodies(&world.index, &a, &["apple"]), ["0=apple"]);
}

/// If somebody deletes the indices, the next calls create them again.
#[test]
fn deleted_indices_are_created_again() {
    let Some(world) = World::new() else { return };
    let a = shard("r", "a");
    let generation = format!("{}-documents-{}", world.prefix, world.state()["generation"]);
    let meta = format!("{}-meta", world.prefix);
    for index in [generation, meta] {
        let before = world.index.version().unwrap();
        send(world.server, Method::DELETE, &index, Body::None);
        let reach = IndexScope::Shard(a.clone());
        let failure = world.index.sessions(&reach).unwrap_err();
        assert_eq!(failure.code, filrouge_types::ErrorCode::StoreUnavailable);
        assert_eq!(world.index.sessions(&reach).unwrap(), []);
        let now = world.index.version().unwrap();
        assert_eq!(now.position, None);
        assert!(now.forgotten != before.forgotten);
        world
            .index
            .apply(&[texts(&a, "s", &["apple"])], Some(b"1"))
            .unwrap();
        assert_eq!(matching_bodies(&world.index, &a, &["apple"]), ["0=apple"]);
    }
}

/// Of several processes that find an index in another format, one empties it: what a process has indexed since then
/// stays.
#[test]
fn an_index_of_another_format_is_emptied_once() {
    let Some(world) = World::new() else { return };
    let mut state = world.state();
    let generation = state["generation"].as_u64().unwrap();
    state["format"] = 0.into();
    let path = format!("{}-meta/_doc/state", world.prefix);
    let stored = send(world.server, Method::PUT, &path, Body::Json(state));
    assert!(stored.status.is_success());
    let (server, prefix) = (world.server, world.prefix.as_str());
    let begin = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (index, began) = (index_at(server, prefix), Instant::now());
                begin.wait();
                // Who finds that another process creates the index is refused.
                while index.status().is_err() {
                    assert!(began.elapsed() < Duration::from_secs(120));
                }
            });
        }
    });
    assert_eq!(world.state()["generation"], generation + 1);
}
