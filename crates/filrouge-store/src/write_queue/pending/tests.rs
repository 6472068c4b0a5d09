//! Writes of busy lanes stay pending, and do not delay those of others.

use std::collections::BTreeSet;

use filrouge_types::TenantId;
use tokio::sync::oneshot;

use super::super::GROUP_MAX;
use super::*;
use crate::command::{Command, Outcome, PutNote, Scope, Viewer, Write};
use crate::fair_slots::{FairSlots, SlotBounds, WorkSize};

type Answer = oneshot::Receiver<Result<Outcome, Failure>>;

/// A pending write with this name, and its answer.
fn write(lane: u16, name: &str) -> (Request, Answer) {
    let (reply, answer) = oneshot::channel();
    let note = PutNote {
        name: name.into(),
        expected: 0,
        value: Vec::new(),
    };
    let scope = Scope::new(TenantId::default_tenant(), Viewer::Operator);
    let write = Write::PutNote(note);
    let request = Request {
        command: Command { scope, write },
        lane: Lane::new(lane),
        alone: false,
        waits_since: None,
        reply,
        slot: None,
    };
    (request, answer)
}

fn pending(writes: &[(u16, &str)]) -> (PendingWrites, Vec<Answer>) {
    let mut pending = PendingWrites::new(Lanes::new(4).unwrap(), 4);
    let writes = writes.iter().map(|(lane, name)| write(*lane, name));
    let (requests, answers): (Vec<_>, _) = writes.unzip();
    pending.writes.extend(requests);
    (pending, answers)
}

fn names(group: &[Request]) -> Vec<String> {
    let name = |request: &Request| match &request.command.write {
        Write::PutNote(note) => note.name.to_string(),
        other => panic!("{other:?}"),
    };
    group.iter().map(name).collect()
}

/// Runs a transaction that can lock all lanes but `locked`. Returns the names of the writes that it served.
fn serve_except(pending: &mut PendingWrites, locked: &[u16]) -> Vec<String> {
    let mut served = Vec::new();
    pending.serve(&mut |group, _| {
        let is_locked = |request: &Request| locked.contains(&request.lane.number());
        group.sort_by_key(is_locked);
        let count = group.iter().filter(|request| !is_locked(request)).count();
        served = names(&group[..count]);
        Ok((0..count).map(|_| Ok(Outcome::Drafted)).collect())
    });
    served
}

#[test]
fn writes_of_lanes_that_are_not_free_stay_pending_in_their_order() {
    let (mut pending, mut answers) = pending(&[(1, "a"), (2, "b"), (1, "c"), (3, "d")]);
    assert_eq!(serve_except(&mut pending, &[1]), ["b", "d"]);
    assert!(answers[0].try_recv().is_err() && answers[2].try_recv().is_err());
    assert!(answers[1].try_recv().is_ok() && answers[3].try_recv().is_ok());
    pending.writes.extend([write(1, "e").0, write(3, "f").0]);
    assert_eq!(serve_except(&mut pending, &[]), ["a", "c", "e", "f"]);
    assert!(pending.writes.is_empty() && pending.busy.wait_at.is_empty());
}

#[test]
fn a_busy_lane_leaves_room_for_the_others() {
    let (mut pending, _answers) = pending(&[(1, "busy"); GROUP_MAX + 1]);
    assert!(serve_except(&mut pending, &[1]).is_empty());
    pending.writes.push_back(write(2, "free").0);
    assert_eq!(serve_except(&mut pending, &[1]), ["free"]);
    assert_eq!(serve_except(&mut pending, &[]).len(), GROUP_MAX);
    assert_eq!(serve_except(&mut pending, &[]).len(), 1);
}

#[test]
fn writes_of_busy_lanes_leave_their_slots_to_others() {
    let slots = FairSlots::new(SlotBounds::without_shares(3));
    let (mut pending, _answers) = pending(&[(1, "busy"), (2, "free"), (1, "busy")]);
    for request in &mut pending.writes {
        request.slot = slots.try_acquire(&("key", "ann"), WorkSize::Small);
    }
    assert_eq!(slots.held(), 3);
    assert_eq!(serve_except(&mut pending, &[1]), ["free"]);
    assert_eq!((slots.held(), pending.writes.len()), (0, 2));
}

