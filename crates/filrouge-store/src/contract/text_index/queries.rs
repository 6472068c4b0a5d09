//! Queries for candidates.

use super::{
    IndexFixture, IndexTestExt as _, all_words, bodies, document, entry, matching_bodies, numbers,
    query, query_bodies, shard, texts, tidy_fully, update,
};
use crate::text_index::{
    CandidateFilter, CandidateQuery, Coverage, IndexScope, IndexUpdate, IndexedDocument,
    NewDocument, SessionUpdate, TITLE,
};

type Make<'a> = &'a dyn Fn() -> IndexFixture;

pub fn kinds_times_and_sessions_are_filtered(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let of = |key: &str, kind, created| NewDocument {
        kind,
        created,
        ..document(key, 0, "apple")
    };
    let documents = vec![
        of("", TITLE, 0),
        of("u", 0, 10),
        of("v", 1, 20),
        of("w", 1, -30),
    ];
    f.index
        .apply(
            &[
                update(&a, "s", Coverage::All, documents),
                texts(&a, "t", &["apple"]),
            ],
            None,
        )
        .unwrap();
    let s = f.index.session(b"r", "s").unwrap().unwrap().no;
    let t = f.index.session(b"r", "t").unwrap().unwrap().no;
    let reach = IndexScope::Shard(a.clone());
    for tidy in [false, true] {
        if tidy {
            tidy_fully(&*f.index);
        }
        for terms in [all_words(&["apple"]), Vec::new()] {
            let base = || query(&reach, &terms);
            let bodies_of = |q: CandidateQuery<'_>| query_bodies(&*f.index, &q);
            assert_eq!(
                bodies_of(base()),
                ["0=apple", "w=apple", "v=apple", "u=apple", "=apple"]
            );
            let kinds = 1 | 1 << TITLE;
            assert_eq!(
                bodies_of(CandidateQuery { kinds, ..base() }),
                ["u=apple", "=apple"]
            );
            let kinds = 0;
            assert_eq!(bodies_of(CandidateQuery { kinds, ..base() }), [""; 0]);
            let since = Some(20);
            assert_eq!(
                bodies_of(CandidateQuery { since, ..base() }),
                ["0=apple", "v=apple", "=apple"]
            );
            let until = Some(20);
            assert_eq!(
                bodies_of(CandidateQuery { until, ..base() }),
                ["w=apple", "u=apple", "=apple"]
            );
            let sessions = Some(&[t, u64::MAX, 77][..]);
            assert_eq!(
                bodies_of(CandidateQuery { sessions, ..base() }),
                ["0=apple"]
            );
            let sessions = Some(&[][..]);
            assert_eq!(bodies_of(CandidateQuery { sessions, ..base() }), [""; 0]);
            let many: Vec<u64> = (1000..1400).chain([s]).collect();
            let sessions = Some(&many[..]);
            assert_eq!(bodies_of(CandidateQuery { sessions, ..base() }).len(), 4);
            let found = f.index.candidates(&base()).unwrap();
            let v = found.iter().find(|c| c.created == 20).unwrap();
            assert_eq!((v.session, v.kind), (s, 1));
            assert_eq!(v.met, u64::from(!terms.is_empty()));
        }
    }
}

pub fn any_met_term_suffices_and_the_best_come_first(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let all = [
        "apple pie with cream",
        "apple",
        "cream of pears",
        "nothing",
        "apples, pears and cream",
    ];
    f.index.apply(&[texts(&a, "s", &all)], None).unwrap();
    let reach = IndexScope::Shard(a);
    for tidy in [false, true] {
        if tidy {
            tidy_fully(&*f.index);
        }
        let terms = all_words(&["apple", "cream", "pears"]);
        let any = CandidateQuery {
            wanted: CandidateFilter::Any(&terms),
            ..query(&reach, &[])
        };
        let found = f.index.candidates(&any).unwrap();
        let met: Vec<u64> = found.iter().map(|c| c.met).collect();
        assert_eq!(met, [0b111, 0b110, 0b011, 0b001]);
        let shown = bodies(&*f.index, &numbers(&found));
        assert_eq!(
            shown,
            [all[4], all[2], all[0], all[1]].map(|t| {
                let at = all.iter().position(|a| *a == t).unwrap();
                format!("{at}={t}")
            })
        );
        // Literals of one term are alternatives, too.
        let term = ["pie", "nothing"].map(str::to_owned).to_vec();
        let found = f.index.candidates(&query(&reach, &[term])).unwrap();
        assert_eq!(found.len(), 2);
        // A query with more terms than `met` has bits.
        let many: Vec<Vec<String>> = (0..70).map(|_| vec!["apple".to_owned()]).collect();
        let found = f.index.candidates(&query(&reach, &many)).unwrap();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|c| c.met == u64::MAX));
    }
}

