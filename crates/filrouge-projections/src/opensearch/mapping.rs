//! The structure of an index: its settings and its fields.

use filrouge_types::Application;
use serde_json::{Map, Value, json};

use super::Product;

/// Fields with ids and words, which queries compare as they are.
const KEYWORDS: [&str; 20] = [
    "agent",
    "channel",
    "doc_type",
    "exchange_id",
    "identity_id",
    "item_id",
    "model",
    "parent_session_id",
    "project_id",
    "replaced_by",
    "request_id",
    "role",
    "session_digest",
    "session_id",
    "session_state",
    "session_status",
    "team_id",
    "tenant_id",
    "turn_status",
    "variant",
];
/// Fields with times.
const DATES: [&str; 5] = [
    "created_at",
    "deleted_at",
    "finalized_at",
    "timestamp",
    "updated_at",
];
/// Fields with whole numbers.
const NUMBERS: [&str; 6] = [
    "last_rank",
    "ordinal",
    "rank",
    "record_version",
    "turn_count",
    "version",
];
/// Fields with texts, which queries search for words.
const TEXTS: [&str; 4] = ["answer", "question", "text", "title"];

/// How long OpenSearch remembers the version of a deleted document. A write that was delayed for
/// less than this cannot bring the document back.
const DELETES_REMEMBERED: &str = "6h";

/// The field of a generation's stamp, and the kind, the id and the routing of the document that has it.
pub(super) const STAMP: &str = "stamp";

/// What the alias for queries shows of an index.
pub(super) fn shown() -> Value {
    json!({ "bool": { "must_not": { "term": { "doc_type": STAMP } } } })
}

/// The body that creates an index.
pub(super) fn index(product: Product, dimensions: Option<usize>, write_alias: &str) -> Value {
    let mut index = json!({
        "gc_deletes": DELETES_REMEMBERED,
        "translog.durability": "request",
        // Lists of sessions then read a part of the index, and the documents of a session lie together.
        "sort.field": ["tenant_id", "session_id"],
        "sort.order": ["asc", "asc"],
        // A merge of deleted documents also rewrites segments with few of them.
        "merge.policy.expunge_deletes_allowed": 0,
    });
    if dimensions.is_some() && product == Product::OpenSearch {
        index["knn"] = Value::from(true);
    }
    json!({
        "settings": { "index": index },
        "mappings": mappings(product, dimensions),
        "aliases": { write_alias: {} },
    })
}

/// The fields of an index. Documents with other fields are refused.
pub(super) fn mappings(product: Product, dimensions: Option<usize>) -> Value {
    let stored_only = json!({ "type": "object", "enabled": false });
    let mut fields = Map::new();
    let mut add = |names: &[&str], mapping: Value| {
        for name in names {
            fields.insert((*name).to_owned(), mapping.clone());
        }
    };
    // Longer words are stored and not indexed: the index does not hold a word of more than 32,766 bytes.
    let keyword = json!({ "type": "keyword", "ignore_above": 8191 });
    add(&KEYWORDS, keyword.clone());
    let [labels @ .., wants_translation] = Application::NAMES;
    add(&labels, keyword);
    // A time of a year that OpenSearch does not know is stored and not indexed.
    add(&DATES, json!({ "type": "date", "ignore_malformed": true }));
    add(&NUMBERS, json!({ "type": "long" }));
    let cjk = json!({ "type": "text", "analyzer": "cjk" });
    add(&TEXTS, json!({ "type": "text", "fields": { "cjk": cjk } }));
    add(
        &["answer_is_fallback", "redacted", wants_translation],
        json!({ "type": "boolean" }),
    );
    add(
        &["metadata_unindexed", "parts", STAMP, "usage"],
        stored_only,
    );
    add(&["metadata"], product.metadata_field());
    if let Some(dimensions) = dimensions {
        add(&["vector"], product.vector_field(dimensions));
    }
    json!({ "dynamic": "strict", "properties": fields })
}

impl Product {
    /// The mapping of a JSON object with any members, which are indexed as words.
    fn metadata_field(self) -> Value {
        match self {
            Self::OpenSearch => json!({ "type": "flat_object" }),
            Self::Elasticsearch => json!({ "type": "flattened", "ignore_above": 8191 }),
        }
    }

    fn vector_field(self, dimensions: usize) -> Value {
        match self {
            Self::OpenSearch => json!({
                "type": "knn_vector",
                "dimension": dimensions,
                "method": { "name": "hnsw", "engine": "lucene", "space_type": "cosinesimil" },
            }),
            Self::Elasticsearch => json!({
                "type": "dense_vector",
                "dims": dimensions,
                "index": true,
                "similarity": "cosine",
            }),
        }
    }
}

/// Whether an index has a field of this name.
pub(super) fn is_field(name: &str) -> bool {
    let names = [&KEYWORDS[..], &DATES[..], &NUMBERS[..], &TEXTS[..]];
    let others = [
        "metadata",
        "metadata_unindexed",
        "parts",
        STAMP,
        "usage",
        "vector",
    ];
    names.iter().any(|names| names.contains(&name)) || others.contains(&name)
}

/// The first field that an index has in another form than expected, or that it has in excess; `None` if there is none.
/// Settings that the server adds to a field do not count.
pub(super) fn first_difference(found: &Value, expected: &Value) -> Option<String> {
    let none = Map::new();
    let fields = |mappings: &Value| mappings["properties"].as_object().cloned();
    let (found, expected) = (fields(found), fields(expected));
    let found = found.as_ref().unwrap_or(&none);
    let expected = expected.as_ref().unwrap_or(&none);
    let differs = |(name, field): (&String, &Value)| {
        let is_as_expected = found.get(name).is_some_and(|found| contains(found, field));
        (!is_as_expected).then(|| name.clone())
    };
    let excess = || found.keys().find(|name| !expected.contains_key(*name));
    expected
        .iter()
        .find_map(differs)
        .or_else(|| excess().cloned())
}

/// Whether `found` has everything that `expected` has.
fn contains(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|found| contains(found, value))),
        _ => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_field_is_found() {
        let expected = mappings(Product::OpenSearch, Some(3));
        assert_eq!(first_difference(&expected, &expected), None);
        let difference = |change: fn(&mut Value)| {
            let mut found = expected.clone();
            change(&mut found["properties"]);
            first_difference(&found, &expected)
        };
        let added = difference(|fields| fields["text"]["copy_to"] = json!("title"));
        assert_eq!(added, None);
        let changed = difference(|fields| fields["rank"]["type"] = json!("text"));
        assert_eq!(changed.as_deref(), Some("rank"));
        let excess = difference(|fields| fields["body"] = json!({ "type": "text" }));
        assert_eq!(excess.as_deref(), Some("body"));
        let other = mappings(Product::OpenSearch, Some(4));
        assert_eq!(
            first_difference(&other, &expected).as_deref(),
            Some("vector")
        );
    }

    #[test]
    fn both_products_have_the_same_fields() {
        let names = |product| {
            let mappings = mappings(product, Some(3));
            let fields = mappings["properties"].as_object().unwrap();
            fields.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(Product::OpenSearch), names(Product::Elasticsearch));
    }
}
