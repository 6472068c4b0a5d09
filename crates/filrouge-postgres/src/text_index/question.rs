//! What is asked of documents, in PostgreSQL's words.
//!
//! Whose documents it is about is part of every statement. With `pg_trgm` and `btree_gin` there is one index for it,
//! `search_words`: PostgreSQL reads the postings of the shard and those of the literals' trigrams, of which the rarest
//! lead, and looks into the documents alone that stand in all of them; for a literal without trigrams, such as two
//! characters of Chinese, into those of the shard. The planner has no other way, for it would not know a good one: what a
//! look into a text costs is nothing to it. Where `search_words` is of `folded` alone, or not there, the shard is asked
//! for by its sum with 0, of which there is an index, and the planner takes that one, or both (BitmapAnd). Trigrams'
//! postings hold numbers of all shards; documents of another shard are not looked into.

use filrouge_store::text_index::{CandidateQuery, Reach, TITLE};
use tokio_postgres::types::{ToSql, Type};

use crate::rows::int;
use crate::session::Param;

/// A statement in the making.
#[derive(Default)]
pub(super) struct Question<'a> {
    types: Vec<Type>,
    values: Vec<Box<dyn ToSql + Sync + 'a>>,
}

impl<'a> Question<'a> {
    /// The place of a value in the statement.
    pub(super) fn bind(&mut self, kind: Type, value: impl ToSql + Sync + 'a) -> String {
        self.types.push(kind);
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    pub(super) fn types(&self) -> &[Type] {
        &self.types
    }

    pub(super) fn params(&self) -> Vec<Param<'_>> {
        self.values.iter().map(|v| &**v as Param<'_>).collect()
    }

    /// The condition on a table `column` that holds the numbers of shards, or of realms with `realms`.
    pub(super) fn within(&mut self, reach: &'a Reach, shards: &str, realms: &str) -> String {
        match reach {
            Reach::Shard(shard) => {
                let realm = self.bind(Type::BYTEA, &*shard.realm);
                let owner = self.bind(Type::BYTEA, &*shard.owner);
                format!(
                    "{shards} = (SELECT o.no FROM filrouge.search_shard o WHERE o.realm = {realm} AND o.owner = {owner})"
                )
            }
            Reach::Realm(realm) => {
                let realm = self.bind(Type::BYTEA, &**realm);
                format!(
                    "{realms} = (SELECT o.realm_no FROM filrouge.search_shard o WHERE o.realm = {realm} LIMIT 1)"
                )
            }
        }
    }

    /// All conditions on a document `d` but the terms; `by_words` when `search_words` finds whose it is.
    pub(super) fn passing(&mut self, query: &CandidateQuery<'a>, by_words: bool) -> String {
        let mut text = match by_words {
            true => self.within(query.reach, "d.shard", "d.realm"),
            false => self.within(query.reach, "d.shard + 0", "d.realm + 0"),
        };
        if query.kinds != u32::MAX {
            let kinds = self.bind(Type::INT8, i64::from(query.kinds));
            text += &format!(" AND ({kinds} >> d.kind) & 1 = 1");
        }
        if let Some(since) = query.since {
            let since = self.bind(Type::INT8, since);
            text += &format!(" AND (d.kind = {TITLE} OR d.created >= {since})");
        }
        if let Some(until) = query.until {
            let until = self.bind(Type::INT8, until);
            text += &format!(" AND (d.kind = {TITLE} OR d.created < {until})");
        }
        if let Some(sessions) = query.sessions {
            let sessions: Vec<i64> = sessions.iter().map(|no| int(*no)).collect();
            let sessions = self.bind(Type::INT8_ARRAY, sessions);
            text += &format!(" AND d.session = ANY({sessions})");
        }
        text
    }

    /// That a document `d` meets a term.
    pub(super) fn meets(&mut self, term: &[String]) -> String {
        let literals = term
            .iter()
            .map(|literal| format!("d.folded LIKE {}", self.bind(Type::TEXT, pattern(literal))));
        let literals: Vec<String> = literals.collect();
        match literals.is_empty() {
            true => "false".to_owned(),
            false => format!("({})", literals.join(" OR ")),
        }
    }
}

/// A text as PostgreSQL can hold it: without NUL, which stands for nothing that anybody looks for.
pub(super) fn held(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// What `LIKE` finds a literal by, wherever it stands.
fn pattern(literal: &str) -> String {
    let mut pattern = String::with_capacity(literal.len() + 2);
    pattern.push('%');
    for c in held(literal).chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_stands_for_itself_alone() {
        assert_eq!(
            pattern("snake_case 100% c:\\x"),
            "%snake\\_case 100\\% c:\\\\x%"
        );
        assert_eq!(pattern("a\0b"), "%a\u{fffd}b%");
    }
}
