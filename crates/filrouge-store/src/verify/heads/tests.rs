//! Attacks that restore older rows and forge a newest commit with a matching digest, as a weakness of the digest could
//! allow. The comparison with the commit log detects them, because it does not depend on the digest.

use std::sync::LazyLock;

use filrouge_types::{IdentityId, SessionId, TenantId, Timestamp};

use super::*;
use crate::command::{
    Command, Link, NewSession, Patch, PutNote, Scope, SessionFilter, SessionPatch, Viewer, Write,
};
use crate::keyring::OsEntropy;
use crate::memory::rows::Rows;
use crate::read::{Findings, VerifiedSnapshot};
use crate::record::MacCheck;
use crate::rules::{self, CommitGroup, RuleContext};
use crate::verify::HeadCheck;

struct World {
    rows: Rows,
    keyring: Keyring,
}

fn sid(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

impl World {
    /// A store of one lane with the sessions a and b and a note.
    fn new() -> Self {
        Self::with_lanes(Lanes::ONE)
    }

    fn with_lanes(lanes: Lanes) -> Self {
        let mut world = Self {
            rows: Rows {
                lanes,
                ..Rows::default()
            },
            keyring: Keyring::single([7; 32]).for_store("store", lanes),
        };
        for id in ["a", "b"] {
            world.write(Write::CreateSession(NewSession::with_id(sid(id))));
        }
        world.put_note(0);
        world
    }

    fn write(&mut self, write: Write) {
        self.write_as(Viewer::Operator, write);
    }

    fn write_as(&mut self, viewer: Viewer, write: Write) {
        let scope = Scope::new(TenantId::default_tenant(), viewer);
        let ctx = RuleContext {
            keyring: &self.keyring,
            entropy: &OsEntropy,
            now: Timestamp::from_micros(1),
            lease_now: Timestamp::from_micros(1),
            server: &String::new,
            suspects: &Suspects::default(),
            known_heads: None,
        };
        let command = Command { scope, write };
        let lane = command.lane(self.rows.lanes);
        let mut group = CommitGroup::begin(&self.rows, lane, ctx.keyring).unwrap();
        rules::apply(&mut self.rows, &mut group, &ctx, &command).unwrap();
        group.finish(&mut self.rows, &ctx).unwrap();
    }

    fn put_note(&mut self, expected: u64) {
        self.write(Write::PutNote(PutNote {
            name: "keys".into(),
            expected,
            value: expected.to_be_bytes().to_vec(),
        }));
    }

    fn patch(&mut self, id: &str) {
        self.write(Write::Patch(Box::new(Patch {
            session_id: sid(id),
            patch: SessionPatch {
                title: Some(Some("new".into())),
                ..SessionPatch::default()
            },
            versions: None,
            metadata_max: 200,
        })));
    }

    /// The digests of the present rows, by the lane.
    fn digests(&self) -> Vec<Digest> {
        let scan = StoreScan::run(&self.rows, &self.keyring, None);
        scan.unwrap().digests
    }

    /// Adds to each lane a commit without changes whose digest matches the present rows.
    fn forge_commits(&mut self) {
        for (lane, digest) in self.rows.lanes.iter().zip(self.digests()) {
            self.forge_commit(lane, digest);
        }
    }

    /// Adds a commit without changes to a lane.
    fn forge_commit(&mut self, lane: Lane, digest: Digest) {
        let newest = self.rows.newest_log(lane).unwrap();
        let now = Timestamp::from_micros(2);
        let masked = digest.masked(&self.keyring, &OsEntropy).unwrap();
        let row = LogRow::after(newest.as_ref(), lane, now, &[], masked, &self.keyring);
        self.rows.log.insert((lane, row.commit_no), row);
    }

    fn compare(&self, known: &KnownHeads) -> Suspects {
        known.compare(&self.rows, &self.keyring).unwrap()
    }

    /// Asserts that a comparison with the digest finds no suspects, and that comparisons with the log and with the
    /// earlier heads do.
    fn assert_found_by_log(&self, earlier: &KnownHeads, is_suspect: impl Fn(&Suspects) -> bool) {
        assert!(self.compare(&KnownHeads::default()).is_empty());
        for suspects in [
            self.compare(earlier),
            compare_with_log(&self.rows, &self.keyring).unwrap(),
        ] {
            assert!(
                is_suspect(&suspects) && suspects.store.is_none(),
                "{suspects:?}"
            );
        }
    }
}

#[test]
fn a_session_restored_under_a_matching_digest_is_found() {
    let mut world = World::new();
    let old = (
        world.rows.sessions[&1].clone(),
        world.rows.heads[&1].clone(),
    );
    let known = KnownHeads::default();
    assert!(world.compare(&known).is_empty());
    world.patch("a");
    world.patch("b");
    assert!(world.compare(&known).is_empty());
    world.rows.sessions.insert(1, old.0);
    world.rows.heads.insert(1, old.1);
    world.forge_commits();
    world.assert_found_by_log(&known, |suspects| {
        suspects.check(1, &sid("a")).is_err() && suspects.check(2, &sid("b")).is_ok()
    });
}

#[test]
fn a_note_restored_under_a_matching_digest_is_found() {
    let mut world = World::new();
    let old = world.rows.notes["keys"].clone();
    let known = KnownHeads::default();
    assert!(world.compare(&known).is_empty());
    world.put_note(1);
    world.rows.notes.insert("keys".into(), old);
    world.forge_commits();
    world.assert_found_by_log(&known, |suspects| {
        suspects.check_note("keys").is_err() && suspects.check(1, &sid("a")).is_ok()
    });
}

/// A snapshot that began before the last comparison is compared with the digest of its own newest commit.
#[test]
fn an_older_snapshot_is_not_suspect() {
    let mut world = World::new();
    let known = KnownHeads::default();
    let older_rows = world.snapshot();
    world.patch("a");
    assert!(world.compare(&known).is_empty());
    let suspects = known.compare(&older_rows, &world.keyring).unwrap();
    assert!(suspects.is_empty(), "{suspects:?}");
    assert!(world.compare(&known).is_empty());
}

impl World {
    /// A copy of the rows that reads use.
    fn snapshot(&self) -> Rows {
        Rows {
            lanes: self.rows.lanes,
            sessions: self.rows.sessions.clone(),
            names: self.rows.names.clone(),
            heads: self.rows.heads.clone(),
            notes: self.rows.notes.clone(),
            log: self.rows.log.clone(),
            ..Rows::default()
        }
    }

    /// Whether a read of the session `id` in `rows` finds it, and whether it is refused.
    fn read(&self, rows: &Rows, known: &KnownHeads, id: &str) -> Result<bool, ErrorCode> {
        let scope = Scope::new(TenantId::default_tenant(), Viewer::Operator);
        let session = self.verified_snapshot(rows, known).find(&scope, &sid(id));
        session.map(|s| s.is_some()).map_err(|failure| failure.code)
    }

    fn verified_snapshot<'a>(
        &'a self,
        rows: &'a Rows,
        known: &'a KnownHeads,
    ) -> VerifiedSnapshot<'a, Rows> {
        VerifiedSnapshot {
            view: rows,
            keyring: &self.keyring,
            check: MacCheck::Keyed,
            suspects: &NO_SUSPECTS,
            heads: HeadCheck {
                known: Some(known),
                uncommitted: &[],
                applied: None,
            },
        }
    }
}

