//! The suite every hot store has to pass. A backend's test file gives a function that makes a [`HotFixture`] within given
//! bounds, with nothing in it, and names it:
//!
//! ```text
//! async fn make(bounds: HotBounds) -> filrouge_store::hot::suite::HotFixture { … }
//! filrouge_store::hot_contract_tests!(make);
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "test code: a failure is a panic, and a test's name tells what it is about"
)]

pub mod fixture;
pub mod story;

pub mod bounds;
pub mod commits;
pub mod copies;
pub mod fields;
pub mod late;
pub mod lives;
pub mod random;
pub mod together;

pub use fixture::{HotFixture, Passing, run};

/// Makes a `#[test]` of every test of the suite, over the hot stores that `$make` gives; with `at_once` before it, one of
/// all of them.
#[macro_export]
macro_rules! hot_contract_tests {
    ($make:ident) => { $crate::hot_contract_tests! { @list each $make } };
    // One test that runs them all, one after the other: where what they need takes long to start.
    (at_once $make:ident) => { $crate::hot_contract_tests! { @list at_once $make } };
    (@list $how:ident $make:ident) => {
        $crate::hot_contract_tests! { @$how $make;
            bounds {
                a_copy_has_so_many_turns, a_copy_has_so_many_bytes, a_turn_larger_than_all,
                fills_are_bounded, a_late_turn_fills_no_gap,
            }
            commits {
                making_and_changing, in_another_state_nothing_changes, words, incarnations, forgetting,
                puts_and_removes,
            }
            copies {
                from_the_first_turn, going_on, a_replaced_turn, a_removed_turn, limit_and_order,
                empty_records, filling, seqs_of_any_size, several_sessions_in_one_batch,
            }
            fields { any_bytes, large_values, many_fields, no_fields, keys_do_not_meet }
            late {
                a_gap, steps_behind_change_nothing, no_copy_no_use, another_history_of_one_length,
                older_fills, forgotten_copies, a_removal_stands,
            }
            lives { time_to_live_acts, writes_make_it_longer, after_its_time_it_is_new }
            random { any_commits, any_interleaving }
            together { every_version_once, one_of_many_makes_it, loads_are_of_one_state, many_deliver }
        }
    };
    (@at_once $make:ident; $($module:ident { $($test:ident),* $(,)? })*) => {
        #[test]
        fn whole_suite() {
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
