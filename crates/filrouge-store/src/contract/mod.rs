//! The suite every ledger has to pass. A backend's test file gives a function that makes a [`Fixture`] and names it:
//!
//! ```text
//! fn fixture() -> filrouge_store::contract::Fixture { … }
//! filrouge_store::contract_tests!(fixture);
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "test code: a failure is a panic, and a test's name tells what it is about"
)]

pub mod asks;
pub mod fixture;
pub mod live_asks;

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
pub mod finals;
pub mod full_pages;
pub mod idempotency;
pub mod leases;
pub mod leases_left;
pub mod leases_release;
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
pub mod replace;
pub mod sessions;
pub mod tenant_events;
pub mod text_index;

pub use differential::SameEntropy;
pub use fixture::{CountingEntropy, Fixture, run};

/// Makes a `#[test]` of every test of the suite, over the ledgers that `$make` gives.
#[macro_export]
macro_rules! contract_tests {
    ($make:ident) => {
        $crate::contract_tests! { @each $make;
            bytes {
                every_byte_comes_back, texts_keep_their_escapes, metadata_is_merged_not_rewritten,
                large_items_come_back,
            }
            chain {
                links_can_be_recomputed_by_a_stranger, random_histories_verify_as_intact,
                the_commit_log_counts_every_commit,
            }
            changes {
                each_kind_of_change, every_change_once_whatever_the_page,
                a_reader_beside_writers_misses_nothing, cursors_of_the_feed,
                everybody_sees_their_own, pages_without_anything_to_see_go_on, commits_are_told,
            }
            checkpoints {
                once_for_each_seq, up_to_now, states_of_any_size, the_newest_label_is_the_state,
                strangers_see_and_put_no_checkpoint, one_of_many_checkpoints_is_new,
                checkpoints_beside_writers, the_feed_tells_of_checkpoints,
            }
            checkpoints_kept {
                the_newest_are_kept, redaction_takes_what_covers, a_redacted_turn_takes_what_covers,
                checkpoints_go_with_their_session, older_than_all_that_are_kept,
                none_comes_back_from_before_a_redaction, a_redaction_is_known_where_it_was_taken_to,
            }
            concurrency {
                many_tasks_over_few_sessions, all_writes_at_once_twice_have_one_effect,
                one_start_wins, one_close_wins,
            }
            conflicts {
                expected_seq, unknown_and_foreign_turns, checks_come_in_their_order,
                a_refused_write_leaves_nothing, wrong_request_id, empty_batches,
            }
            drafts {
                growing, put_again, one_recording_at_a_time, becoming_items, signs_of_life,
                gone_with_the_session,
            }
            drafts_kept {
                kept_whoever_ends_the_turn, what_the_caller_says_was_shown,
                a_key_that_was_taken_holds_nothing_up,
            }
            erasure {
                nothing_stays_but_the_name, erasing_again_gives_the_first_receipt, who_is_told,
                the_feed_tells_its_owner, a_session_of_many_records, late_writes_find_it_gone,
            }
            events {
                once_for_each_key, events_page_in_order, strangers_see_and_record_none,
                a_session_has_so_many_events, one_of_many_recordings_is_new,
            }
            finals {
                promotion, missing_answer, translated_and_fallback, supplied_translation_wins,
                neutral_copy, one_final_per_variant, a_final_without_text_is_promoted,
            }
            full_pages { large_sessions, large_events, large_events_of_a_time, large_turns }
            idempotency {
                start_again, start_again_with_another_body, append_again, append_again_with_another_body,
                partial_replays, finalize_again, fail_and_cancel_again, replay_after_the_turn_closed,
                create_session_again, retry_after_every_failure, items_without_ids_are_new,
            }
            leases {
                one_holder, a_holder_has_a_name, the_fence_only_grows, renewing, releasing,
                kept_while_the_store_was_away,
                made_by_acquiring, no_fence_makes_a_session, sessions_that_have_ended,
                strangers_take_none, going_on_is_told_once, leases_are_no_changes,
            }
            leases_left {
                since_when, turns_of_who_held_it_before, a_left_draft_is_finalized,
                a_left_draft_is_appended_to, a_left_draft_is_recorded_over,
                a_recordings_end_leaves_the_holder_alone, a_fence_that_is_named_must_hold,
                a_left_turn_is_interrupted_by_the_holder,
            }
            leases_release {
                given_free_with_the_last_write, a_refused_write_gives_nothing_free,
                a_repeated_write_gives_free_as_well, a_draft_gives_nothing_free,
            }
            leases_together {
                one_of_many_takes_it, everybody_gets_it_in_the_end, who_was_overtaken_never_writes,
            }
            leases_writes {
                a_live_lease_keeps_others_from_writing, who_may_write, some_writes_need_no_fence,
                silence_is_no_absence_under_a_lease, checks_keep_their_order,
            }
            life { every_status_meets_every_write, interrupt_needs_silence, reopening, one_open_turn_at_a_time }
            limits { items_per_turn, long_ids, items_of_a_whole_turn, what_is_read_at_once }
            links {
                the_first_identity_stays, nobody_links_for_somebody_else, one_of_many_logins_wins,
                a_secret_is_needed_and_then_gone, closed_sessions_are_linked_too,
            }
            notes {
                compared_and_set, one_of_many_puts_a_version, notes_count_up, notes_have_a_size,
                notes_beside_sessions,
            }
            order { seq_is_dense_from_one, turns_interleave, ordinals_and_clock, big_batches_keep_their_order }
            owners {
                a_foreign_session_looks_absent, a_foreign_id_cannot_be_taken, tenants_do_not_meet,
                lists_show_ones_own, the_operator_sees_the_tenant, foreign_turns_look_absent,
                anonymous_sessions_are_found_by_id,
            }
            paging {
                sessions_page_while_others_write, turns_page_while_others_write, items_page,
                newest_finalized_turns, status_filter, cursors_that_are_none, session_filters,
            }
            patches {
                each_field_by_itself, metadata_is_patched_by_members,
                what_changes_nothing_writes_nothing, versions_tell_of_patches_alone,
                strangers_patch_nothing, one_of_many_patches_finds_its_version,
            }
            redact {
                a_redacted_turn, every_version_goes, what_cannot_be_redacted, redacting_again,
                items_of_an_open_turn, all_items_of_a_turn, part_of_a_turn_before_the_whole,
                a_redacted_turn_is_not_reopened, history_is_not_brought_in_again, owners_and_strangers,
            }
            redact_many {
                retries_after_a_redaction, lists_page_over_redacted_turns, interleaved_and_long_turns,
                any_redactions_of_any_journal,
            }
            replace {
                replacing, replacing_what_cannot_be, replacements_are_idempotent, lists_leave_out_replaced,
                a_replaced_turn_stays_interrupted, replacing_makes_no_session, roles_matter,
            }
            sessions {
                closing, a_closed_session_begins_no_turn, filters,
                a_secret_keeps_an_anonymous_session, a_secret_opens_what_has_none,
            }
            tenant_events { events_of_a_time, events_of_a_time_page }
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

/// As [`contract_tests!`], for a ledger that has one session at a time: what needs lists, the feed or several sessions at
/// once is left out.
#[macro_export]
macro_rules! session_contract_tests {
    ($make:ident) => {
        $crate::contract_tests! { @each $make;
            bytes {
                every_byte_comes_back, texts_keep_their_escapes, metadata_is_merged_not_rewritten,
                large_items_come_back,
            }
            chain { links_can_be_recomputed_by_a_stranger }
            checkpoints {
                once_for_each_seq, up_to_now, states_of_any_size, the_newest_label_is_the_state,
                strangers_see_and_put_no_checkpoint, one_of_many_checkpoints_is_new,
                checkpoints_beside_writers,
            }
            checkpoints_kept {
                the_newest_are_kept, redaction_takes_what_covers, a_redacted_turn_takes_what_covers,
                checkpoints_go_with_their_session, older_than_all_that_are_kept,
                none_comes_back_from_before_a_redaction,
            }
            concurrency {
                many_tasks_over_few_sessions, all_writes_at_once_twice_have_one_effect,
                one_start_wins, one_close_wins,
            }
            conflicts {
                expected_seq, checks_come_in_their_order,
                a_refused_write_leaves_nothing, wrong_request_id, empty_batches,
            }
            drafts {
                put_again, one_recording_at_a_time, becoming_items, signs_of_life,
                gone_with_the_session,
            }
            drafts_kept {
                kept_whoever_ends_the_turn, what_the_caller_says_was_shown,
                a_key_that_was_taken_holds_nothing_up,
            }
            erasure {
                erasing_again_gives_the_first_receipt, who_is_told,
                late_writes_find_it_gone,
            }
            events {
                once_for_each_key, events_page_in_order, strangers_see_and_record_none,
                a_session_has_so_many_events, one_of_many_recordings_is_new,
            }
            finals {
                promotion, missing_answer, translated_and_fallback, supplied_translation_wins,
                neutral_copy, one_final_per_variant, a_final_without_text_is_promoted,
            }
            full_pages { large_events }
            idempotency {
                start_again, start_again_with_another_body, append_again, append_again_with_another_body,
                partial_replays, finalize_again, fail_and_cancel_again, replay_after_the_turn_closed,
                create_session_again, retry_after_every_failure, items_without_ids_are_new,
            }
            leases {
                one_holder, a_holder_has_a_name, the_fence_only_grows, renewing, releasing,
                kept_while_the_store_was_away,
                made_by_acquiring, no_fence_makes_a_session, sessions_that_have_ended,
                strangers_take_none, going_on_is_told_once,
            }
            leases_left {
                since_when, turns_of_who_held_it_before, a_left_draft_is_finalized,
                a_left_draft_is_appended_to, a_left_draft_is_recorded_over,
                a_recordings_end_leaves_the_holder_alone, a_fence_that_is_named_must_hold,
                a_left_turn_is_interrupted_by_the_holder,
            }
            leases_release {
                given_free_with_the_last_write, a_refused_write_gives_nothing_free,
                a_repeated_write_gives_free_as_well, a_draft_gives_nothing_free,
            }
            leases_together {
                one_of_many_takes_it, everybody_gets_it_in_the_end, who_was_overtaken_never_writes,
            }
            leases_writes {
                a_live_lease_keeps_others_from_writing, who_may_write, some_writes_need_no_fence,
                silence_is_no_absence_under_a_lease, checks_keep_their_order,
            }
            life { every_status_meets_every_write, interrupt_needs_silence, reopening, one_open_turn_at_a_time }
            limits { items_per_turn, long_ids, items_of_a_whole_turn, what_is_read_at_once }
            links {
                nobody_links_for_somebody_else, one_of_many_logins_wins,
                a_secret_is_needed_and_then_gone, closed_sessions_are_linked_too,
            }
            order { seq_is_dense_from_one, turns_interleave, ordinals_and_clock, big_batches_keep_their_order }
            owners {
                a_foreign_id_cannot_be_taken, foreign_turns_look_absent,
                anonymous_sessions_are_found_by_id,
            }
            paging {
                turns_page_while_others_write, items_page, newest_finalized_turns, status_filter,
                cursors_that_are_none,
            }
            patches {
                each_field_by_itself, metadata_is_patched_by_members,
                what_changes_nothing_writes_nothing, versions_tell_of_patches_alone,
                strangers_patch_nothing, one_of_many_patches_finds_its_version,
            }
            redact {
                a_redacted_turn, every_version_goes, redacting_again,
                items_of_an_open_turn, all_items_of_a_turn, part_of_a_turn_before_the_whole,
                a_redacted_turn_is_not_reopened, history_is_not_brought_in_again, owners_and_strangers,
            }
            redact_many {
                retries_after_a_redaction, lists_page_over_redacted_turns, interleaved_and_long_turns,
            }
            replace {
                replacing, replacements_are_idempotent, lists_leave_out_replaced,
                a_replaced_turn_stays_interrupted, replacing_makes_no_session, roles_matter,
            }
            sessions {
                closing, a_closed_session_begins_no_turn
            }
        }
    };
}
