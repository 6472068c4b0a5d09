"""The exceptions of the Rust module."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from filrouge import _native
from filrouge.errors import ClosedError, Error, ForkError, TransportError


@contextmanager
def translated() -> Generator[None, None, None]:
    """Raises the exceptions of the Rust module as those of this package."""
    try:
        yield
    except _native.TransportError as error:
        raise TransportError(str(error)) from error
    except _native.ClosedError as error:
        raise ClosedError(str(error)) from error
    except _native.ForkError as error:
        raise ForkError(str(error)) from error
    except _native.OpenError as error:
        raise Error(error.detail, code=error.code, hint=error.hint, title="The ledger cannot be opened") from error
