//! Pages of the turns of one identity.

use std::sync::Arc;

use filrouge_store::memory::MemoryLedger;
use filrouge_store::read::turn_content_len;
use filrouge_store::rows::RECORDS_BYTES;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{FixedClock, JsonText, RawJson, TenantId};

use super::IdentityTurns;
use crate::caller::Caller;
use crate::{Engine, Settings, StartTurn};

fn engine() -> Engine {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
    let mut settings = Settings::default();
    settings.limits.metadata_bytes = 16 << 20;
    Engine::new(Arc::new(ledger), Arc::new(OsEntropy), clock, settings)
}

#[tokio::test]
async fn pages_end_at_the_byte_limit() {
    let engine = engine();
    let ada = Some("ada".parse().unwrap());
    let ada = Caller::local(TenantId::default_tenant(), ada);
    // Three sessions; one turn of 9 MiB exceeds a page.
    let sizes = [[3, 0, 4, 2], [1, 9, 0, 3], [4, 4, 0, 0]];
    let mut expected = Vec::new();
    for (session, sizes) in ["s0", "s1", "s2"].into_iter().zip(sizes) {
        for (n, mib) in sizes.into_iter().enumerate() {
            let large = format!(r#"{{"k":"{}"}}"#, "x".repeat(mib << 20));
            let start = StartTurn {
                question_neutral: Some(JsonText::from_plain("q")),
                metadata: Some(RawJson::parse(&large).unwrap()),
                answer_neutral: Some(JsonText::from_plain("a")),
                ..StartTurn::new(format!("r{n}").parse().unwrap())
            };
            let turn = engine.turns.start(&ada, session.parse().unwrap(), start);
            expected.insert(0, turn.await.unwrap().turn_id);
        }
    }
    for limit in [1, 2, 5, 12, 500] {
        let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let query = IdentityTurns {
                identity_id: "ada".parse().unwrap(),
                status: None,
                cursor,
                limit,
            };
            let (page, next) = engine.turns.of_identity(&ada, query).await.unwrap();
            assert!(!page.is_empty() && page.len() <= limit);
            let all_but_last = &page[..page.len() - 1];
            assert!(all_but_last.iter().map(turn_content_len).sum::<usize>() < RECORDS_BYTES);
            seen.extend(page.into_iter().map(|t| t.turn_id));
            pages += 1;
            match next {
                Some(next) => cursor = Some(next.parse().unwrap()),
                None => break,
            }
        }
        assert_eq!(seen, expected, "{limit} turns per page");
        // 30 MiB do not fit into fewer pages.
        assert!(pages >= 3, "{limit} turns per page: {pages} pages");
    }
}