static NO_SUSPECTS: LazyLock<Suspects> = LazyLock::new(Suspects::default);

#[test]
fn a_restored_or_deleted_session_is_refused_when_it_is_read() {
    let mut world = World::new();
    let known = KnownHeads::default();
    assert!(world.compare(&known).is_empty());
    let old = world.snapshot();
    // The process has not read these commits yet.
    world.patch("a");
    world.write(Write::CreateSession(NewSession::with_id(sid("c"))));
    assert_eq!(world.read(&world.snapshot(), &known, "a"), Ok(true));

    let mut restored = world.snapshot();
    restored.sessions.insert(1, old.sessions[&1].clone());
    restored.heads.insert(1, old.heads[&1].clone());
    assert_eq!(
        world.read(&restored, &known, "a"),
        Err(ErrorCode::IntegrityError)
    );
    assert_eq!(world.read(&restored, &known, "b"), Ok(true));
    let suspects = known.take_suspects();
    assert!(suspects.check(1, &sid("a")).is_err() && suspects.check(2, &sid("b")).is_ok());
    assert!(known.take_suspects().is_empty());

    let mut deleted = world.snapshot();
    deleted.sessions.remove(&3);
    deleted.names.retain(|_, pk| *pk != 3);
    assert_eq!(
        world.read(&deleted, &known, "c"),
        Err(ErrorCode::IntegrityError)
    );
    assert_eq!(world.read(&deleted, &known, "never"), Ok(false));
}

