//! Finds turns that are similar to a question.

use filrouge_types::{IdentityId, SessionId};
use serde_json::Value;

use super::Weaviate;
use super::requests::tenant_name;
use super::rows::TURN;
use crate::TargetError;
use crate::content::owner_digest;
use crate::target::{SimilarQuery, SimilarTurn};

/// The weight of vectors against that of words, from 0 to 1.
const ALPHA: f64 = 0.75;
/// The maximum number of characters of a question whose words are compared.
const MAX_CHARS: usize = 2_000;

impl Weaviate {
    /// [`crate::Target::similar`]. For the entire tenant, vectors and words are compared. For one owner only vectors
    /// are: Weaviate weighs a word by its frequency in all turns of the tenant, so scores of words would depend on turns
    /// of other owners.
    pub(super) async fn similar_turns(
        &self,
        query: &SimilarQuery,
    ) -> Result<Option<Vec<SimilarTurn>>, TargetError> {
        let vectors = self.settings.vectors.as_ref();
        if vectors.is_none_or(|vectors| vectors.dimensions() != query.vector.len()) {
            return Ok(None);
        }
        let Some(generation) = crate::Target::published(self).await? else {
            return Ok(None);
        };
        let (collection, tenant) = (self.name(generation), tenant_name(&query.tenant));
        let arguments = arguments(query);
        let score = match &query.owner {
            Some(_) => "distance",
            None => "score",
        };
        let selection = format!("session_id identity_id ordinal _additional {{{score}}}");
        let found = self.query(&collection, &tenant, &arguments, query.limit, &selection);
        let turn = |object: &Value| similar_turn(object, query.owner.as_ref());
        Ok(Some(found.await?.iter().filter_map(turn).collect()))
    }
}

/// The arguments of a query. Texts from outside are in them only as [`text_literal`].
fn arguments(query: &SimilarQuery) -> String {
    // The digits of a vector are those of JSON, which GraphQL reads, too.
    let vector = Value::from(query.vector.clone());
    let kind = format!("{{path: [\"kind\"], operator: Equal, valueText: \"{TURN}\"}}");
    let mut conditions = vec![
        kind,
        "{path: [\"redacted\"], operator: Equal, valueBoolean: false}".to_owned(),
    ];
    let search = match &query.owner {
        Some(owner) => {
            // Conditions ignore white space at the ends of a text, and a digest has none.
            let digest = owner_digest(owner);
            conditions.push(format!(
                "{{path: [\"owner_digest\"], operator: Equal, valueText: \"{digest}\"}}"
            ));
            format!("nearVector: {{vector: {vector}}}")
        }
        None => {
            let text: String = query.text.chars().take(MAX_CHARS).collect();
            let text = text_literal(&text);
            format!(
                "hybrid: {{query: {text}, vector: {vector}, alpha: {ALPHA}, properties: [\"question\"]}}"
            )
        }
    };
    let conditions = conditions.join(", ");
    format!("{search}, where: {{operator: And, operands: [{conditions}]}}")
}

/// A text as a string of GraphQL. Every string of JSON is one, and its escapes mean the same. The separators of lines
/// and paragraphs, and all characters of control, are escaped, too.
fn text_literal(text: &str) -> String {
    let json = Value::from(text).to_string();
    let mut literal = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                literal.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => literal.push(c),
        }
    }
    literal
}

/// The turn of an object; `None` if it is another owner's, or has other properties than filrouge wrote.
fn similar_turn(object: &Value, owner: Option<&IdentityId>) -> Option<SimilarTurn> {
    let additional = &object["_additional"];
    let score = match owner {
        // Somebody may have changed the object.
        Some(owner) if object["identity_id"] != owner.as_str() => return None,
        Some(_) => 1.0 - additional["distance"].as_f64()?,
        // Weaviate returns this number as a text.
        None => additional["score"].as_str()?.parse::<f64>().ok()?,
    };
    Some(SimilarTurn {
        session: object["session_id"].as_str()?.parse::<SessionId>().ok()?,
        ordinal: object["ordinal"].as_u64()?,
        score: f64::clamp(score, 0.0, 1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_literals() {
        for text in [
            "",
            "why?",
            "\"}, limit: 9) {session_id}} #",
            "\\\" or \\",
            "\"\"\"block\"\"\"",
            "a\n\r\t\u{0}\u{7f}\u{85}\u{2028}\u{feff}b",
            "où 東京 👋",
        ] {
            let literal = text_literal(text);
            let inner = literal.strip_prefix('"').unwrap();
            let inner = inner.strip_suffix('"').unwrap();
            // Within it, each quotation mark follows an odd number of backslashes.
            for (at, _) in inner.match_indices('"') {
                let before = inner[..at].bytes().rev().take_while(|b| *b == b'\\');
                assert_eq!(before.count() % 2, 1, "{literal}");
            }
            assert!(!inner.contains(char::is_control), "{literal:?}");
            assert_eq!(serde_json::from_str::<String>(&literal).unwrap(), text);
        }
    }

    #[test]
    fn every_query_of_an_owner_has_a_filter() {
        let query = |owner: Option<&str>| {
            arguments(&SimilarQuery {
                tenant: "acme".parse().unwrap(),
                owner: owner.map(|owner| owner.parse().unwrap()),
                text: "a \"gate\"".to_owned(),
                vector: vec![0.25, -1e-9],
                limit: 3,
            })
        };
        let of_owner = query(Some("an\"na"));
        let digest = owner_digest(&"an\"na".parse().unwrap());
        let condition = format!("[\"owner_digest\"], operator: Equal, valueText: \"{digest}\"}}");
        assert!(of_owner.contains(&condition), "{of_owner}");
        assert!(
            of_owner.starts_with("nearVector: {vector: [0.25,"),
            "{of_owner}"
        );
        let of_all = query(None);
        assert!(
            of_all.starts_with("hybrid: {query: \"a \\\"gate\\\"\", vector: ["),
            "{of_all}"
        );
        assert!(!of_all.contains("owner_digest"), "{of_all}");
    }
}
