//! Queries, and the comparison of a restored session with its expected lines and report.

use filrouge_engine::restore::{RestoreQuery, Selection, Unanswered};
use filrouge_transcode::Format;
use filrouge_types::Variant;

use crate::sessions::check::{all_tokens, assert_accepted, kept_seqs};
use crate::sessions::plan_lines::plan_lines;
use crate::test_session::{TestSession, query};

/// Seqs of items, and the change or the reason that a report lists for each.
pub(crate) type Reasons<'a> = &'a [(u64, &'a str)];

/// A query for the complete conversation.
pub(crate) fn complete() -> RestoreQuery {
    RestoreQuery::default()
}

pub(crate) fn pairs() -> RestoreQuery {
    query(Format::Pairs)
}

pub(crate) fn translated() -> RestoreQuery {
    RestoreQuery {
        variant: Variant::Translated,
        ..complete()
    }
}

/// A query that adds error results to calls without results.
pub(crate) fn with_error_results() -> RestoreQuery {
    RestoreQuery {
        unanswered: Unanswered::Error,
        ..complete()
    }
}

pub(crate) fn last_turns(turns: usize) -> RestoreQuery {
    RestoreQuery {
        last_turns: Some(turns),
        ..complete()
    }
}

pub(crate) fn within_tokens(tokens: u64) -> RestoreQuery {
    RestoreQuery {
        max_tokens: Some(tokens),
        ..complete()
    }
}

/// Compares the lines of the restored plan and its report with the expected ones. Renders the plan in every format of
/// the query's selection, and checks the contexts.
#[track_caller]
pub(crate) fn assert_restored(
    test: &TestSession,
    query: RestoreQuery,
    lines: &[&str],
    dropped: Reasons<'_>,
    adapted: Reasons<'_>,
) {
    let plan = test.plan(query);
    assert_eq!(plan_lines(&plan), lines);
    let report = plan.dispositions.clone().report();
    let actual: Vec<_> = report.dropped.iter().map(|d| (d.seq, d.reason)).collect();
    assert_eq!(actual, dropped, "dropped items");
    let actual: Vec<_> = report.adapted.iter().map(|a| (a.seq, a.change)).collect();
    assert_eq!(actual, adapted, "adapted items");
    assert_eq!(report.window.tokens, all_tokens(&plan));
    let items = test.items();
    kept_seqs(&report, items.len() as u64);
    for format in Format::ALL {
        let matches_query = (format == Format::Pairs) == (query.selection == Selection::Pairs);
        if matches_query {
            let context = test.context(format, query);
            assert_accepted(format, &context);
            kept_seqs(&context.report, items.len() as u64);
        }
    }
    assert_eq!(test.items(), items);
    test.assert_intact();
}
