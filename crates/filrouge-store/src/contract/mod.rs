//! The suite that every ledger must pass. A backend's test file names a function that creates a [`Fixture`]:
//!
//! ```text
//! fn fixture() -> filrouge_store::contract::Fixture { … }
//! filrouge_store::contract_tests!(fixture);
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "test code: a failure is a panic, and a test's name says what it is about"
)]

pub mod fixture;
pub mod live_writes;
pub mod session_writes;

pub mod activity;
pub mod bytes;
pub mod chain;
pub mod changes;
pub mod checkpoints;
pub mod checkpoints_kept;
pub mod concurrency;
pub mod conflicts;
pub mod differential;
pub mod drafts;
pub mod drafts_kept;
pub mod erasure;
pub mod events;
pub mod fair_reads;
pub mod finals;
pub mod full_pages;
pub mod idempotency;
pub mod lanes;
pub mod leases;
pub mod leases_left;
pub mod leases_release;
pub mod leases_servers;
pub mod leases_together;
pub mod leases_writes;
pub mod life;
pub mod limits;
pub mod links;
pub mod notes;
pub mod order;
pub mod owners;
pub mod paging;
pub mod patches;
pub mod redact;
pub mod redact_many;
pub mod removed_drafts;
pub mod replace;
pub mod sessions;
pub mod tenant_events;
pub mod text_index;

pub use differential::SameEntropy;
pub use fixture::{CountingEntropy, Fixture, run};

