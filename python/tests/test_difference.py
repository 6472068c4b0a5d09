"""Differences between byte strings: `delta` and `undelta` of the extension module."""

from __future__ import annotations

import random
import threading

import pytest

from filrouge import _native

# zstd would interpret a dictionary that begins like this.
MAGIC = bytes.fromhex("37a430ec")


def changed(value: bytes, seed: int) -> bytes:
    """The value with ten other bytes, and some more at its end."""
    rng, out = random.Random(seed), bytearray(value)
    for _ in range(10 if value else 0):
        out[rng.randrange(len(out))] ^= 0x55
    return bytes(out) + b"and more"


@pytest.mark.parametrize("size", [0, 1, 7, 200, 5_000, 600_000, 3_000_000])
@pytest.mark.parametrize("start", [b"", MAGIC])
def test_a_difference_gives_the_value_back(size: int, start: bytes) -> None:
    base = start + random.Random(size).randbytes(size)
    for value in [changed(base, 1), base, b""]:
        frame = _native.delta(base, value)
        assert _native.undelta(base, frame) == value
    assert len(_native.delta(base, changed(base, 2))) < 300 + size // 500


def test_without_a_base_it_is_a_plain_frame() -> None:
    value = b"to the left, to the right, " * 100
    frame = _native.delta(b"", value)
    assert frame[:4] == bytes.fromhex("28b52ffd")
    assert len(frame) < 100
    assert _native.undelta(b"", frame) == value


@pytest.mark.parametrize("start", [b"", MAGIC])
def test_another_base_is_noticed(start: bytes) -> None:
    base = start + random.Random(3).randbytes(5_000)
    frame = _native.delta(base, changed(base, 4))
    for other in [b"", base[:-1], changed(base, 5), base + b"x"]:
        with pytest.raises(ValueError, match="zstd: "):
            _native.undelta(other, frame)
    for damaged in [b"", b"no frame", frame[:-1], frame[:20], frame + b"x"]:
        with pytest.raises(ValueError, match=r"zstd: |the frame does not state"):
            _native.undelta(base, damaged)


def test_a_frame_cannot_claim_a_huge_value() -> None:
    # One raw block; the frame states a size of 8 bytes length (RFC 8878, section 3.1.1.1.4).
    def frame(size: int) -> bytes:
        return bytes.fromhex("28b52ffd") + b"\xe0" + size.to_bytes(8, "little") + b"\x11\x00\x00no"

    assert _native.undelta(b"", frame(2)) == b"no"
    for size in [(1 << 30) + 1, 1 << 62]:
        with pytest.raises(ValueError, match="1073741824"):
            _native.undelta(b"", frame(size))
    unknown = bytes.fromhex("28b52ffd") + b"\x00\x58" + b"\x11\x00\x00no"
    with pytest.raises(ValueError, match="size"):
        _native.undelta(b"", unknown)


def test_threads_decode_at_once() -> None:
    base = random.Random(6).randbytes(100_000)
    values = [changed(base, n) for n in range(8)]
    frames = [_native.delta(base, value) for value in values]
    failures: list[int] = []

    def decode(n: int) -> None:
        for _ in range(50):
            if _native.undelta(base, frames[n]) != values[n]:
                failures.append(n)

    threads = [threading.Thread(target=decode, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