pub fn bodies_are_read_in_the_requested_order(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let large = "large ".repeat(100_000);
    f.index
        .apply(
            &[texts(
                &a,
                "s",
                &["one", &large, "three", "", "five\0\u{1f}"],
            )],
            None,
        )
        .unwrap();
    let mut all = numbers(
        &f.index
            .candidates(&query(&IndexScope::Shard(a), &[]))
            .unwrap(),
    );
    all.reverse();
    let order = [all[2], 0, all[0], u64::MAX, all[4], all[1], all[2], all[3]];
    let shown = bodies(&*f.index, &order);
    let large = format!("1={large}");
    assert!(
        shown
            == [
                "2=three",
                "0=one",
                "4=five\0\u{1f}",
                large.as_str(),
                "2=three",
                "3="
            ]
    );
    let mut count = 0;
    let mut two = |_, _: &[u8]| {
        count += 1;
        count < 2
    };
    f.index.bodies(&order, &mut two).unwrap();
    assert_eq!(count, 2);
}

pub fn documents_are_named_in_the_requested_order(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let of_session = |key: &str, units: [u64; 2]| {
        let documents = units.map(|unit| document(&format!("{key}{unit}"), unit, "a plum"));
        update(&a, key, Coverage::All, documents.into())
    };
    // Units may use all 64 bits.
    let updates = [of_session("s", [1, u64::MAX]), of_session("t", [0, 7])];
    f.index.apply(&updates, None).unwrap();
    let reach = IndexScope::Shard(a);
    let mut all = numbers(&f.index.candidates(&query(&reach, &[])).unwrap());
    all.reverse();
    let order = [all[3], 0, all[1], all[0], u64::MAX, all[3]];
    let named = f.index.documents(&order).unwrap();
    let expected = [
        (all[3], "t", 7),
        (all[1], "s", u64::MAX),
        (all[0], "s", 1),
        (all[3], "t", 7),
    ];
    let expected = expected.map(|(no, session, unit)| IndexedDocument {
        no,
        session: (b"r".as_slice().into(), session.into()),
        key: format!("{session}{unit}").into(),
        unit,
        digest: document("", unit, "a plum").digest,
    });
    assert_eq!(named, expected);
    assert!(f.index.documents(&[]).unwrap().is_empty());
}

pub fn short_words_are_found(make: Make) {
    let (f, a) = (make(), shard("r", "a"));
    let all = [
        "中文 学习",
        "日本語を学ぶ",
        "한국어",
        "go is ok",
        "x",
        "Été à Zürich",
        "中",
    ];
    f.index.apply(&[texts(&a, "s", &all)], None).unwrap();
    for tidy in [false, true] {
        if tidy {
            tidy_fully(&*f.index);
        }
        for (word, at) in [
            ("学", &[1, 0][..]),
            ("中", &[6, 0]),
            ("学习", &[0]),
            ("語を", &[1]),
            ("한", &[2]),
            ("is", &[3]),
            ("ete", &[5]),
            ("zürich", &[5]),
            ("x", &[4]),
            ("中文 学习", &[0]),
        ] {
            let expected: Vec<String> = at.iter().map(|n| format!("{n}={}", all[*n])).collect();
            assert_eq!(matching_bodies(&*f.index, &a, &[word]), expected, "{word}");
        }
    }
}

/// Enough documents to be indexed at once instead of waiting for their postings.
pub fn many_documents_are_found(make: Make) {
    let (f, a, b) = (make(), shard("r", "a"), shard("r", "b"));
    let mut updates = Vec::new();
    for session in 0..30 {
        let documents = (0..30).map(|n| {
            let no = session * 30 + n;
            let tenth = if no % 10 == 0 { "tenth" } else { "other" };
            document(&n.to_string(), n, &format!("document no{no}of all {tenth}"))
        });
        let entry = entry(&format!("s{session}"));
        updates.push(IndexUpdate::Session(SessionUpdate {
            shard: if session % 2 == 0 {
                a.clone()
            } else {
                b.clone()
            },
            entry,
            coverage: Coverage::All,
            documents: documents.collect(),
        }));
    }
    f.index.apply(&updates, None).unwrap();
    let realm = IndexScope::Realm((*b"r").into());
    for round in 0..3 {
        let terms = all_words(&["document no", "tenth"]);
        let all = f.index.candidates(&query(&realm, &terms)).unwrap();
        assert!(all.is_sorted_by(|a, b| a.document > b.document));
        assert!(all.len() >= 90);
        assert_eq!(matching_bodies(&*f.index, &a, &["tenth"]).len(), 45);
        assert_eq!(matching_bodies(&*f.index, &b, &["no59of"]).len(), 1);
        assert_eq!(matching_bodies(&*f.index, &a, &["no59of"]).len(), 0);
        assert_eq!(query_bodies(&*f.index, &query(&realm, &[])).len(), 900);
        match round {
            0 => tidy_fully(&*f.index),
            _ => f.index.apply(&updates[..7], None).unwrap(),
        }
    }
}
