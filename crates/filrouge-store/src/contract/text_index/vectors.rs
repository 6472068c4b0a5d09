//! Vectors and nearest documents.

use super::{ALL_KINDS, IndexFixture, IndexTestExt as _, numbers, query, shard, texts};
use crate::text_index::product;
use crate::text_index::{Candidate, CandidateQuery, IndexScope};

type Make<'a> = &'a dyn Fn() -> IndexFixture;

const WORDS: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

fn vector(no: usize) -> Vec<i8> {
    let element = |n: usize| i8::try_from((no * 37 + n * n * 11) % 255).unwrap_or(-128);
    (0..40).map(element).collect()
}

/// Six documents of one shard and one of another, newest first.
fn add_documents(f: &IndexFixture) -> Vec<Candidate> {
    let (a, b) = (shard("r", "a"), shard("r", "b"));
    f.index
        .apply(&[texts(&a, "s", &WORDS), texts(&b, "t", &["seven"])], None)
        .unwrap();
    let realm = IndexScope::Realm((*b"r").into());
    f.index.candidates(&query(&realm, &[])).unwrap()
}

pub fn the_nearest_documents_are_found(make: Make) {
    let f = make();
    let all = add_documents(&f);
    let vector_of = |c: &Candidate| (c.document, vector(usize::try_from(c.document).unwrap()));
    let mut put: Vec<_> = all.iter().map(vector_of).collect();
    put.push((u64::MAX, vector(1)));
    put.push((1 << 40, vector(1)));
    f.index.put_vectors("m", &put).unwrap();
    f.index.put_vectors("m", &put[..1]).unwrap();
    let query_vector = vector(3);
    for (reach, count) in [
        (IndexScope::Shard(shard("r", "a")), 6),
        (IndexScope::Realm((*b"r").into()), 7),
        (IndexScope::Shard(shard("q", "a")), 0),
    ] {
        let filter = query(&reach, &[]);
        let candidates = f.index.candidates(&filter).unwrap();
        let mut expected: Vec<_> = candidates
            .into_iter()
            .map(|c| (c, product(&query_vector, &vector_of(&c).1).unwrap()))
            .collect();
        expected.sort_by_key(|(c, p)| (-p, std::cmp::Reverse(c.document)));
        assert_eq!(expected.len(), count);
        for limit in [0, 1, 3, 100] {
            let near = f.index.nearest("m", &query_vector, &filter, limit).unwrap();
            assert_eq!(near, expected[..limit.min(count)]);
        }
        assert_eq!(f.index.nearest("n", &query_vector, &filter, 9).unwrap(), []);
        assert_eq!(
            f.index
                .nearest("m", &query_vector[1..], &filter, 9)
                .unwrap(),
            []
        );
        let kinds = CandidateQuery {
            kinds: 1 << 5,
            ..filter
        };
        assert_eq!(f.index.nearest("m", &query_vector, &kinds, 9).unwrap(), []);
    }
}

pub fn documents_without_vectors_are_found(make: Make) {
    let f = make();
    let all = numbers(&add_documents(&f));
    let without = |limit| f.index.without_vector("m", ALL_KINDS, limit).unwrap();
    assert_eq!(without(100), all);
    assert_eq!(without(2), all[..2]);
    // An empty vector also counts as a vector: this document is not requested again.
    f.index
        .put_vectors("m", &[(all[0], vec![1]), (all[2], Vec::new())])
        .unwrap();
    assert_eq!(without(2), [all[1], all[3]]);
    f.index.put_vectors("m", &[(all[1], vec![1])]).unwrap();
    assert_eq!(without(100), all[3..]);
    assert_eq!(f.index.without_vector("m", 1 << 9, 9).unwrap().len(), 0);
    // Documents that are added later are found, and so are the older ones that still have no vector.
    let a = shard("r", "a");
    f.index
        .apply(&[texts(&a, "new", &["eight"])], None)
        .unwrap();
    let later = without(100);
    assert_eq!(later[1..], all[3..]);
    assert!(later[0] > all[0]);
    assert_eq!(f.index.without_vector("n", ALL_KINDS, 99).unwrap().len(), 8);
}

pub fn vectors_are_removed_with_their_documents(make: Make) {
    let f = make();
    let all = numbers(&add_documents(&f));
    let put: Vec<_> = all.iter().map(|no| (*no, vec![1, 2])).collect();
    f.index.put_vectors("m", &put).unwrap();
    f.index.put_vectors("n", &put[..2]).unwrap();
    let counts = || f.index.status().unwrap().vectors;
    assert_eq!(counts(), [("m".into(), 7), ("n".into(), 2)]);
    f.index.forget(b"r", "t").unwrap();
    assert_eq!(counts(), [("m".into(), 6), ("n".into(), 1)]);
    f.index.put_vectors("m", &put).unwrap();
    assert_eq!(counts(), [("m".into(), 6), ("n".into(), 1)]);
    f.index.clear().unwrap();
    assert_eq!(counts(), []);
}
