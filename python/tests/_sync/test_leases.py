"""A lease lets one caller write, for as long as it lives."""

from __future__ import annotations

import pytest

from filrouge import Ledger, LeaseHeld, LeaseTimeout, StaleFence
from filrouge._sync.runtime import sleep


def test_writes_under_a_lease_have_its_fence(ledger: Ledger) -> None:
    session = ledger.session()
    session.create()
    with session.lease("worker-1") as lease:
        assert (lease.fence, session.fence) == (1, 1)
        session.record_turn("Which way?", "Left.")
        other = ledger.session(session.session_id)
        with pytest.raises(LeaseHeld) as held:
            other.record_turn("And I?", "No.")
        assert held.value.holder == "worker-1"
        with pytest.raises(LeaseTimeout):
            with other.lease("worker-2", wait=0.05):
                raise AssertionError("the lease is held")
    assert session.fence is None
    assert (session.record_turn("Which way?", "Left.")).status == "finalized"


def test_a_lease_is_renewed_while_it_is_held(ledger: Ledger) -> None:
    session = ledger.session()
    session.create()
    with session.lease("worker-1", ttl=0.9) as lease:
        sleep(2.0)
        assert (session.record_turn("Still mine?", "Yes.")).status == "finalized"
        assert lease.lost is None
    with ledger.session(session.session_id).lease("worker-2", wait=0) as next_one:
        assert next_one.fence == 2


def test_a_call_is_resumed_from_its_checkpoint(ledger: Ledger) -> None:
    call = ledger.session()
    with call.resume("webhook-1", create=True) as lease:
        assert lease.resumed is not None and lease.resumed["created"] is True
        call.record_turn("I need an appointment", "Tuesday at nine?")
        call.checkpoint({"slots": ["Tuesday"]}, label="WAIT_CONFIRM")
        call.record_turn("Or Friday?", "Friday at two.")
    with ledger.session(call.session_id).resume("webhook-2", known_seq=0) as lease:
        assert lease.resumed is not None and lease.resumed["checkpoint"] is not None
        assert lease.resumed["checkpoint"]["state"] == {"slots": ["Tuesday"]}
        assert [item["seq"] for item in lease.resumed["tail"]] == [3, 4]
        assert (lease.resumed["state"], lease.resumed["stale"], lease.fence) == ("WAIT_CONFIRM", True, 2)


def test_a_holder_that_was_replaced_cannot_write(ledger: Ledger) -> None:
    session = ledger.session()
    session.create()
    with session.lease("worker-1") as lease:
        released = {"holder": "worker-1", "fence": lease.fence}
        ledger.request("DELETE", f"/api/v1/sessions/{session.session_id}/lease", query=released)
        with ledger.session(session.session_id).lease("worker-2"):
            with pytest.raises(StaleFence):
                session.record_turn("Mine?", "No.")
