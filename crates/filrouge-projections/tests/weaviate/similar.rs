//! Queries for similar turns.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use filrouge_projections::{
    SessionUpdate, SimilarQuery, SimilarTurn, Target, TargetError, Vectors, Weaviate,
};

use crate::support::{key, stored, update, write};
use crate::target;

/// Vectors that only show which words a text has.
#[derive(Debug)]
struct Words;

const DIMENSIONS: usize = 64;

impl Vectors for Words {
    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, TargetError> {
        Ok(texts.iter().map(|text| words(text)).collect())
    }
}

/// The vector of a text, of unit length.
fn words(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0_f32; DIMENSIONS];
    let words = text.split(|c: char| !c.is_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(word.to_lowercase());
        let sign = if hash >> 63 == 0 { 1.0 } else { -1.0 };
        vector[usize::try_from(hash % DIMENSIONS as u64).unwrap()] += sign;
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / length.max(1e-6)).collect()
}

fn of_owner(update: SessionUpdate, owner: &str) -> SessionUpdate {
    let mut update = update;
    update.recorded.session.identity_id = Some(owner.parse().unwrap());
    update
}

fn query(owner: Option<&str>, text: &str, limit: usize) -> SimilarQuery {
    SimilarQuery {
        tenant: "acme".parse().unwrap(),
        owner: owner.map(|owner| owner.parse().unwrap()),
        text: text.to_owned(),
        vector: words(text),
        limit,
    }
}

async fn similar(target: &Weaviate, query: &SimilarQuery) -> Vec<SimilarTurn> {
    target.similar(query).await.unwrap().unwrap()
}

/// Of 2,000 turns, those whose vectors are nearest to a question are found.
#[tokio::test]
async fn similar_turns_are_those_with_the_nearest_vectors() {
    const NOUNS: [&str; 32] = [
        "gate",
        "stone",
        "invoice",
        "refund",
        "train",
        "harbour",
        "price",
        "key",
        "upload",
        "booking",
        "seat",
        "window",
        "router",
        "password",
        "phone",
        "contract",
        "parcel",
        "customs",
        "tax",
        "hotel",
        "breakfast",
        "pool",
        "noise",
        "heating",
        "meter",
        "bill",
        "power",
        "garden",
        "moss",
        "well",
        "lantern",
        "bridge",
    ];
    let Some(target) = target("Similar", Some(Arc::new(Words))) else {
        return;
    };
    assert_eq!(target.similar(&query(None, "gate", 3)).await.unwrap(), None);
    target.create(1).await.unwrap();
    // A generator of numbers that are the same in each run.
    let mut state = 7_u64;
    let mut noun = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        NOUNS[usize::try_from(state >> 59).unwrap()]
    };
    let mut question = || {
        format!(
            "How do the {} and the {} of the {} fit a {}?",
            noun(),
            noun(),
            noun(),
            noun()
        )
    };
    let sessions: Vec<Vec<String>> = (0..500)
        .map(|_| (0..4).map(|_| question()).collect())
        .collect();
    let updates = sessions.iter().enumerate().map(|(n, questions)| {
        let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
        update(&key("acme", &format!("s{n}")), 3, &questions)
    });
    for updates in updates.collect::<Vec<_>>().chunks(50) {
        write(&target, 1, updates).await;
    }
    target.publish(1).await.unwrap();
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let of_turn = |question: &str| words(&format!("{question}\n\nAn answer to {question}"));
    let (mut near, mut all) = (0, 0);
    for asked in sessions.iter().step_by(13).map(|questions| &questions[1]) {
        let asked = asked.replace("How do", "Tell me whether");
        let vector = words(&asked);
        let mut exact: Vec<f32> = sessions
            .iter()
            .flatten()
            .map(|question| product(&vector, &of_turn(question)))
            .collect();
        exact.sort_by(|a, b| b.total_cmp(a));
        let found = similar(&target, &query(Some("anna"), &asked, 10)).await;
        assert_eq!(found.len(), 10);
        for turn in found {
            let number: usize = turn.session.as_str()[1..].parse().unwrap();
            let ordinal = usize::try_from(turn.ordinal).unwrap();
            let similarity = product(&vector, &of_turn(&sessions[number][ordinal - 1]));
            assert!(
                (f64::from(similarity) - turn.score).abs() < 0.01,
                "{turn:?}"
            );
            near += usize::from(similarity >= exact[9] - 1e-4);
            all += 1;
        }
        // With words, too, the question itself is among the first.
        let hybrid = similar(&target, &query(None, &asked, 10)).await;
        assert_eq!(hybrid.len(), 10);
        assert!(hybrid.is_sorted_by(|a, b| a.score >= b.score), "{hybrid:?}");
    }
    assert!(near * 10 >= all * 9, "{near} of {all}");
}