#[tokio::test]
async fn writes_of_busy_lanes_do_not_keep_others_in_the_queue() {
    let (mut pending, _answers) = pending(&[(1, "busy"); GROUP_MAX]);
    assert!(serve_except(&mut pending, &[1]).is_empty());
    let (sender, mut requests) = tokio::sync::mpsc::channel(4);
    let (note, _answer) = write(0, "note");
    assert!(sender.send(note).await.is_ok());
    assert!(pending.receive(&mut requests).await);
    assert_eq!(serve_except(&mut pending, &[1]), ["note"]);
    drop(sender);
    assert!(pending.receive(&mut requests).await, "writes are pending");
    assert_eq!(serve_except(&mut pending, &[]).len(), GROUP_MAX);
    assert!(!pending.receive(&mut requests).await);
}

#[tokio::test]
async fn a_busy_lane_with_too_many_writes_refuses_more_and_delays_no_other_lane() {
    let (sender, mut requests) = tokio::sync::mpsc::channel(4);
    for busy in [0, 1] {
        let (mut pending, _answers) = pending(&[(busy, "busy"); LANE_MAX]);
        assert!(serve_except(&mut pending, &[busy]).is_empty());
        let (note, mut answer) = write(0, "note");
        assert!(sender.send(note).await.is_ok());
        assert!(pending.receive(&mut requests).await);
        if busy == 0 {
            let refused = answer.try_recv().unwrap().unwrap_err();
            assert_eq!(refused.code, ErrorCode::Overloaded);
            assert_eq!(pending.writes.len(), LANE_MAX);
        } else {
            assert_eq!(serve_except(&mut pending, &[busy]), ["note"]);
        }
    }
}

#[tokio::test]
async fn without_a_free_lane_writes_stay_in_the_queue() {
    // In the second store, another writer writes the other lane.
    for lanes in [Lanes::ONE, Lanes::new(2).unwrap()] {
        let mut pending = PendingWrites::new(lanes, 1);
        let writes = (0..QUEUE_MAX).map(|_| write(0, "busy"));
        let (requests, _answers): (Vec<_>, Vec<_>) = writes.unzip();
        pending.writes.extend(requests);
        assert!(serve_except(&mut pending, &[0]).is_empty());
        let (sender, mut requests) = tokio::sync::mpsc::channel(4);
        let (note, mut answer) = write(0, "note");
        assert!(sender.send(note).await.is_ok());
        assert!(pending.receive(&mut requests).await);
        assert!(answer.try_recv().is_err());
        assert_eq!(sender.capacity(), 3, "the note is in the queue");
    }
}

#[test]
fn writes_that_have_waited_too_long_are_refused_together() {
    let (limit, lane) = (Duration::from_secs(10), Lane::new(1));
    let (mut pending, mut answers) = pending(&[(1, "old"); GROUP_MAX * 2]);
    let (other, mut other_answer) = write(2, "other");
    pending.writes.push_front(other);
    assert!(serve_except(&mut pending, &[1, 2]).is_empty());
    for request in &mut pending.writes {
        let since = request.waits_since.as_mut().unwrap();
        *since = since.checked_sub(limit).unwrap();
    }
    let (late, mut late_answer) = write(1, "late");
    pending.writes.push_back(late);
    let refuse = |pending: &mut PendingWrites| {
        pending.serve(&mut |_, _| {
            let failure = Failure::new(ErrorCode::StoreUnavailable, "locked");
            Err(Aborted::Lane(lane, limit, failure))
        });
    };
    refuse(&mut pending);
    for answer in &mut answers {
        let refused = answer.try_recv().unwrap().unwrap_err();
        assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    }
    assert!(other_answer.try_recv().is_err() && late_answer.try_recv().is_err());
    assert!(pending.busy.contains(lane), "a write waits for it");
    let late = pending.writes.iter_mut().find(|r| r.lane == lane).unwrap();
    let since = late.waits_since.as_mut().unwrap();
    *since = since.checked_sub(limit).unwrap();
    refuse(&mut pending);
    assert!(late_answer.try_recv().unwrap().is_err());
    assert!(!pending.busy.contains(lane));
    assert_eq!(serve_except(&mut pending, &[]), ["other"]);
}

