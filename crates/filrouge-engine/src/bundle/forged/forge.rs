//! Builds bundles of invented journals (lists of items with events), as an attacker with their own key can.

use filrouge_store::chain::{GENESIS, LinkScope, commitment};
use filrouge_store::command::Adopt;
use filrouge_store::record::{
    Batch, ChainedItem, CloseEvent, CommitmentProof, Entry, Event, RecordPlacement, Seqs,
    StartEvent, salted,
};
use filrouge_store::rows::{HeadRow, SessionRow};
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{
    Channel, Item, ItemBody, RawJson, RequestId, Role, SessionId, SessionStatus, TenantId,
    Timestamp, TurnId, TurnStatus,
};

use super::super::export::SignedHead;
use super::super::read::sections;
use super::super::sign::sign;
use super::super::verify::{digest, rebuild};
use super::super::{CHECKPOINTS, END, HEAD, ITEMS, OPENING, PublicKey, SIGNATURE, TURNS, item};
use crate::core::json;

const SALT: [u8; 16] = [7; 16];

/// Fills with sevens, so that salts are predictable.
struct Sevens;

impl Entropy for Sevens {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), filrouge_types::Failure> {
        bytes.fill(7);
        Ok(())
    }
}

pub(super) fn turn(n: u8) -> TurnId {
    TurnId::from_derived([n; 16])
}

pub(super) fn start(request: &str, replaces: Option<TurnId>) -> Event {
    Event::Start(Box::new(StartEvent {
        request_id: RequestId::new(request).unwrap(),
        identity_id: None,
        fingerprint: [1; 16],
        replaces,
        application: filrouge_types::Application::default(),
        metadata: None,
    }))
}

pub(super) fn close(status: TurnStatus) -> Event {
    Event::Close(Box::new(CloseEvent {
        status,
        fingerprint: [2; 16],
        fallback: false,
        metadata: None,
    }))
}

pub(super) fn redact(ranges: &[(u64, u64)]) -> Event {
    Event::Redact(Seqs::of(ranges.iter().copied()).unwrap())
}

/// An item of an invented journal, and the seq of the redaction that erased its content; `None` if it is not redacted.
#[derive(Clone)]
pub(super) struct ForgedItem(pub(super) ChainedItem, pub(super) Option<u64>);

pub(super) fn forge_item(turn_id: Option<TurnId>, parts: &str, events: Vec<Event>) -> ForgedItem {
    let item = Item {
        seq: 0,
        turn_id,
        created_at: Timestamp::from_micros(1_700_000_000_000_000),
        redacted: false,
        body: ItemBody::new(
            Role::User,
            Channel::Question,
            RawJson::parse(parts).unwrap(),
        ),
    };
    let (proof, link) = (CommitmentProof::Salt(SALT), GENESIS);
    let one = ChainedItem {
        item,
        events,
        proof,
        link,
    };
    ForgedItem(one, None)
}

pub(super) const WORDS: &str = r#"[{"type":"text","text":"words"}]"#;

/// A turn of two items, and a redaction of the first.
pub(super) fn journal() -> Vec<ForgedItem> {
    let mut first = forge_item(Some(turn(1)), WORDS, vec![start("r", None)]);
    first.1 = Some(3);
    vec![
        first,
        forge_item(Some(turn(1)), WORDS, vec![close(TurnStatus::Finalized)]),
        forge_item(None, "[]", vec![redact(&[(1, 1)])]),
    ]
}

pub(super) fn session(id: &str) -> SessionRow {
    SessionRow {
        tenant_id: TenantId::new("t").unwrap(),
        session_id: SessionId::new(id).unwrap(),
        identity_id: None,
        parent_session_id: None,
        project_id: None,
        team_id: None,
        title: Some("title".into()),
        status: SessionStatus::Active,
        state: None,
        metadata: RawJson::from_checked("{}"),
        created_at: Timestamp::from_micros(1_700_000_000_000_000),
        token: None,
        erased: None,
    }
}

/// Gives an event a salted fingerprint, like a stored event.
fn stored(event: &mut Event) {
    match event {
        Event::Start(e) => e.fingerprint = salted(&e.fingerprint, &SALT),
        Event::Close(e) => e.fingerprint = salted(&e.fingerprint, &SALT),
        _ => {}
    }
}

/// Computes the links of the items, and removes the contents of the redacted ones.
pub(super) fn linked(items: Vec<ForgedItem>) -> Adopt {
    linked_as("s", items)
}

