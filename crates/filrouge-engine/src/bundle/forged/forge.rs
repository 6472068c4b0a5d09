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
use super::super::read::parse_sections;
use super::super::sign::sign;
use super::super::verify::{derive_session, digest};
use super::super::{CHECKPOINTS, END, HEAD, ITEMS, OPENING, PublicKey, SIGNATURE, TURNS, item};
use crate::shared::to_json;

const SALT: [u8; 16] = [7; 16];

/// Fills buffers with sevens, so that salts are predictable.
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

pub(super) fn start_event(request: &str, replaces: Option<TurnId>) -> Event {
    Event::Start(Box::new(StartEvent {
        request_id: RequestId::new(request).unwrap(),
        identity_id: None,
        fingerprint: [1; 16],
        replaces,
        application: filrouge_types::Application::default(),
        metadata: None,
    }))
}

pub(super) fn close_event(status: TurnStatus) -> Event {
    Event::Close(Box::new(CloseEvent {
        status,
        fingerprint: [2; 16],
        fallback: false,
        metadata: None,
    }))
}

pub(super) fn redact_event(ranges: &[(u64, u64)]) -> Event {
    Event::Redact(Seqs::from_ranges(ranges.iter().copied()).unwrap())
}

/// An item of an invented journal. `redaction_seq` is the seq of the redaction that erased its content, if any.
#[derive(Clone)]
pub(super) struct ForgedItem {
    pub(super) chained: ChainedItem,
    pub(super) redaction_seq: Option<u64>,
}

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
    let chained = ChainedItem {
        item,
        events,
        proof,
        link,
    };
    ForgedItem {
        chained,
        redaction_seq: None,
    }
}

pub(super) const TEXT_PARTS: &str = r#"[{"type":"text","text":"words"}]"#;

/// A turn of two items, and a redaction of the first item.
pub(super) fn redacted_journal() -> Vec<ForgedItem> {
    let mut first = forge_item(Some(turn(1)), TEXT_PARTS, vec![start_event("r", None)]);
    first.redaction_seq = Some(3);
    vec![
        first,
        forge_item(
            Some(turn(1)),
            TEXT_PARTS,
            vec![close_event(TurnStatus::Finalized)],
        ),
        forge_item(None, "[]", vec![redact_event(&[(1, 1)])]),
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
fn salt_fingerprint(event: &mut Event) {
    match event {
        Event::Start(e) => e.fingerprint = salted(&e.fingerprint, &SALT),
        Event::Close(e) => e.fingerprint = salted(&e.fingerprint, &SALT),
        _ => {}
    }
}

/// Computes the links of the items, and removes the contents of the redacted ones.
pub(super) fn link_items(items: Vec<ForgedItem>) -> Adopt {
    link_items_as("s", items)
}

/// As [`linked`], for the session `id`.
pub(super) fn link_items_as(id: &str, items: Vec<ForgedItem>) -> Adopt {
    let (session, keyring) = (session(id), Keyring::single([0; 32]));
    let scope = LinkScope::new(&session.tenant_id, &session.session_id);
    let (mut link, mut chained_items) = (GENESIS, Vec::new());
    for (forged, seq) in items.into_iter().zip(1..) {
        let mut chained = forged.chained;
        chained.item.seq = seq;
        let item = chained.item.clone();
        let body = ItemBody {
            item_id: item.body.item_id,
            variant: item.body.variant,
            usage: item.body.usage,
            ..ItemBody::new(item.body.role, item.body.channel, item.body.parts.clone())
        };
        let events = chained.events.clone();
        let batch = Batch::pack(vec![Entry { item: body, events }], &Sevens).unwrap();
        let placement = RecordPlacement {
            scope: &scope,
            turn_id: item.turn_id,
            created_at: item.created_at,
            keyring: &keyring,
        };
        (_, link) = placement.place(&batch.records[0], seq, link);
        chained.link = link;
        chained.events.iter_mut().for_each(salt_fingerprint);
        if let Some(redaction_seq) = forged.redaction_seq {
            chained.proof = CommitmentProof::Erased {
                commitment: commitment(&SALT, item.body.parts.as_str().as_bytes()),
                redaction_seq,
            };
            chained.item.body.parts = RawJson::from_checked("[]");
            chained.item.redacted = true;
        }
        chained_items.push(chained);
    }
    Adopt {
        updated_at: session.created_at,
        session,
        items: chained_items,
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
pub(super) fn sign_sections(
    [session, turns, items, checkpoints]: [&str; 4],
    link: &str,
    key: u8,
) -> String {
    let keyring = Keyring::single([key; 32]);
    let count = items.matches("\n{").count() as u64;
    let head = to_json(&SignedHead {
        tenant_id: "t".into(),
        session_id: "s".into(),
        last_seq: count,
        link: link.into(),
        session: digest(session),
        turns: digest(turns),
        items: digest(items),
        checkpoints: digest(checkpoints),
        key_id: 1,
        public_key: public_key(key).to_string(),
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

pub(super) fn public_key(key: u8) -> PublicKey {
    PublicKey::from_keyring(&Keyring::single([key; 32]), 1).unwrap()
}

/// The bundle of a journal, signed with key number `key`. All its digests, links and turns are right.
pub(super) async fn forge_bundle(adopt: &Adopt, key: u8) -> String {
    // No turns can be derived from an impossible journal: it is refused before its turns are examined.
    let (session, turns) = match derive_session(adopt).await {
        Ok((session, turns)) => (session, turns.iter().map(|t| to_json(t).unwrap()).collect()),
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
    let (session, turns, items) = (to_json(&session).unwrap(), list(&turns), list(&items));
    sign_sections([&session, &turns, &items, "[]"], &hex::encode(link), key)
}

/// Replaces `from` by `to` in a bundle, recomputes its digests, and signs it with key number `key`.
pub(super) fn resign(text: &str, from: &str, to: &str, key: u8) -> String {
    assert!(text.contains(from), "{from} in {text}");
    let text = text.replace(from, to);
    let sections = parse_sections(text.as_bytes()).ok().unwrap();
    let last = sections.items.elements.last().unwrap();
    let link = last.rsplit('"').nth(1).unwrap().to_owned();
    let parts = [
        sections.session,
        sections.turns.raw,
        sections.items.raw,
        sections.checkpoints,
    ];
    sign_sections(parts, &link, key)
}
