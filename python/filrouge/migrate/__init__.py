"""Imports the stores of Python frameworks into a ledger (docs/migrate-from).

    python -m filrouge.migrate langgraph-sqlite checkpoints.db --store app.db

The payloads of these stores can be read only with the framework that wrote them, so this is a Python program. It reads
the store, writes nothing into it, and adds what the ledger does not have: an import that was stopped continues when it
is repeated.
"""
