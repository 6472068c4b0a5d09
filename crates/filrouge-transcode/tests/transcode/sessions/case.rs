//! Queries, and the comparison of a restored session with its expected lines and report.

use filrouge_engine::restore::{RestoreQuery, Selection, Unanswered};
use filrouge_transcode::Format;
use filrouge_types::Variant;

use crate::sessions::check::{all_tokens, assert_accepted, kept_seqs};
use crate::sessions::plan_lines::plan_lines;
use crate::test_session::{TestSession, query};

/// Items with the changes or the reasons that a report lists for them.
pub(crate) type Reasons<'a> = &'a [(u64, &'a str)];

pub(crate) fn all() -> RestoreQuery {
    RestoreQuery::default()
}

pub(crate) fn pairs() -> RestoreQuery {
    query(Format::Pairs)
}

pub(crate) fn translated() -> RestoreQuery {
    RestoreQuery {
        variant: Variant::Translated,
        ..all()
    }
}

pub(crate) fn with_errors() -> RestoreQuery {
    RestoreQuery {
        unanswered: Unanswered::Error,
        ..all()
    }
}

pub(crate) fn last_turns(turns: usize) -> RestoreQuery {
    RestoreQuery {
        last_turns: Some(turns),
        ..all()
    }
}

pub(crate) fn within_tokens(tokens: u64) -> RestoreQuery {
    RestoreQuery {
        max_tokens: Some(tokens),
        ..all()
    }
}

/// Compares the lines of the restored plan and its report with the expected ones. Renders the plan in every format that
/// fits the query, and checks the contexts.
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
        let fits_query = (format == Format::Pairs) == (query.selection == Selection::Pairs);
        if fits_query {
            let context = test.context(format, query);
            assert_accepted(format, &context);
            kept_seqs(&context.report, items.len() as u64);
        }
    }
    assert_eq!(test.items(), items);
    test.assert_intact();
}