#[test]
fn a_restored_or_deleted_note_is_refused_when_it_is_read() {
    let mut world = World::new();
    let known = KnownHeads::default();
    assert!(world.compare(&known).is_empty());
    let old = world.snapshot();
    world.put_note(1);
    assert!(world.compare(&known).is_empty());
    for note in [Some(old.notes["keys"].clone()), None] {
        let mut rows = world.snapshot();
        match note {
            Some(note) => rows.notes.insert("keys".into(), note),
            None => rows.notes.remove("keys"),
        };
        let read = world.verified_snapshot(&rows, &known).note("keys");
        assert_eq!(read.unwrap_err().code, ErrorCode::IntegrityError);
    }
    let read = world.verified_snapshot(&world.rows, &known).note("keys");
    assert_eq!(read.unwrap().unwrap().version, 2);
}

/// A snapshot that began before the newest known commits is not compared with the rows that they wrote.
#[test]
fn an_older_snapshot_is_read() {
    let mut world = World::new();
    let known = KnownHeads::default();
    assert!(world.compare(&known).is_empty());
    let old = world.snapshot();
    world.patch("a");
    world.write(Write::CreateSession(NewSession::with_id(sid("c"))));
    assert!(world.compare(&known).is_empty());
    assert_eq!(world.read(&old, &known, "a"), Ok(true));
    assert_eq!(world.read(&old, &known, "c"), Ok(false));
}

/// A store of three lanes, and a session in each of two lanes.
fn two_lanes() -> (World, [SessionPk; 2]) {
    let mut world = World::with_lanes(Lanes::new(3).unwrap());
    let (tenant, lanes) = (TenantId::default_tenant(), world.rows.lanes);
    let first = lanes.of_session(&tenant, &sid("a"));
    let mut names = (0..).map(|n| sid(&format!("s{n}")));
    let other = names.find(|id| lanes.of_session(&tenant, id) != first);
    let other = other.unwrap();
    world.write(Write::CreateSession(NewSession::with_id(other.clone())));
    let pks = [sid("a"), other].map(|id| world.rows.names[&(tenant.clone(), id)]);
    assert_ne!(lanes.of_pk(pks[0]), lanes.of_pk(pks[1]));
    assert!(world.compare(&KnownHeads::default()).is_empty());
    (world, pks)
}

/// The term leaves the sum over all lanes unchanged, but each lane's digest is compared with its own rows.
#[test]
fn a_term_in_the_digest_of_another_lane_is_found() {
    let (mut world, pks) = two_lanes();
    let [from, to] = pks.map(|pk| world.rows.lanes.of_pk(pk));
    let (row, mac) = (DigestRow::Head(pks[0]), world.rows.heads[&pks[0]].mac);
    let digests = world.digests();
    let without = digests[from.index()].minus(&world.keyring, row, &mac);
    let with = digests[to.index()].plus(&world.keyring, row, &mac);
    world.forge_commit(from, without);
    world.forge_commit(to, with);
    for suspects in [
        world.compare(&KnownHeads::default()),
        compare_with_log(&world.rows, &world.keyring).unwrap(),
    ] {
        assert_eq!(suspects.store.as_deref(), Some(DIGEST_DIFFERS));
    }
}

#[test]
fn a_session_restored_under_matching_digests_is_found_in_its_lane() {
    let (mut world, pks) = two_lanes();
    let old = (
        world.rows.sessions[&pks[0]].clone(),
        world.rows.heads[&pks[0]].clone(),
    );
    let known = KnownHeads::default();
    assert!(world.compare(&known).is_empty());
    world.patch("a");
    assert!(world.compare(&known).is_empty());
    world.rows.sessions.insert(pks[0], old.0);
    world.rows.heads.insert(pks[0], old.1);
    world.forge_commits();
    world.assert_found_by_log(&known, |suspects| {
        suspects.check(pks[0], &sid("a")).is_err() && suspects.check(pks[1], &sid("other")).is_ok()
    });
}

