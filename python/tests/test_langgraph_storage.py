"""How the checkpointers store checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from test_langgraph import in_thread, new_prefix

import filrouge
from filrouge.langgraph import FilrougeSaver


class Thread:
    """Puts checkpoints with a growing list, as a graph does."""

    def __init__(self, saver: FilrougeSaver, thread_id: str = "1", namespace: str = "") -> None:
        self.saver = saver
        self.root: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}
        self.config = self.root
        self.messages: list[str] = []
        self.put_by_id: dict[str, dict[str, Any]] = {}

    def step(self, **metadata: Any) -> str:
        """Puts the next checkpoint, with a write. Returns its id."""
        number = len(self.messages)
        self.messages = [*self.messages, f"message {number}: " + f"{(number + 1) * 7919:x} " * 99]
        checkpoint = empty_checkpoint()
        versions: dict[str, Any] = {"messages": f"{number}.1", "fixed": "0.1", "number": f"{number}.2"}
        checkpoint["channel_versions"] = versions
        checkpoint["channel_values"] = {"messages": self.messages, "fixed": "the same " * 99, "number": number}
        new = {name: version for name, version in versions.items() if name != "fixed" or number == 0}
        details: Any = {"source": "loop", "step": number, "parents": {}, **metadata}
        self.config = self.saver.put(self.config, checkpoint, details, new)
        self.saver.put_writes(self.config, [("messages", f"write {number}")], f"task {number}")
        self.put_by_id[checkpoint["id"]] = dict(checkpoint["channel_values"])
        return checkpoint["id"]

    def steps(self, count: int, **metadata: Any) -> list[str]:
        """Puts checkpoints. Returns their ids, the newest first."""
        return [self.step(**metadata) for _ in range(count)][::-1]

    def check(self, saver: FilrougeSaver, ids: Sequence[str], limit: int | None = None) -> None:
        """Checks that a checkpointer lists these checkpoints, and reads each of them."""
        listed = list(saver.list(self.root, limit=limit))
        assert [found.checkpoint["id"] for found in listed] == list(ids)
        for found in listed:
            self.check_one(found)
        for checkpoint_id in ids:
            config = {"configurable": {**self.root["configurable"], "checkpoint_id": checkpoint_id}}
            found = saver.get_tuple(config)
            assert found
            self.check_one(found)

    def check_one(self, found: CheckpointTuple) -> None:
        """Checks the values and writes of a checkpoint."""
        values = self.put_by_id[found.checkpoint["id"]]
        number = values["number"]
        assert found.checkpoint["channel_values"] == values
        assert found.pending_writes == [(f"task {number}", "messages", f"write {number}")]


def items_of(ledger: filrouge.Ledger, session_id: str) -> list[Any]:
    """All items of a session."""
    items: list[Any] = []
    page: dict[str, Any] = {"next_cursor": ""}
    while page["next_cursor"] is not None:
        query = {"limit": 500, "cursor": page["next_cursor"] or None}
        page = ledger.request("GET", f"/api/v1/sessions/{quote(session_id)}/items", query=query)
        items += page["data"]
    return items


def stored_bytes(items: Sequence[Any]) -> int:
    return sum(len(json.dumps(item["parts"])) for item in items)


def test_every_checkpoint_of_a_long_thread_is_read_without_the_others(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    thread = Thread(FilrougeSaver(ledger, prefix=prefix))
    ids = thread.steps(300)
    thread.check(FilrougeSaver(ledger, prefix=prefix), ids)
    thread.check(FilrougeSaver(ledger, prefix=prefix, cache_bytes=0), ids[:3], limit=3)


def test_a_checkpoint_costs_the_same_in_a_long_thread(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    thread = Thread(FilrougeSaver(ledger, prefix=prefix))
    thread.steps(256)
    items = items_of(ledger, f"{prefix}1")
    early, late = items[: len(items) // 4], items[-len(items) // 4 :]
    assert stored_bytes(late) < 1.3 * stored_bytes(early)
    whole = sum(len(json.dumps(values)) for values in thread.put_by_id.values())
    assert stored_bytes(items) < 0.03 * whole


def test_a_value_that_does_not_change_is_stored_once(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    Thread(FilrougeSaver(ledger, prefix=prefix)).steps(5)
    parts = [item["parts"][0] for item in items_of(ledger, f"{prefix}1")]
    owned = [part["own"] for part in parts if part["type"] == "langgraph.checkpoint"]
    assert owned == [["messages", "fixed"], *[["messages"]] * 4]


def test_a_put_and_a_write_are_one_turn_each_and_safe_to_repeat(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    saver = FilrougeSaver(ledger, prefix=prefix)
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = {"a": "x" * 999}, {"a": "1.0"}
    config: Any = Thread(saver).root
    for again in (saver, FilrougeSaver(ledger, prefix=prefix)):
        stored = again.put(config, checkpoint, {"source": "input", "step": -1}, {"a": "1.0"})
        again.put_writes(stored, [("a", 1), ("__error__", "boom")], "task")
    turns = list(ledger.session(f"{prefix}1").turns())
    assert [turn["status"] for turn in turns] == ["finalized"] * 2
    saver.put_writes(stored, [("a", 2), ("b", 3)], "task")
    saver.put_writes(stored, [("__error__", "again")], "task")
    checkpoint["channel_values"] = {"a": "y" * 999}
    saver.put(config, checkpoint, {"source": "input", "step": -1}, {"a": "1.0"})
    for reader in (saver, FilrougeSaver(ledger, prefix=prefix)):
        for wanted in (config, stored):
            found = reader.get_tuple(wanted)
            assert found
            assert found.checkpoint["channel_values"] == {"a": "y" * 999}
            assert found.pending_writes == [("task", "__error__", "again"), ("task", "a", 1), ("task", "b", 3)]
        assert len(list(reader.list(config))) == 1


def test_pruning_erases_all_but_the_newest_checkpoint(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    warm, pruning = FilrougeSaver(ledger, prefix=prefix), FilrougeSaver(ledger, prefix=prefix)
    thread = Thread(warm)
    kept = thread.steps(40)[:1]
    for _ in range(3):
        pruning.prune(["1", "absent"], strategy="keep_latest")
        thread.check(FilrougeSaver(ledger, prefix=prefix), kept)
        kept = [*thread.steps(20), *kept]
        thread.check(FilrougeSaver(ledger, prefix=prefix), kept)
        kept = kept[:1]
    pruning.prune(["1"])
    types = [item["parts"][0]["type"] for item in items_of(ledger, f"{prefix}1") if item["parts"]]
    assert types.count("langgraph.checkpoint") == types.count("langgraph.writes") == 1
    assert types.count("langgraph.value") <= 2 * 45
    assert ledger.session(f"{prefix}1").verify()["status"] == "intact"
    warm.prune(["1"], strategy="delete")
    assert warm.get_tuple(thread.root) is None
    with pytest.raises(ValueError, match="strategy"):
        warm.prune(["1"], strategy="other")
    with pytest.raises(TypeError):
        warm.prune("1")


def test_the_checkpoints_of_a_run_are_erased(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    saver = FilrougeSaver(ledger, prefix=prefix)
    threads = [Thread(saver, "1"), Thread(saver, "1", "child|1/x"), Thread(saver, "2")]
    kept = []
    for thread in threads:
        first = thread.steps(20, run_id="a")
        thread.steps(20, run_id="b")
        kept.append([*thread.steps(3, run_id="c"), *first])
    saver.delete_for_runs(["b", "absent"])
    for thread, ids in zip(threads, kept, strict=True):
        thread.check(FilrougeSaver(ledger, prefix=prefix), ids)
    saver.delete_for_runs(["a", "c"])
    assert list(FilrougeSaver(ledger, prefix=prefix).list(None)) == []


def test_a_deleted_thread_can_begin_again(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    saver, other = FilrougeSaver(ledger, prefix=prefix), FilrougeSaver(ledger, prefix=prefix)
    for _ in range(3):
        threads = [Thread(saver), Thread(saver, namespace="child")]
        for thread in threads:
            thread.check(other, thread.steps(3))
        saver.delete_thread("1")
        for thread in threads:
            assert other.get_tuple(thread.root) is None
            assert list(other.list(thread.root)) == list(other.list(in_thread("1"))) == []
    with pytest.raises(filrouge.Gone):
        ledger.session(f"{prefix}1").get()


def test_a_copy_has_all_checkpoints_also_after_an_erasure(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    saver = FilrougeSaver(ledger, prefix=prefix)
    threads = [Thread(saver, "source"), Thread(saver, "source", "child:1")]
    ids = []
    for thread in threads:
        first = thread.steps(20, run_id="a")
        thread.steps(5, run_id="b")
        ids.append([*thread.steps(20, run_id="c"), *first])
    saver.delete_for_runs(["b"])
    for _ in range(2):
        saver.copy_thread("source", "target")
    for thread, expected in zip(threads, ids, strict=True):
        thread.root = {"configurable": {**thread.root["configurable"], "thread_id": "target"}}
        thread.check(FilrougeSaver(ledger, prefix=prefix), expected)
    saver.delete_thread("source")
    threads[0].check(FilrougeSaver(ledger, prefix=prefix), ids[0])
    threads[0].config = {"configurable": {**threads[0].root["configurable"], "checkpoint_id": ids[0][0]}}
    threads[0].check(saver, [*threads[0].steps(3), *ids[0]])


def test_concurrent_writers_of_a_thread_lose_nothing(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    root: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    start = FilrougeSaver(ledger, prefix=prefix).put(root, empty_checkpoint(), {"step": -1}, {})

    def write(writer: int) -> list[str]:
        saver = FilrougeSaver(ledger, prefix=prefix)
        saver.put_writes(start, [("a", writer)], f"task {writer}")
        thread = Thread(saver)
        thread.config = start
        return thread.steps(10, writer=writer)

    with ThreadPoolExecutor(8) as pool:
        ids = [one for some in pool.map(write, range(8)) for one in some]
    cold = FilrougeSaver(ledger, prefix=prefix)
    listed = list(cold.list(root))
    assert sorted(found.checkpoint["id"] for found in listed[:-1]) == sorted(ids)
    for found in listed[:-1]:
        number = found.metadata.get("step")
        assert len(found.checkpoint["channel_values"]["messages"]) == (number or 0) + 1
    for found in (listed[-1], cold.get_tuple(start)):
        assert found
        assert sorted(write[2] for write in found.pending_writes or ()) == list(range(8))


def test_the_thread_of_another_identity_is_absent(ledger: filrouge.Ledger) -> None:
    prefix = new_prefix()
    ada = FilrougeSaver(ledger.with_identity("ada"), prefix=prefix)
    bob = FilrougeSaver(ledger.with_identity("bob"), prefix=prefix)
    for namespace in ("", "child"):
        thread = Thread(ada, "1", namespace)
        ids = thread.steps(2)
        assert bob.get_tuple(thread.root) is None
        assert bob.get_tuple(thread.config) is None
        assert list(bob.list(thread.root)) == list(bob.list(None)) == []
        bob.prune(["1"])
        bob.delete_thread("1")
        bob.delete_for_runs(["a"])
        bob.copy_thread("1", "2")
        with pytest.raises(filrouge.Conflict):
            Thread(bob, "1", namespace).step()
        thread.check(ada, ids)


@pytest.mark.parametrize("thread_id", ["a|b", "a/b", "a#2", "50%", "", "é\n", "x" * 300])
def test_threads_and_namespaces_may_have_any_name(ledger: filrouge.Ledger, thread_id: str) -> None:
    prefix = new_prefix()
    saver = FilrougeSaver(ledger, prefix=prefix)
    namespaces = ["", "a|b:1|c", "a/b", "#", "%7C", "n" * 300]
    threads = [Thread(saver, thread_id, namespace) for namespace in namespaces]
    ids = [thread.steps(2) for thread in threads]
    for reader in (saver, FilrougeSaver(ledger, prefix=prefix)):
        for thread, expected in zip(threads, ids, strict=True):
            thread.check(reader, expected)
        for config in (None, in_thread(thread_id)):
            found = [(one.config["configurable"]["checkpoint_ns"], one.checkpoint["id"]) for one in reader.list(config)]
            expected_pairs = {(name, one) for name, some in zip(namespaces, ids, strict=True) for one in some}
            assert set(found) == expected_pairs
            assert [one for _, one in found] == sorted((one for _, one in found), reverse=True)
            assert {one.config["configurable"]["thread_id"] for one in reader.list(config)} == {thread_id}
    saver.delete_thread(thread_id)
    assert list(saver.list(None)) == []


def test_lists_are_filtered_and_bounded(ledger: filrouge.Ledger) -> None:
    saver = FilrougeSaver(ledger, prefix=new_prefix())
    threads = [Thread(saver, name) for name in ("1", "2")]
    for number in range(30):
        for thread in threads:
            thread.step(kind={"even": number % 2 == 0, "number": number})
    ids = list(threads[0].put_by_id)[::-1]
    found = [one.checkpoint["id"] for one in saver.list(threads[0].root, filter={"kind": {"even": True}}, limit=3)]
    assert found == ids[1:7:2]
    before: Any = {"configurable": {"checkpoint_id": ids[10]}}
    assert [one.checkpoint["id"] for one in saver.list(threads[0].root, before=before, limit=2)] == ids[11:13]
    assert len(list(saver.list(None, before=before))) == 38
    assert len(list(saver.list(None))) == 60
    assert len(list(saver.list(None, filter={"step": 3}))) == 2
    assert list(saver.list(threads[0].root, limit=0)) == []


class Cipher:
    """A cipher whose output differs each time, as that of a real one."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        nonce = os.urandom(32)
        return "toy", nonce + self._mask(nonce, plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return self._mask(ciphertext[:32], ciphertext[32:])

    def _mask(self, nonce: bytes, data: bytes) -> bytes:
        stream = Random(nonce).randbytes(len(data))
        return bytes(one ^ other for one, other in zip(data, stream, strict=True))


def test_payloads_are_opaque(ledger: filrouge.Ledger) -> None:
    key = "sk-ant-api03-" + "aB3dE5fG7h" * 9 + "AA"
    serde = EncryptedSerializer(Cipher())
    prefix = new_prefix()
    for name, saver in (
        ("plain", FilrougeSaver(ledger, prefix=prefix)),
        ("secret", FilrougeSaver(ledger, prefix=prefix, serde=serde)),
    ):
        thread = Thread(saver, name)
        thread.messages = [key, "a secret of ada"]
        thread.check(saver, thread.steps(2))
        assert "secret of ada" not in json.dumps(items_of(ledger, prefix + name))
    reader = FilrougeSaver(ledger, prefix=prefix, serde=serde, cache_bytes=0)
    thread.check(reader, list(thread.put_by_id)[::-1])
    assert ledger.session(f"{prefix}plain").context(format="openai-chat")["messages"][0]["role"] == "user"
