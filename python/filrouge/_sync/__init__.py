"""The classes for threads. Made from `_async` by `tools/make_sync.py`: do not edit."""
