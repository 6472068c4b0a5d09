//! One rule, shown by its smallest example.

use filrouge_engine::restore::{RestoreQuery, Selection, Unanswered};
use filrouge_transcode::Format;
use filrouge_types::Variant;

use crate::journal::{TestSession, query};
use crate::journals::check::{accepted, all_tokens, kept};
use crate::journals::reported::reported;

/// Items with their descriptions.
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

pub(crate) fn last(turns: usize) -> RestoreQuery {
    RestoreQuery {
        last_turns: Some(turns),
        ..all()
    }
}

pub(crate) fn most(tokens: u64) -> RestoreQuery {
    RestoreQuery {
        max_tokens: Some(tokens),
        ..all()
    }
}

/// Compares the restored plan, line by line, and the report on the items; then renders it in every format and checks it.
#[track_caller]
pub(crate) fn restored(
    journal: &TestSession,
    query: RestoreQuery,
    lines: &[&str],
    dropped: Reasons<'_>,
    adapted: Reasons<'_>,
) {
    let plan = journal.plan(query);
    assert_eq!(reported(&plan), lines);
    let report = plan.dispositions.clone().report();
    let reported: Vec<_> = report.dropped.iter().map(|d| (d.seq, d.reason)).collect();
    assert_eq!(reported, dropped);
    let reported: Vec<_> = report.adapted.iter().map(|a| (a.seq, a.change)).collect();
    assert_eq!(reported, adapted);
    assert_eq!(report.window.tokens, all_tokens(&plan));
    let items = journal.items();
    kept(&report, items.len() as u64);
    for format in Format::ALL {
        let fits = (format == Format::Pairs) == (query.selection == Selection::Pairs);
        if fits {
            let context = journal.context(format, query);
            accepted(format, &context);
            kept(&context.report, items.len() as u64);
        }
    }
    assert_eq!(journal.items(), items);
    journal.intact();
}
