//! A repeated query returns the current answer, even if another process has changed the index in between.

use filrouge_store::contract::text_index::{
    IndexTestExt as _, all_words, matching_bodies, query, query_bodies, shard, texts, tidy_fully,
};
use filrouge_store::text_index::{CandidateFilter, IndexScope, TextIndex};

use super::index_at;

#[test]
fn a_repeated_query_sees_the_current_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let (a, index, other) = (shard("r", "a"), index_at(&path), index_at(&path));
    let assert_apples = |expected: &[&str]| {
        for _ in 0..2 {
            assert_eq!(matching_bodies(&index, &a, &["apple"]), expected);
        }
    };
    assert_apples(&[]);
    other.apply(&[texts(&a, "s", &["apple"])], None).unwrap();
    assert_apples(&["0=apple"]);
    other
        .apply(&[texts(&a, "s", &["pear", "an apple"])], None)
        .unwrap();
    assert_apples(&["1=an apple"]);
    other.apply(&[texts(&a, "t", &["apples"])], None).unwrap();
    tidy_fully(&other);
    assert_apples(&["0=apples", "1=an apple"]);
    other.forget(b"r", "s").unwrap();
    assert_apples(&["0=apples"]);
    other.clear().unwrap();
    assert_apples(&[]);
}

#[test]
fn different_queries_do_not_share_answers() {
    let folder = tempfile::tempdir().unwrap();
    let index = index_at(&folder.path().join("index.db"));
    let (a, b) = (shard("r", "a"), shard("r", "b"));
    index
        .apply(
            &[
                texts(&a, "s", &["apple pear"]),
                texts(&a, "t", &["apple"]),
                texts(&b, "u", &["apple plum"]),
            ],
            None,
        )
        .unwrap();
    let (of_a, of_b, of_r) = (
        IndexScope::Shard(a),
        IndexScope::Shard(b),
        IndexScope::Realm((*b"r").into()),
    );
    let (apple, both) = (all_words(&["apple"]), all_words(&["apple", "pear"]));
    let own = [index.session(b"r", "t").unwrap().unwrap().no];
    let (all_apples, two) = (query(&of_a, &apple), query(&of_a, &both));
    let mut only = query(&of_a, &apple);
    only.sessions = Some(&own);
    let mut any = two.clone();
    any.wanted = CandidateFilter::Any(&both);
    let mut late = all_apples.clone();
    late.since = Some(2000);
    let mut other_kinds = all_apples.clone();
    other_kinds.kinds = 1;
    let others = [
        (&only, &["0=apple"][..]),
        (&two, &["0=apple pear"]),
        (&any, &["0=apple pear", "0=apple"]),
        (&late, &[]),
        (&other_kinds, &[]),
        (&query(&of_b, &apple), &["0=apple plum"]),
        (
            &query(&of_r, &apple),
            &["0=apple plum", "0=apple", "0=apple pear"],
        ),
    ];
    for (other, expected) in others {
        assert_eq!(
            query_bodies(&index, &all_apples),
            ["0=apple", "0=apple pear"]
        );
        assert_eq!(query_bodies(&index, other), expected);
    }
}
