//! Builds the SQL of searches.
//!
//! Every statement restricts the owner of the documents. If the extensions `pg_trgm` and `btree_gin` are installed, the
//! index `search_words` contains the shard, the realm and the trigrams of the text. PostgreSQL intersects the postings
//! of the shard with those of the trigrams in the query's literals, and reads only the documents in the intersection.
//! For a literal without trigrams, such as two Chinese characters, it reads all documents of the shard.
//!
//! The statements leave the planner no choice of another index, because it would choose badly: its cost model ignores
//! the cost of reading a long text. If `search_words` contains only the trigrams, or does not exist, the statements
//! compare the expression `shard + 0`, which has a separate index. The planner then uses that index, or combines both
//! (BitmapAnd). The postings of the trigrams then name documents of all shards, but PostgreSQL does not read those of
//! other shards.

use filrouge_store::text_index::{CandidateQuery, IndexScope, TITLE};
use tokio_postgres::types::{ToSql, Type};

use crate::rows::sql_int;
use crate::session::Param;

/// Collects the parameters of a statement. The methods return parts of the statement's text, which the caller combines.
#[derive(Default)]
pub(super) struct StatementBuilder<'a> {
    types: Vec<Type>,
    values: Vec<Box<dyn ToSql + Sync + 'a>>,
}

impl<'a> StatementBuilder<'a> {
    /// Adds a parameter with this value, and returns its placeholder.
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

    /// Returns the condition that a row is in `scope`. `shards` and `realms` are the SQL expressions for the row's
    /// shard number and realm number.
    pub(super) fn within(&mut self, scope: &'a IndexScope, shards: &str, realms: &str) -> String {
        match scope {
            IndexScope::Shard(shard) => {
                let realm = self.bind(Type::BYTEA, &*shard.realm);
                let owner = self.bind(Type::BYTEA, &*shard.owner);
                format!(
                    "{shards} = (SELECT o.no FROM filrouge.search_shard o WHERE o.realm = {realm} AND o.owner = {owner})"
                )
            }
            IndexScope::Realm(realm) => {
                let realm = self.bind(Type::BYTEA, &**realm);
                format!(
                    "{realms} = (SELECT o.realm_no FROM filrouge.search_shard o WHERE o.realm = {realm} LIMIT 1)"
                )
            }
        }
    }

    /// Returns all conditions of a query on a document `d`, except its terms. `uses_word_index`: whether the index
    /// `search_words` restricts the owner.
    pub(super) fn filter(&mut self, query: &CandidateQuery<'a>, uses_word_index: bool) -> String {
        let mut text = match uses_word_index {
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
            let sessions: Vec<i64> = sessions.iter().map(|no| sql_int(*no)).collect();
            let sessions = self.bind(Type::INT8_ARRAY, sessions);
            text += &format!(" AND d.session = ANY({sessions})");
        }
        text
    }

    /// Returns the condition that a document `d` meets a term, that is, contains at least one of its literals.
    pub(super) fn meets(&mut self, term: &[String]) -> String {
        let literals = term.iter().map(|literal| {
            format!(
                "d.folded LIKE {}",
                self.bind(Type::TEXT, like_pattern(literal))
            )
        });
        let literals: Vec<String> = literals.collect();
        match literals.is_empty() {
            true => "false".to_owned(),
            false => format!("({})", literals.join(" OR ")),
        }
    }
}

/// Replaces NUL characters, which PostgreSQL cannot store in a text.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The `LIKE` pattern that finds a literal anywhere in a text.
fn like_pattern(literal: &str) -> String {
    let mut pattern = String::with_capacity(literal.len() + 2);
    pattern.push('%');
    for c in without_nul(literal).chars() {
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
    fn a_pattern_matches_only_its_literal() {
        assert_eq!(
            like_pattern("snake_case 100% c:\\x"),
            "%snake\\_case 100\\% c:\\\\x%"
        );
        assert_eq!(like_pattern("a\0b"), "%a\u{fffd}b%");
    }
}
