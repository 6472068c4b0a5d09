"""The session tests of the OpenAI Agents SDK that do not apply to `FilrougeSession`, each with the reason."""

CONNECTIONS = "tests which connections of SQLite a thread of SQLiteSession opens and closes; FilrougeSession has none"
ROLLBACKS = "makes a connection of SQLiteSession fail inside its transaction; writes of filrouge are one request each"
CORRUPT = "writes invalid JSON into the table of SQLiteSession; filrouge refuses changed rows (test_integrity.py)"
LOCKS = "tests the locks that SQLiteSession keeps for each file; filrouge locks in its store"
ROWS = "compares the rows in the table of SQLiteSession"

NOT_APPLICABLE: dict[str, str] = {
    "test_session::test_sqlite_session_close_closes_worker_thread_connections": CONNECTIONS,
    "test_session::test_sqlite_session_reaps_connections_from_exited_worker_threads": CONNECTIONS,
    "test_session::test_sqlite_session_closes_retired_connections_before_the_next_allocation": CONNECTIONS,
    "test_session::test_sqlite_session_keeps_connections_of_live_worker_threads": CONNECTIONS,
    "test_session::test_sqlite_session_close_retries_quarantined_connection": CONNECTIONS,
    "test_session::test_sqlite_session_rollback_failure_evicts_connection": ROLLBACKS,
    "test_session::test_sqlite_session_failed_add_items_releases_write_lock": ROLLBACKS,
    "test_session::test_sqlite_session_failed_clear_session_rolls_back": ROLLBACKS,
    "test_session::test_sqlite_session_failed_pop_item_releases_write_lock": ROLLBACKS,
    "test_session::test_sqlite_session_pop_item_skips_corrupt_most_recent": CORRUPT,
    "test_session::test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": CORRUPT,
    "test_session::test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": CORRUPT,
    "test_session::test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": CORRUPT,
    "test_session::test_sqlite_session_file_lock_is_shared_across_instances": LOCKS,
    "test_encrypt_session::test_encrypted_pop_authentication_is_atomic_with_concurrent_mutations[append]": ROWS,
    "test_encrypt_session::test_encrypted_pop_authentication_is_atomic_with_concurrent_mutations[clear]": ROWS,
    "test_encrypt_session::test_encrypted_pop_wrong_key_preserves_row_identity": ROWS,
}
