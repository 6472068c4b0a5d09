"""Passes a provider's stream through, and records it while it arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from filrouge._sync.body import Body
from filrouge._shared import formats

if TYPE_CHECKING:
    from filrouge._sync.turn import Turn

T = TypeVar("T")


class Recording(Generic[T]):
    """The items of a stream, which are recorded before they are passed on. Get it from `Turn.record`."""

    def __init__(
        self, turn: Turn, stream: Iterable[T], format: str | None, agent: str | None, finalize: bool
    ) -> None:
        self.ended = False
        """Whether the turn got everything that the stream had, or was ended."""
        self._turn, self._stream = turn, stream
        self._format, self._agent, self._finalize = format, agent, finalize
        self._items: Iterator[T] | None = None
        self._body: Body | None = None
        self._raw: list[bytes] = []
        self._tapped = self._tap()
        self._encoded = False

    def _tap(self) -> bool:
        """Reads along while the provider's client reads the body. Returns whether the stream has such a body."""
        response: Any = getattr(self._stream, "response", None)
        pieces = getattr(response, "iter_bytes", None)
        if pieces is None or getattr(response, "is_stream_consumed", True):
            return False

        def read_along(chunk_size: int | None = None) -> Iterator[bytes]:
            for piece in pieces(chunk_size):
                self._raw.append(piece)
                yield piece

        response.iter_bytes = read_along
        return True

    def __iter__(self) -> Recording[T]:
        return self

    def __next__(self) -> T:
        if self.ended:
            raise StopIteration
        try:
            if self._items is None:
                self._items = self._stream.__iter__()
            item = self._items.__next__()
            self._record(item)
        except StopIteration:
            self._finish()
            raise
        except BaseException as error:
            self._turn.end_with(error)
            raise
        return item

    def _record(self, item: Any) -> None:
        self._format = self._format or formats.known(formats.format_of(item))
        if not self._tapped:
            self._encoded = not isinstance(item, (bytes, bytearray))
            self._raw.append(formats.piece_of(item))
        self._send()

    def _send(self) -> None:
        if self._body is None and self._format is not None:
            self._body = self._turn.stream_body(self._format, self._agent, self._finalize)
        pieces, self._raw = self._raw, []
        for piece in pieces:
            if piece and self._body is not None:
                self._body.send(piece)

    def _finish(self) -> None:
        self.ended = True
        if self._encoded and self._format is not None:
            self._raw.append(formats.last_piece(self._format))
        self._send()
        if self._body is None:
            self._turn.fail("stream_empty", "the stream had no events", retryable=True)
        else:
            self._turn.keep(self._body.finish(), "finalized" if self._finalize else "open")

    def cut(self) -> bool:
        """Breaks the recording off, if it has not ended. Returns whether the server must end it: everything that
        arrived is recorded, and the turn is interrupted."""
        if self.ended:
            return False
        self.ended = True
        return self._body is not None and self._body.cut()