/// Generates a `#[test]` from every test of the suite, over the ledgers that `$make` creates.
#[macro_export]
macro_rules! contract_tests {
    ($make:ident) => {
        $crate::contract_tests! { @each $make;
            activity { sessions_are_listed_by_last_activity }
            bytes {
                every_byte_is_returned_unchanged, texts_keep_their_escapes,
                metadata_is_merged_without_rewriting_values, large_items_are_returned_unchanged,
            }
            chain {
                links_can_be_recomputed_by_a_stranger, random_histories_verify_as_intact,
                the_commit_log_counts_every_commit,
            }
            changes {
                each_kind_of_change_is_in_the_feed, every_change_is_read_once_at_any_page_size,
                a_concurrent_reader_misses_nothing, cursors_are_checked_and_resume_the_feed,
                callers_see_only_their_own_changes, pages_without_visible_changes_continue, commits_are_reported,
            }
            checkpoints {
                a_checkpoint_is_written_once_per_seq, a_checkpoint_without_a_seq_covers_all_items,
                states_of_any_size_are_stored, the_newest_checkpoint_label_becomes_the_sessions_state,
                strangers_neither_read_nor_write_checkpoints, one_of_many_equal_checkpoints_is_new,
                a_checkpoint_covers_all_items_under_concurrent_writes, the_feed_shows_checkpoints,
            }
            checkpoints_kept {
                the_newest_checkpoints_are_kept, redaction_deletes_covering_checkpoints,
                redacting_a_turn_deletes_covering_checkpoints, erasure_deletes_checkpoints,
                a_checkpoint_older_than_all_kept_ones_is_refused, older_checkpoints_are_refused_after_a_redaction,
                an_adopted_session_keeps_its_newest_redaction, a_deleted_checkpoint_can_be_written_again,
            }
            concurrency {
                many_tasks_write_to_few_sessions, repeated_concurrent_writes_have_one_effect, one_start_wins,
                one_close_wins,
            }
            conflicts {
                a_wrong_expected_seq_is_refused, a_start_with_a_wrong_expected_seq_is_refused,
                unknown_and_foreign_turns_are_refused, checks_have_a_fixed_order, a_refused_write_changes_nothing,
                a_wrong_request_id_is_refused, empty_batches_are_refused,
            }
            drafts {
                drafts_grow_by_deltas, repeated_chunks_are_not_added_again, a_turn_has_one_recording_at_a_time,
                drafts_become_items, drafts_are_heartbeats, erasure_deletes_drafts,
            }
            drafts_kept {
                drafts_are_kept_however_the_turn_ends, the_callers_text_may_extend_the_draft,
                a_used_item_key_does_not_keep_a_turn_open,
            }
            erasure {
                only_the_name_remains, a_repeated_erasure_returns_the_first_receipt,
                only_those_who_saw_the_session_learn_of_its_erasure, the_feed_shows_the_owner_an_erasure,
                a_session_of_many_records_is_erased, late_writes_find_the_tombstone,
            }
            events {
                an_event_is_recorded_once_per_key, events_are_paged_in_order,
                strangers_neither_read_nor_record_events, a_session_has_an_event_limit,
                one_of_many_equal_events_is_new,
            }
            finals {
                a_final_item_is_promoted, finalizing_without_an_answer_is_refused,
                a_missing_translation_falls_back_to_the_neutral_answer, a_supplied_translation_keeps_its_flag,
                a_missing_neutral_answer_is_copied, each_variant_has_one_final_item, a_final_without_text_is_promoted,
            }
            full_pages {
                pages_of_large_sessions_are_bounded, pages_of_large_events_are_bounded,
                reads_of_large_events_by_time_are_bounded, pages_of_large_turns_are_bounded,
            }
            idempotency {
                a_repeated_start_is_replayed, a_repeated_start_with_another_body_is_reported,
                a_repeated_append_is_replayed, a_repeated_append_with_another_body_is_refused,
                partial_replays_are_refused, a_repeated_finalize_is_replayed, repeated_fail_and_cancel_are_replayed,
                appends_are_replayed_after_the_turn_closed, a_repeated_session_creation_is_replayed,
                retries_after_every_failure_are_safe, items_without_ids_are_new,
            }
            lanes {
                sessions_of_all_lanes_are_listed_newest_first,
                the_feed_misses_and_repeats_nothing_while_lanes_are_written,
                a_cursor_of_more_lanes_than_the_store_has_is_refused, a_write_commits_in_one_lane,
                each_lane_has_a_dense_log_of_its_own_sessions,
            }
            leases {
                a_session_has_one_holder, a_holder_needs_a_name, fences_only_grow, a_lease_is_renewed,
                a_lease_is_released, leases_granted_while_the_store_was_down_are_applied,
                acquiring_creates_the_session, a_fence_creates_no_session,
                sessions_in_a_terminal_state_are_not_acquired, sessions_in_a_terminal_state_get_no_new_turn,
                strangers_acquire_no_lease, a_resume_is_reported_once,
                lease_changes_are_not_in_the_feed,
            }
            leases_left {
                the_head_records_when_a_fence_was_granted, turns_of_the_previous_holder_are_recognized,
                an_inherited_draft_is_finalized, an_inherited_draft_is_appended_to, an_inherited_draft_is_replaced_by_a_recording,
                the_end_of_a_recording_does_not_interrupt_the_holder, a_given_fence_must_be_current,
                an_inherited_turn_is_interrupted_by_the_holder,
            }
            leases_release {
                the_last_write_releases_the_lease, a_refused_write_releases_nothing,
                a_repeated_write_releases_as_well, a_draft_releases_nothing,
                a_lease_ends_when_the_clock_is_set_back_by_days, no_lease_is_longer_than_the_longest,
            }
            leases_servers {
                a_lease_whose_server_has_exited_is_acquired, writes_extend_the_lease,
                a_session_that_began_while_the_store_was_down_is_created,
            }
            leases_together {
                one_of_many_acquires_the_lease, every_waiting_holder_acquires_the_lease, a_fenced_holder_never_writes,
            }
            leases_writes {
                a_live_lease_keeps_others_from_writing, only_the_holder_writes_and_anyone_if_there_is_none,
                some_writes_need_no_fence, a_silent_holder_is_not_interrupted, checks_keep_their_order,
            }
            life {
                every_write_has_a_defined_effect_in_every_status, interrupt_needs_silence,
                a_repeated_start_reopens_an_interrupted_turn, a_closed_turn_takes_late_errors_and_notes,
                an_interrupted_turn_takes_late_errors_and_notes,
                the_policy_can_allow_only_one_open_turn,
            }
            limits {
                the_items_of_a_turn_are_limited, long_ids_are_compared_as_bytes,
                the_items_of_a_complete_turn_are_limited, the_bytes_of_one_read_are_limited,
            }
            links {
                the_first_linked_identity_is_permanent, users_link_only_to_themselves, one_of_many_logins_wins,
                linking_needs_the_secret_and_removes_it, closed_sessions_are_linked_too,
            }
            notes {
                notes_are_compared_and_set, one_of_many_writers_writes_each_version,
                concurrent_increments_are_all_counted, the_size_of_notes_is_limited,
                notes_are_independent_of_sessions,
            }
            order {
                seq_is_dense_from_one, turns_interleave, the_clock_does_not_determine_the_order,
                big_batches_keep_their_order,
            }
            owners {
                a_foreign_session_looks_absent, a_foreign_session_id_cannot_be_used, tenants_are_isolated,
                lists_show_only_own_sessions, the_operator_sees_the_tenant, foreign_turns_look_absent,
                anonymous_sessions_are_found_by_id,
            }
            paging {
                sessions_are_paged_while_others_write, turns_are_paged_while_others_write, items_are_paged,
                items_are_paged_from_the_newest, large_items_are_paged_from_the_newest, an_item_is_found_by_its_key,
                items_are_found_by_their_seqs, large_items_are_found_by_their_seqs,
                the_newest_finalized_turns_are_paged, turns_are_filtered_by_status, invalid_cursors_are_refused,
                invalid_cursors_of_sessions_are_refused, sessions_are_filtered,
            }
            patches {
                each_field_is_patched_separately, metadata_is_patched_by_members,
                a_patch_without_effect_writes_nothing, only_patches_change_the_version, strangers_patch_nothing,
                one_of_many_patches_finds_its_version,
            }
            redact {
                a_turn_is_redacted, every_version_is_redacted, invalid_redactions_are_refused,
                a_repeated_redaction_is_replayed, items_of_an_open_turn_are_redacted,
                redacting_all_items_of_an_ended_turn_redacts_the_turn, a_partly_redacted_turn_is_redacted,
                a_redacted_turn_is_not_reopened, imported_history_does_not_replace_a_redacted_turn,
                only_owners_and_operators_redact,
            }
            redact_many {
                retries_after_a_redaction_are_replayed, lists_skip_redacted_turns,
                interleaved_and_long_turns_are_redacted, random_redactions_keep_the_history_intact,
            }
            replace {
                a_turn_is_replaced_by_a_new_version, invalid_replacements_are_refused, replacements_are_idempotent,
                lists_leave_out_replaced_turns, a_replaced_turn_stays_interrupted, replacing_creates_no_session,
                roles_determine_question_and_answer,
            }
            sessions {
                a_closed_session_stays_closed, a_closed_session_begins_no_turn, lists_are_filtered,
                a_secret_protects_an_anonymous_session, any_secret_opens_a_session_without_one,
            }
            tenant_events { events_are_found_by_time, events_found_by_time_are_paged }
        }
    };
    (@each $make:ident; $($module:ident { $($test:ident),* $(,)? })*) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                $crate::contract::run(super::$make(), $crate::contract::$module::$test);
            })*
        })*
    };
}

