"""The classes for asyncio, written by hand. `_sync` is made from this folder by `tools/make_sync.py`."""
