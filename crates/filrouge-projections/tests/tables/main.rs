//! The tables in SQLite and PostgreSQL, and the Parquet export.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests"
)]

mod contract;
mod export;
mod page;
mod postgres;
mod sessions;
mod sqlite;
mod voice;
mod world;

/// Runs functions of a module on both databases.
macro_rules! on_both {
    ($module:ident: $($name:ident),+ $(,)?) => {
        mod $module {
            mod on_sqlite {
                $(#[tokio::test] async fn $name() {
                    crate::$module::$name(&crate::world::World::on_sqlite()).await;
                })+
            }
            mod on_postgres {
                $(#[tokio::test] async fn $name() {
                    crate::$module::$name(&crate::world::World::on_postgres()).await;
                })+
            }
        }
    };
}

mod both {
    on_both!(contract:
        rows_are_returned_as_they_were_written,
        hostile_texts_are_only_texts,
        similar_keys_are_kept_apart,
        an_older_row_never_replaces_a_newer_one,
        an_entire_update_deletes_other_rows,
        a_removed_session_does_not_come_back,
        a_cleaned_session_does_not_come_back,
        several_updates_of_a_session_are_applied_in_order,
        many_rows_are_written,
        a_refused_update_does_not_affect_others,
        sessions_are_listed_in_the_order_of_their_keys,
        queries_see_the_published_generation,
        a_generation_has_one_stamp,
        an_altered_generation_is_noticed,
        tables_of_others_are_left_alone,
    );
    on_both!(voice:
        the_voice_designs_key_figures_are_counted,
        a_tenant_without_a_number_has_no_calls,
    );
}