/// Like [`contract_tests!`], for ledgers whose operations each concern one session, such as the hot store's ephemeral
/// sessions: leaves out tests that need lists, the feed or writes across sessions.
#[macro_export]
macro_rules! session_contract_tests {
    ($make:ident) => {
        $crate::contract_tests! { @each $make;
            bytes {
                every_byte_is_returned_unchanged, texts_keep_their_escapes,
                metadata_is_merged_without_rewriting_values, large_items_are_returned_unchanged,
            }
            chain { links_can_be_recomputed_by_a_stranger }
            checkpoints {
                a_checkpoint_is_written_once_per_seq, a_checkpoint_without_a_seq_covers_all_items,
                states_of_any_size_are_stored, the_newest_checkpoint_label_becomes_the_sessions_state,
                strangers_neither_read_nor_write_checkpoints, one_of_many_equal_checkpoints_is_new,
                a_checkpoint_covers_all_items_under_concurrent_writes,
            }
            checkpoints_kept {
                the_newest_checkpoints_are_kept, redaction_deletes_covering_checkpoints,
                redacting_a_turn_deletes_covering_checkpoints, erasure_deletes_checkpoints,
                a_checkpoint_older_than_all_kept_ones_is_refused, older_checkpoints_are_refused_after_a_redaction,
                a_deleted_checkpoint_can_be_written_again,
            }
            concurrency {
                many_tasks_write_to_few_sessions, repeated_concurrent_writes_have_one_effect, one_start_wins,
                one_close_wins,
            }
            conflicts {
                a_wrong_expected_seq_is_refused, a_start_with_a_wrong_expected_seq_is_refused,
                checks_have_a_fixed_order, a_refused_write_changes_nothing, a_wrong_request_id_is_refused,
                empty_batches_are_refused,
            }
            drafts {
                repeated_chunks_are_not_added_again, a_turn_has_one_recording_at_a_time, drafts_become_items,
                drafts_are_heartbeats, erasure_deletes_drafts,
            }
            drafts_kept {
                drafts_are_kept_however_the_turn_ends, the_callers_text_may_extend_the_draft,
                a_used_item_key_does_not_keep_a_turn_open,
            }
            erasure {
                a_repeated_erasure_returns_the_first_receipt, only_those_who_saw_the_session_learn_of_its_erasure,
                late_writes_find_the_tombstone,
            }
            events {
                an_event_is_recorded_once_per_key, events_are_paged_in_order,
                strangers_neither_read_nor_record_events, a_session_has_an_event_limit,
                one_of_many_equal_events_is_new,
            }
            finals {
                a_final_item_is_promoted, finalizing_without_an_answer_is_refused,
                a_missing_translation_falls_back_to_the_neutral_answer, a_supplied_translation_keeps_its_flag,
                a_missing_neutral_answer_is_copied, each_variant_has_one_final_item, a_final_without_text_is_promoted,
            }
            full_pages { pages_of_large_events_are_bounded }
            idempotency {
                a_repeated_start_is_replayed, a_repeated_start_with_another_body_is_reported,
                a_repeated_append_is_replayed, a_repeated_append_with_another_body_is_refused,
                partial_replays_are_refused, a_repeated_finalize_is_replayed, repeated_fail_and_cancel_are_replayed,
                appends_are_replayed_after_the_turn_closed, a_repeated_session_creation_is_replayed,
                retries_after_every_failure_are_safe, items_without_ids_are_new,
            }
            leases {
                a_session_has_one_holder, a_holder_needs_a_name, fences_only_grow, a_lease_is_renewed,
                a_lease_is_released, leases_granted_while_the_store_was_down_are_applied,
                acquiring_creates_the_session, a_fence_creates_no_session,
                sessions_in_a_terminal_state_are_not_acquired, sessions_in_a_terminal_state_get_no_new_turn,
                strangers_acquire_no_lease, a_resume_is_reported_once,
            }
            leases_left {
                the_head_records_when_a_fence_was_granted, turns_of_the_previous_holder_are_recognized,
                an_inherited_draft_is_finalized, an_inherited_draft_is_appended_to, an_inherited_draft_is_replaced_by_a_recording,
                the_end_of_a_recording_does_not_interrupt_the_holder, a_given_fence_must_be_current,
                an_inherited_turn_is_interrupted_by_the_holder,
            }
            leases_release {
                the_last_write_releases_the_lease, a_refused_write_releases_nothing,
                a_repeated_write_releases_as_well, a_draft_releases_nothing,
                a_lease_ends_when_the_clock_is_set_back_by_days, no_lease_is_longer_than_the_longest,
            }
            leases_servers { a_lease_whose_server_has_exited_is_acquired, writes_extend_the_lease }
            leases_together {
                one_of_many_acquires_the_lease, every_waiting_holder_acquires_the_lease, a_fenced_holder_never_writes,
            }
            leases_writes {
                a_live_lease_keeps_others_from_writing, only_the_holder_writes_and_anyone_if_there_is_none,
                some_writes_need_no_fence, a_silent_holder_is_not_interrupted, checks_keep_their_order,
            }
            life {
                every_write_has_a_defined_effect_in_every_status, interrupt_needs_silence,
                a_repeated_start_reopens_an_interrupted_turn, a_closed_turn_takes_late_errors_and_notes,
                an_interrupted_turn_takes_late_errors_and_notes,
                the_policy_can_allow_only_one_open_turn,
            }
            limits {
                the_items_of_a_turn_are_limited, long_ids_are_compared_as_bytes,
                the_items_of_a_complete_turn_are_limited, the_bytes_of_one_read_are_limited,
            }
            links {
                users_link_only_to_themselves, one_of_many_logins_wins, linking_needs_the_secret_and_removes_it,
                closed_sessions_are_linked_too,
            }
            order {
                seq_is_dense_from_one, turns_interleave, the_clock_does_not_determine_the_order,
                big_batches_keep_their_order,
            }
            owners {
                a_foreign_session_id_cannot_be_used, foreign_turns_look_absent, anonymous_sessions_are_found_by_id,
            }
            paging {
                turns_are_paged_while_others_write, items_are_paged, items_are_paged_from_the_newest,
                an_item_is_found_by_its_key, items_are_found_by_their_seqs, the_newest_finalized_turns_are_paged,
                turns_are_filtered_by_status, invalid_cursors_are_refused,
            }
            patches {
                each_field_is_patched_separately, metadata_is_patched_by_members,
                a_patch_without_effect_writes_nothing, only_patches_change_the_version, strangers_patch_nothing,
                one_of_many_patches_finds_its_version,
            }
            redact {
                a_turn_is_redacted, every_version_is_redacted, a_repeated_redaction_is_replayed,
                items_of_an_open_turn_are_redacted, redacting_all_items_of_an_ended_turn_redacts_the_turn,
                a_partly_redacted_turn_is_redacted, a_redacted_turn_is_not_reopened,
                imported_history_does_not_replace_a_redacted_turn, only_owners_and_operators_redact,
            }
            redact_many {
                retries_after_a_redaction_are_replayed, lists_skip_redacted_turns,
                interleaved_and_long_turns_are_redacted,
            }
            replace {
                a_turn_is_replaced_by_a_new_version, replacements_are_idempotent, lists_leave_out_replaced_turns,
                a_replaced_turn_stays_interrupted, replacing_creates_no_session, roles_determine_question_and_answer,
            }
            sessions {
                a_closed_session_stays_closed, a_closed_session_begins_no_turn,
            }
        }
    };
}