/// Otherwise writes behind a full group would begin to wait again whenever the lane was free once.
#[test]
fn a_write_keeps_the_time_that_it_has_waited_for_its_lane() {
    let (mut pending, _answers) = pending(&[(1, "w"); GROUP_MAX + 1]);
    assert!(serve_except(&mut pending, &[1]).is_empty());
    let since = pending.writes.back().unwrap().waits_since;
    assert!(since.is_some());
    assert_eq!(serve_except(&mut pending, &[]).len(), GROUP_MAX);
    assert!(serve_except(&mut pending, &[1]).is_empty());
    assert_eq!(pending.writes[0].waits_since, since);
}

#[test]
fn a_lane_that_stays_busy_becomes_due() {
    let (mut pending, _answers) = pending(&[(1, "a"), (2, "b")]);
    let due = |pending: &mut PendingWrites| {
        let mut due = None;
        pending.serve(&mut |_, busy| {
            due = busy.due();
            Ok(Vec::new())
        });
        due
    };
    assert_eq!(due(&mut pending), None);
    let wait_at = pending.busy.wait_at.get_mut(&Lane::new(2)).unwrap();
    *wait_at = Instant::now();
    assert_eq!(due(&mut pending), Some(Lane::new(2)));
    // The transaction has waited in vain, so the next one waits for no lane.
    assert_eq!(due(&mut pending), None);
    assert_eq!(serve_except(&mut pending, &[]), ["a", "b"]);
}

#[test]
fn many_lanes_that_are_due_do_not_starve_a_free_one() {
    let held = [0, 1, 2];
    let (mut pending, _answers) = pending(&[(0, "a"), (1, "b"), (2, "c")]);
    assert!(serve_except(&mut pending, &held).is_empty());
    let mut due = BTreeSet::new();
    for round in 0..6 {
        // All held lanes have been due since before.
        for wait_at in pending.busy.wait_at.values_mut() {
            *wait_at = Instant::now().min(*wait_at);
        }
        pending.writes.push_back(write(3, "free").0);
        let mut served = Vec::new();
        pending.serve(&mut |group, busy| {
            due.extend(busy.due());
            let is_served =
                |request: &Request| busy.due().is_none() && !held.contains(&request.lane.number());
            group.sort_by_key(|request| !is_served(request));
            let count = group.iter().filter(|request| is_served(request)).count();
            served = names(&group[..count]);
            Ok((0..count).map(|_| Ok(Outcome::Drafted)).collect())
        });
        assert_eq!(served.is_empty(), round % 2 == 0, "{round}");
    }
    assert!(!due.is_empty());
}

#[test]
fn a_write_that_fails_is_refused_alone() {
    let (mut pending, mut answers) = pending(&[(1, "a"), (2, "bad"), (1, "c")]);
    let mut groups = Vec::new();
    while !pending.writes.is_empty() {
        pending.serve(&mut |group, _| {
            let group_names = names(group);
            let fails = group_names.iter().any(|name| name == "bad");
            groups.push(group_names);
            match fails {
                true => Err(Aborted::Write(Failure::new(ErrorCode::Internal, "bad"))),
                false => Ok(group.iter().map(|_| Ok(Outcome::Drafted)).collect()),
            }
        });
    }
    assert_eq!(groups.concat(), ["a", "bad", "c", "a", "bad", "c"]);
    assert_eq!(groups.len(), 4);
    let results = answers.iter_mut().map(|answer| answer.try_recv().unwrap());
    let accepted: Vec<bool> = results.map(|result| result.is_ok()).collect();
    assert_eq!(accepted, [true, false, true]);
}
