//! The suite that every hot store must pass. A backend's test file names a function that creates an empty
//! [`HotFixture`] with given limits:
//!
//! ```text
//! async fn make(bounds: HotBounds) -> filrouge_store::hot::suite::HotFixture { … }
//! filrouge_store::hot_contract_tests!(make);
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "test code: a failure is a panic, and a test's name says what it is about"
)]

pub mod fixture;
pub mod history;

pub mod bounds;
pub mod commits;
pub mod concurrency;
pub mod copies;
pub mod expiry;
pub mod fields;
pub mod late;
pub mod random;

pub use fixture::{HotFixture, TestClock, run};

/// Generates a `#[test]` from every test of the suite, for the hot stores that `$make` creates. With `at_once` before
/// `$make`, generates a single test that runs all of them in sequence.
#[macro_export]
macro_rules! hot_contract_tests {
    ($make:ident) => { $crate::hot_contract_tests! { @list each $make } };
    // One test that runs all in sequence, for stores that take long to start.
    (at_once $make:ident) => { $crate::hot_contract_tests! { @list at_once $make } };
    (@list $how:ident $make:ident) => {
        $crate::hot_contract_tests! { @$how $make;
            bounds {
                a_copy_has_a_turn_limit, a_copy_has_a_byte_limit, a_turn_larger_than_the_limit_empties_the_copy,
                fills_are_bounded, a_late_turn_fills_no_gap,
            }
            commits {
                sessions_are_created_and_changed, a_commit_in_another_version_changes_nothing,
                each_commit_draws_a_new_nonce, incarnations_distinguish_sessions_of_one_name,
                a_session_is_forgotten_only_in_the_expected_version, fields_are_removed_before_others_are_written,
            }
            copies {
                a_copy_starts_with_the_first_turn, consecutive_updates_advance_the_copy,
                a_turn_is_replaced_by_its_ordinal, removed_turns_are_not_returned,
                the_newest_turns_are_returned_oldest_first, records_may_be_empty_or_any_bytes,
                a_fill_replaces_an_older_copy, seqs_of_any_size_are_compared_exactly,
                one_batch_updates_several_sessions,
            }
            fields {
                any_bytes_are_stored, large_values_are_stored, many_fields_are_stored,
                a_session_without_fields_is_stored, keys_are_independent,
            }
            late {
                a_gap_invalidates_the_copy, older_updates_change_nothing, an_update_without_a_copy_creates_none,
                an_update_of_another_history_invalidates_the_copy, older_fills_and_updates_are_ignored,
                a_forgotten_copy_is_not_restored_by_older_data, a_removed_turn_does_not_return,
            }
            expiry { keys_expire, writes_extend_the_time_to_live, an_expired_session_can_be_created_again }
            random { random_commits_are_loaded_as_written, random_interleavings_return_consistent_copies }
            concurrency {
                every_version_is_created_once, one_of_many_creates_the_session, a_load_returns_a_single_version,
                concurrent_updates_end_with_the_newest_state_or_none,
            }
        }
    };
    (@at_once $make:ident; $($module:ident { $($test:ident),* $(,)? })*) => {
        #[test]
        fn the_contract_holds() {
            $crate::hot::suite::run(async || {
                $($($crate::hot::suite::$module::$test($make).await;)*)*
            });
        }
    };
    (@each $make:ident; $($module:ident { $($test:ident),* $(,)? })*) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                $crate::hot::suite::run(async || {
                    $crate::hot::suite::$module::$test(super::$make).await
                });
            })*
        })*
    };
}
