//! After random changes, no document is missed, and no shard affects another's results.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{IndexFixture, IndexTestExt as _, document, memory, query, shard, tidy_fully, update};
use crate::text_index::{
    CandidateFilter, CandidateQuery, Coverage, IndexScope, IndexUpdate, NewDocument,
    SessionSelection, Shard, TITLE, TextIndex, fold,
};

type Make<'a> = &'a dyn Fn() -> IndexFixture;

#[derive(Debug, Clone)]
enum RandomStep {
    Put {
        owner: usize,
        session: usize,
        coverage: Option<Coverage>,
        texts: Vec<(u64, u8, i64, String)>,
    },
    Remove(usize),
    Forget(usize),
    Tidy,
    Query(Vec<Vec<String>>, bool, Option<i64>),
}

const OWNERS: [&str; 3] = ["a", "b", "c"];

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[abc]{1,4}",
        "[中文学é한ß]{1,3}",
        Just("snake_case".to_owned()),
        Just("été".to_owned()),
        "[ab ]{2,5}",
        Just("\u{1f}".to_owned()),
    ]
}

fn words() -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..6).prop_map(|pieces| pieces.join(" "))
}

fn step() -> impl Strategy<Value = RandomStep> {
    let texts = proptest::collection::vec((0..6_u64, 0..4_u8, -5..5_i64, words()), 0..5);
    let coverage = prop_oneof![
        Just(Some(Coverage::All)),
        proptest::collection::vec(0..6_u64, 0..3).prop_map(|units| Some(Coverage::Units(units))),
        Just(Some(Coverage::Units(vec![1, 3]))),
        Just(None),
    ];
    let literal = piece().prop_filter("nothing", |l| !l.contains('\u{1f}'));
    let term = proptest::collection::vec(literal, 1..3);
    let terms = proptest::collection::vec(term, 0..4);
    prop_oneof![
        5 => (0..3_usize, 0..4_usize, coverage, texts).prop_map(|(owner, session, coverage, texts)| RandomStep::Put { owner, session, coverage, texts }),
        1 => (0..4_usize).prop_map(RandomStep::Remove),
        1 => (0..4_usize).prop_map(RandomStep::Forget),
        2 => Just(RandomStep::Tidy),
        4 => (terms, any::<bool>(), proptest::option::of(-5..5_i64)).prop_map(|(terms, any, since)| RandomStep::Query(terms, any, since)),
    ]
}

fn to_update(step: &RandomStep) -> Option<(usize, IndexUpdate)> {
    match step {
        RandomStep::Put {
            owner,
            session,
            coverage,
            texts,
        } => {
            let document = |(unit, kind, created, text): &(u64, u8, i64, String)| NewDocument {
                kind: if *kind == 3 { TITLE } else { *kind },
                created: *created,
                ..document(&unit.to_string(), *unit, text)
            };
            let coverage = coverage.clone().unwrap_or(Coverage::Units(Vec::new()));
            let documents = texts.iter().map(document).collect();
            let of = shard("r", OWNERS[*owner]);
            Some((
                *owner,
                update(&of, &format!("s{session}"), coverage, documents),
            ))
        }
        RandomStep::Remove(session) => {
            let removal = IndexUpdate::Removed(((*b"r").into(), format!("s{session}").into()));
            Some((0, removal))
        }
        _ => None,
    }
}

/// The compared properties of a document: its session's id, its key with its text, its kind and time, and the terms
/// that it really meets.
type Row = (String, String, u8, i64, u64);

fn rows(index: &dyn TextIndex, query: &CandidateQuery<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for candidate in index.candidates(query).unwrap() {
        let realm = IndexScope::Realm((*b"r").into());
        let numbers = [candidate.session];
        let session = index
            .state(SessionSelection::Numbers(&realm, &numbers))
            .unwrap()
            .sessions;
        let body = super::bodies(index, &[candidate.document]).remove(0);
        let text = fold(body.split_once('=').unwrap().1).into_owned();
        let mut met = 0;
        for (n, term) in query.wanted.terms().iter().enumerate() {
            let is_contained = term.iter().any(|literal| text.contains(literal.as_str()));
            assert!(
                !is_contained || candidate.met >> n & 1 == 1,
                "{body:?} {term:?}"
            );
            met |= u64::from(is_contained) << n;
        }
        let is_met = match query.wanted.is_any() {
            true => met != 0,
            false => met.count_ones() as usize == query.wanted.terms().len(),
        };
        if is_met {
            let key = session[0].entry.key.to_string();
            rows.push((key, body, candidate.kind, candidate.created, met));
        }
    }
    if query.wanted.is_any() {
        rows.sort();
    }
    rows
}