/// As [`linked`], for the session `id`.
pub(super) fn linked_as(id: &str, items: Vec<ForgedItem>) -> Adopt {
    let (session, keyring) = (session(id), Keyring::single([0; 32]));
    let scope = LinkScope::new(&session.tenant_id, &session.session_id);
    let (mut link, mut chained) = (GENESIS, Vec::new());
    for (ForgedItem(mut one, redaction_seq), seq) in items.into_iter().zip(1..) {
        one.item.seq = seq;
        let item = one.item.clone();
        let sent = ItemBody {
            item_id: item.body.item_id,
            variant: item.body.variant,
            usage: item.body.usage,
            ..ItemBody::new(item.body.role, item.body.channel, item.body.parts.clone())
        };
        let events = one.events.clone();
        let batch = Batch::seal(vec![Entry { item: sent, events }], &Sevens).unwrap();
        let placement = RecordPlacement {
            scope: &scope,
            turn_id: item.turn_id,
            created_at: item.created_at,
            keyring: &keyring,
        };
        (_, link) = placement.place(&batch.records[0], seq, link);
        one.link = link;
        one.events.iter_mut().for_each(stored);
        if let Some(redaction_seq) = redaction_seq {
            one.proof = CommitmentProof::Erased {
                commitment: commitment(&SALT, item.body.parts.as_str().as_bytes()),
                redaction_seq,
            };
            one.item.body.parts = RawJson::from_checked("[]");
            one.item.redacted = true;
        }
        chained.push(one);
    }
    Adopt {
        updated_at: session.created_at,
        session,
        items: chained,
        side_rows: Default::default(),
    }
}

fn list(elements: &[String]) -> String {
    if elements.is_empty() {
        return "[]".to_owned();
    }
    format!("[\n{}\n]", elements.join(",\n"))
}

/// Assembles a bundle of these sections, signed with key number `key`. `link` is the link of the newest item, in
/// hexadecimal.
pub(super) fn signed(
    [session, turns, items, checkpoints]: [&str; 4],
    link: &str,
    key: u8,
) -> String {
    let keyring = Keyring::single([key; 32]);
    let count = items.matches("\n{").count() as u64;
    let head = json(&SignedHead {
        tenant_id: "t".into(),
        session_id: "s".into(),
        last_seq: count,
        link: link.into(),
        session: digest(session),
        turns: digest(turns),
        items: digest(items),
        checkpoints: digest(checkpoints),
        key_id: 1,
        public_key: public(key).to_string(),
    });
    let head = head.unwrap();
    let signature = sign(&keyring, 1, &head).unwrap();
    [
        OPENING,
        session,
        TURNS,
        turns,
        ITEMS,
        items,
        CHECKPOINTS,
        checkpoints,
        HEAD,
        &head,
        SIGNATURE,
        &format!("\"{signature}\""),
        END,
    ]
    .concat()
}

pub(super) fn public(key: u8) -> PublicKey {
    PublicKey::of(&Keyring::single([key; 32]), 1).unwrap()
}

/// The bundle of a journal, signed with key number `key`: everything in it that can be recomputed is right.
pub(super) async fn forged(adopt: &Adopt, key: u8) -> String {
    // An impossible journal has no turns; it is refused before they are examined.
    let (session, turns) = match rebuild(adopt).await {
        Ok((session, turns)) => (session, turns.iter().map(|t| json(t).unwrap()).collect()),
        Err(_) => {
            let mut head = HeadRow::empty([0; 16], adopt.updated_at);
            head.last_seq = adopt.items.len() as u64;
            (adopt.session.clone().with_head(&head), Vec::new())
        }
    };
    let items: Vec<String> = adopt
        .items
        .iter()
        .map(|i| item::write(i).unwrap())
        .collect();
    let link = adopt.items.last().map_or(GENESIS, |i| i.link);
    let (session, turns, items) = (json(&session).unwrap(), list(&turns), list(&items));
    signed([&session, &turns, &items, "[]"], &hex::encode(link), key)
}

/// Replaces `from` by `to` in a bundle, recomputes its digests, and signs it with key number `key`.
pub(super) fn resigned(text: &str, from: &str, to: &str, key: u8) -> String {
    assert!(text.contains(from), "{from} in {text}");
    let text = text.replace(from, to);
    let s = sections(text.as_bytes()).ok().unwrap();
    let last = s.items.elements.last().unwrap();
    let link = last.rsplit('"').nth(1).unwrap().to_owned();
    let parts = [s.session, s.turns.raw, s.items.raw, s.checkpoints];
    signed(parts, &link, key)
}