#[test]
fn commits_swapped_between_lanes_are_found() {
    let (mut world, pks) = two_lanes();
    let places = pks.map(|pk| (world.rows.lanes.of_pk(pk), 1));
    let [a, b] = places.map(|place| world.rows.log[&place].encode());
    for ((lane, commit_no), bytes) in places.into_iter().zip([b, a]) {
        let row = LogRow::decode(lane, commit_no, &bytes).unwrap();
        world.rows.log.insert((lane, commit_no), row);
    }
    let suspects = compare_with_log(&world.rows, &world.keyring).unwrap();
    assert!(suspects.store.is_some(), "{suspects:?}");
}

fn user(name: &str) -> Viewer {
    Viewer::EndUser(Some(IdentityId::new(name).unwrap()))
}

impl World {
    /// The sessions that a list contains, and those that it names as damaged.
    fn list(
        &self,
        rows: &Rows,
        suspects: &Suspects,
        viewer: Viewer,
    ) -> Result<[Vec<String>; 2], Failure> {
        let known = KnownHeads::default();
        let snapshot = VerifiedSnapshot {
            suspects,
            ..self.verified_snapshot(rows, &known)
        };
        let (scope, mut findings) = (
            Scope::new(TenantId::default_tenant(), viewer),
            Findings::default(),
        );
        let filter = SessionFilter::default();
        let (page, _) = snapshot.list_sessions(&scope, &filter, None, 10, &mut findings)?;
        let listed = page.iter().map(|session| session.session_id.to_string());
        let found = findings.into_vec();
        let found = found.iter().map(|finding| finding.session_id.clone());
        Ok([listed.collect(), found.map(Option::unwrap).collect()])
    }
}

#[test]
fn a_damaged_session_concerns_only_its_owner() {
    let mut world = World::new();
    for (session, owner) in [("c", "ann"), ("d", "bob")] {
        let create = Write::CreateSession(NewSession::with_id(sid(session)));
        world.write_as(user(owner), create);
    }
    world.write(Write::Link(Link {
        session_id: sid("a"),
        identity_id: IdentityId::new("ann").unwrap(),
    }));
    let delete = |world: &World, pks: &[SessionPk]| {
        let mut rows = world.snapshot();
        for pk in pks {
            rows.sessions.remove(pk);
            rows.names.retain(|_, known| *known != *pk);
        }
        rows
    };
    let rows = delete(&world, &[1, 3]);
    let suspects = compare_with_log(&rows, &world.keyring).unwrap();
    let list = |viewer| world.list(&rows, &suspects, viewer).unwrap();
    assert_eq!(list(user("ann")), [vec![], vec!["a", "c"]]);
    assert_eq!(list(user("bob")), [vec!["d"], vec![]]);
    assert_eq!(list(Viewer::EndUser(None)), [vec!["b"], vec![]]);
    // A list without findings is refused to the owner.
    let known = KnownHeads::default();
    let snapshot = VerifiedSnapshot {
        suspects: &suspects,
        ..world.verified_snapshot(&rows, &known)
    };
    let complete = |viewer| {
        let scope = Scope::new(TenantId::default_tenant(), viewer);
        snapshot.sessions(&scope, &SessionFilter::default(), None, 10)
    };
    let refused = complete(user("ann")).unwrap_err();
    assert_eq!(refused.location.unwrap().session_id, "a");
    assert_eq!(complete(user("bob")).unwrap().0.len(), 1);

    // A read finds older rows of a session, which are deleted then.
    let mut restored = world.snapshot();
    world.patch("d");
    restored.log = world.rows.log.clone();
    let known = KnownHeads::default();
    assert!(world.compare(&known).is_empty());
    assert_eq!(
        world.read(&restored, &known, "d"),
        Err(ErrorCode::IntegrityError)
    );
    let (rows, suspects) = (delete(&world, &[4]), known.take_suspects());
    let list = |viewer| world.list(&rows, &suspects, viewer).unwrap();
    assert_eq!(list(user("bob")), [vec![], vec!["d"]]);
    assert_eq!(list(Viewer::EndUser(None)), [vec!["b"], vec![]]);
}
