//! The structure of the indices.

use serde_json::{Value, json};

/// The time for which OpenSearch remembers the version of a deleted row. A write that was delayed for less than this
/// cannot bring the row back.
const DELETES_REMEMBERED: &str = "6h";
/// The maximum number of values of a condition, such as the numbers of the sessions to search.
const TERMS_MAX: u32 = 10_000_000;

/// The settings that all indices have: one shard, so that a refresh makes all changes visible at one moment, and a copy
/// of it if there is another node. Changes become visible only by a refresh that filrouge asks for.
fn settings() -> Value {
    json!({
        "number_of_shards": 1,
        "auto_expand_replicas": "0-1",
        "refresh_interval": "-1",
        "translog.durability": "request",
        "gc_deletes": DELETES_REMEMBERED,
    })
}

/// The body that creates the index of the state.
pub(super) fn meta() -> Value {
    json!({
        "settings": { "index": settings() },
        "mappings": { "dynamic": false },
    })
}

/// The body that creates the index of a generation. Fields that no query uses are only stored.
///
/// A row's text is indexed as its trigrams, with their positions. It is not stored: the index names documents, and the
/// ledger has their texts.
pub(super) fn documents(write_alias: &str) -> Value {
    let mut index = settings();
    index["max_terms_count"] = TERMS_MAX.into();
    // A merge of deleted rows also rewrites files with few of them.
    index["merge.policy.expunge_deletes_allowed"] = 0.into();
    index["analysis"] = json!({
        "tokenizer": { "trigrams": { "type": "ngram", "min_gram": 3, "max_gram": 3 } },
        "analyzer": { "trigrams": { "type": "custom", "tokenizer": "trigrams" } },
    });
    let word = json!({ "type": "keyword", "doc_values": false });
    let counted_word = json!({ "type": "keyword" });
    let number = json!({ "type": "long" });
    json!({
        "settings": { "index": index },
        "mappings": {
            "dynamic": false,
            "_source": { "excludes": ["folded", "dense"] },
            "properties": {
                "row": counted_word,
                "no": number,
                "realm": word,
                "shard": word,
                "name": word,
                "stamp_0": word,
                "stamp_1": word,
                "session": number,
                "key": word,
                "unit": word,
                "kind": { "type": "byte" },
                "created": number,
                "bytes": number,
                "folded": { "type": "text", "analyzer": "trigrams", "norms": false },
                "dense": word,
                "embedder": counted_word,
            },
        },
        "aliases": { write_alias: {} },
    })
}