/// The result of a query in each shard and in all.
fn query_results(
    index: &dyn TextIndex,
    step: &RandomStep,
    reaches: &[IndexScope],
) -> Vec<Vec<Row>> {
    let RandomStep::Query(terms, any, since) = step else {
        return Vec::new();
    };
    let fold = |term: &Vec<String>| term.iter().map(|l| fold(l).into_owned()).collect();
    let terms: Vec<Vec<String>> = terms.iter().map(fold).collect();
    let query_in = |reach| {
        let filter = CandidateQuery {
            wanted: match any {
                true => CandidateFilter::Any(&terms),
                false => CandidateFilter::All(&terms),
            },
            since: *since,
            ..query(reach, &[])
        };
        rows(index, &filter)
    };
    reaches.iter().map(query_in).collect()
}

fn apply_step(index: &dyn TextIndex, step: &RandomStep) {
    if let Some((_, update)) = to_update(step) {
        index.apply(&[update], None).unwrap();
    }
    match step {
        RandomStep::Forget(session) => {
            index.forget(b"r", &format!("s{session}")).unwrap();
        }
        RandomStep::Tidy => tidy_fully(index),
        _ => {}
    }
}

fn run_random_steps(cases: u32, test: impl Fn(Vec<RandomStep>)) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let steps = proptest::collection::vec(step(), 1..24);
    TestRunner::new(config)
        .run(&steps, |steps| {
            test(steps);
            Ok(())
        })
        .unwrap();
}

fn owner(name: &str) -> Shard {
    shard("r", name)
}

pub fn no_document_is_missed(make: Make) {
    let mut reaches: Vec<IndexScope> = OWNERS.iter().map(|o| IndexScope::Shard(owner(o))).collect();
    reaches.push(IndexScope::Realm((*b"r").into()));
    reaches.push(IndexScope::Realm((*b"q").into()));
    let (index, model) = (make(), memory());
    run_random_steps(48, |steps| {
        index.index.clear().unwrap();
        model.index.clear().unwrap();
        for step in &steps {
            apply_step(&*index.index, step);
            apply_step(&*model.index, step);
            let [found, expected] =
                [&index, &model].map(|f| query_results(&*f.index, step, &reaches));
            assert_eq!(found, expected, "{step:?}");
        }
        let [found, expected] = [&index, &model].map(|f| {
            let status = f.index.status().unwrap();
            (status.sessions, status.documents, status.text_bytes)
        });
        assert_eq!(found, expected);
    });
}

/// One owner's results are the same with and without other owners.
pub fn other_owners_do_not_matter(make: Make) {
    let reaches = [IndexScope::Shard(owner("a"))];
    let (alone, among) = (make(), make());
    run_random_steps(24, |steps| {
        alone.index.clear().unwrap();
        among.index.clear().unwrap();
        for (n, step) in steps.iter().enumerate() {
            // In this test sessions do not move between owners, because a moved session would belong to another owner.
            let step = match step.clone() {
                RandomStep::Put {
                    session,
                    owner,
                    coverage,
                    texts,
                } => RandomStep::Put {
                    session: session * 3 + owner,
                    owner,
                    coverage,
                    texts,
                },
                step => step,
            };
            apply_step(&*among.index, &step);
            let own = match &step {
                RandomStep::Put { owner, .. } => *owner == 0,
                RandomStep::Remove(session) | RandomStep::Forget(session) => session % 3 == 0,
                _ => true,
            };
            if own {
                apply_step(&*alone.index, &step);
            }
            let [alone, among] =
                [&alone, &among].map(|f| query_results(&*f.index, &step, &reaches));
            assert_eq!(alone, among, "{n} {step:?}");
        }
    });
}
