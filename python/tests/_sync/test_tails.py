"""A tail shows items and drafts as they are written, each item once."""

from __future__ import annotations

from filrouge import Ledger


def test_a_tail_shows_items_until_the_session_is_erased(ledger: Ledger) -> None:
    session = ledger.session()
    session.record_turn("q1", "a1")
    seen: list[object] = []
    with session.tail(after=1, drafts=False) as tail:
        for event in tail:
            seen.append(event.data["seq"] if event.kind == "item" else event.kind)
            if event.kind == "item" and event.data["seq"] == 2:
                session.record_turn("q2", "a2")
            if event.kind == "item" and event.data["seq"] == 4:
                session.erase()
    assert seen == [2, 3, 4, "erased"]


def test_a_tail_begins_at_the_end(ledger: Ledger) -> None:
    session = ledger.session()
    session.record_turn("q1", "a1")
    with session.tail(drafts=False) as tail:
        session.record_turn("q2", "a2")
        assert (tail.__next__()).data["parts"][0]["text"] == "q2"
