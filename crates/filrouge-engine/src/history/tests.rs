//! The rules of the history contract, each tested on every store that it applies to. `docs/history-contract.md` lists
//! them.
mod reading;
mod service;
mod session_scope;
mod user_scope;
mod world;

use world::HistoryWorld;

/// One test per rule and store.
macro_rules! tests {
    ($store:ident $module:ident: $($rule:ident)+) => {
        mod $module {
            $(#[tokio::test]
            async fn $rule() {
                let world = super::super::HistoryWorld::$store();
                super::super::$module::$rule(&world).await;
            })+
        }
    };
}

/// The rules of the session scope, which apply to every store.
macro_rules! session_rules {
    ($($store:ident)+) => { $(mod $store {
        tests! { $store session_scope:
            a_request_has_one_turn
            a_request_id_is_scoped_to_its_session
            a_repeated_start_returns_the_same_turn
            concurrent_starts_are_one_turn
            concurrent_turns_are_all_kept
            finalizing_again_changes_nothing
            finalizing_another_turn_is_refused
            translations_are_optional
            metadata_is_kept_unchanged
            the_history_of_another_identity_looks_absent
        }
        tests! { $store reading:
            the_newest_turns_are_listed_in_order
            redacted_turns_are_tombstones
            a_replacement_keeps_the_position_of_the_turn
            equal_questions_are_separate_pairs
            turns_have_every_field
        }
        tests! { $store service:
            the_question_is_stored_before_the_answer
            a_missing_neutral_question_is_a_flagged_copy
            a_turn_needs_a_question
            a_missing_translation_is_a_flagged_copy
            a_translation_keeps_its_flag
            finalizing_needs_a_start
            best_effort_is_only_for_development
            a_start_links_the_session
            a_second_identity_is_refused
            one_of_several_logins_wins
            after_a_login_the_session_is_closed_to_others
        }
    })+ };
}

/// The rules of the user scope, which apply to stores with a ledger.
macro_rules! user_rules {
    ($($store:ident $name:ident)+) => { $(mod $name {
        tests! { $store user_scope:
            linking_is_an_upsert
            a_link_to_another_identity_is_refused
            inserting_again_changes_nothing
            an_open_turn_gets_its_answer
            inserted_turns_keep_their_times_and_order
            turns_that_violate_a_rule_are_not_inserted
            finalizing_creates_no_turn
            only_the_owner_finalizes
            the_stores_clock_sets_the_time
        }
    })+ };
}

session_rules! { hot ledger tiered tiered_all_durable }
user_rules! { ledger durable tiered durable_tiered }