/// Every query of an owner is limited to the owner's turns, whatever the owner and the question contain.
#[tokio::test]
async fn similar_turns_are_of_one_owner() {
    const OWNERS: [&str; 7] = [
        "anna",
        " anna",
        "an\"na}) {session_id}} #",
        "\\\"",
        "{\"operator\": \"Like\"}",
        "*",
        "où 👋",
    ];
    let Some(target) = target("Owners", Some(Arc::new(Words))) else {
        return;
    };
    target.create(1).await.unwrap();
    let sessions: Vec<_> = (0..OWNERS.len())
        .map(|n| key("acme", &format!("s{n}")))
        .collect();
    for (key, owner) in sessions.iter().zip(OWNERS) {
        let update = of_owner(update(key, 3, &["Where is the gate?"]), owner);
        write(&target, 1, &[update]).await;
    }
    let elsewhere = update(&key("other", "s9"), 3, &["Where is the gate?"]);
    write(&target, 1, &[elsewhere]).await;
    target.publish(1).await.unwrap();
    let questions = [
        "where is the gate",
        "\"}, where: {}, limit: 9) {session_id}} #",
        "\\\" or \"\"\"\\",
        "a\r\n\t\u{0}\u{7f}\u{2028}b",
        "東京 👋",
    ];
    for question in questions {
        for (key, owner) in sessions.iter().zip(OWNERS) {
            let found = similar(&target, &query(Some(owner), question, 100)).await;
            let found: Vec<_> = found.into_iter().map(|turn| turn.session).collect();
            assert_eq!(
                found,
                std::slice::from_ref(&key.session),
                "{owner:?} {question:?}"
            );
        }
        let all = similar(&target, &query(None, question, 100)).await;
        assert_eq!(all.len(), OWNERS.len(), "{question:?}");
    }
    let nobody = query(Some("nobody"), "gate", 100);
    assert!(similar(&target, &nobody).await.is_empty());
    let other_tenant = SimilarQuery {
        tenant: "absent".parse().unwrap(),
        ..query(None, "gate", 100)
    };
    assert!(similar(&target, &other_tenant).await.is_empty());
    let other_length = SimilarQuery {
        vector: vec![1.0],
        ..query(None, "gate", 100)
    };
    assert_eq!(target.similar(&other_length).await.unwrap(), None);
    // Once the sessions of an owner are cleaned, no object has the owner's id.
    target.clean(&sessions[0], 3).await.unwrap();
    assert!(
        similar(&target, &query(Some("anna"), "gate", 100))
            .await
            .is_empty()
    );
    for session in target.sessions(1, None, 100).await.unwrap() {
        for row in stored(&target, 1, &session).await {
            let owner = row.content.get("identity_id");
            assert!(session.tenant.as_str() == "other" || owner.is_none_or(|id| id != "anna"));
        }
    }
}

/// Weaviate ignores white space at the ends of the texts of conditions. Owners whose ids differ only in it take no
/// places in each other's answers.
#[tokio::test]
async fn owners_that_differ_in_white_space_are_kept_apart() {
    const OWNERS: [(&str, &str); 3] = [("anna", "gate"), (" anna", "stone"), ("anna ", "invoice")];
    let Some(target) = target("Spaces", Some(Arc::new(Words))) else {
        return;
    };
    target.create(1).await.unwrap();
    let sessions = [0, 1, 2].map(|n| key("acme", &format!("s{n}")));
    for (key, (owner, word)) in sessions.iter().zip(OWNERS) {
        let question = format!("Where is the {word}?");
        let session = update(key, 3, &[question.as_str()]);
        write(&target, 1, &[of_owner(session, owner)]).await;
    }
    target.publish(1).await.unwrap();
    for (key, (owner, _)) in sessions.iter().zip(OWNERS) {
        for (_, word) in OWNERS {
            let nearest = query(Some(owner), &format!("Where is the {word}?"), 1);
            let found = similar(&target, &nearest).await;
            let found: Vec<_> = found.into_iter().map(|turn| turn.session).collect();
            assert_eq!(
                found,
                std::slice::from_ref(&key.session),
                "{owner:?} {word}"
            );
        }
    }
}
