//! OpenSearch, or Elasticsearch with the same requests.
//!
//! Each generation is one index, `PREFIX-000001`, with a fixed number of shards, which an index template can set. A
//! session's documents are in the shard that the digest of its key selects. An index does not roll over to another one
//! by its size: a new version of a document must reach the index that has the document, and the number of a rolled index
//! cannot be computed from the session. A generation that outgrows its shards is rebuilt with more of them.
//!
//! Writes go to the alias `PREFIX-000001-write`, so that they fail when the index was deleted, instead of creating it.
//! Queries of other programs use the alias `PREFIX`, which `publish` moves.
//!
//! Each document has its version twice: as the external version, by which OpenSearch refuses older writes, also after a
//! deletion, and in the field `version`, by which obsolete documents are found.
//!
//! An index has one more document, the generation's stamp, which the alias `PREFIX` leaves out.

mod bulk;
mod mapping;
mod merge;
mod obsolete;
mod read;
mod rows;
mod stamp;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use filrouge_opensearch::text_index::is_prefix;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::content::session_digest;
use crate::http::{Answer, Body, Client, Endpoint};
use crate::vectors::{self, Vectors};
use crate::{Cleaned, Refused, Row, SessionKey, SessionUpdate, Stamp, Target, TargetError, Update};
use bulk::Action;
use obsolete::Obsolete;

/// The settings of a target.
#[derive(Debug, Clone)]
pub struct OpenSearchSettings {
    /// The server.
    pub endpoint: Endpoint,
    /// The name of the alias for queries, and the beginning of the names of indices: lower-case letters, digits, `-` and
    /// `_`, beginning with a letter.
    pub prefix: String,
    /// What computes the vectors of items; `None` stores no vectors.
    pub vectors: Option<Arc<dyn Vectors>>,
}

/// The program that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Product {
    OpenSearch,
    Elasticsearch,
}

/// A target in OpenSearch 2.7 or Elasticsearch 8, or later.
#[derive(Debug)]
pub struct OpenSearch {
    client: Client,
    settings: OpenSearchSettings,
    product: OnceLock<Product>,
    /// The time of the newest merge that cleaning planned.
    merge_at: Mutex<Option<Instant>>,
}

impl OpenSearch {
    /// Creates the target; sends nothing yet.
    ///
    /// # Errors
    /// [`TargetError::Refused`] for invalid settings.
    pub fn new(settings: OpenSearchSettings) -> Result<Self, TargetError> {
        if !is_prefix(&settings.prefix) {
            let message =
                "the prefix has 1 to 100 characters of a-z, 0-9, - and _, and begins with a letter";
            return Err(TargetError::Refused(message.to_owned()));
        }
        Ok(Self {
            client: Client::new(&settings.endpoint)?,
            settings,
            product: OnceLock::new(),
            merge_at: Mutex::new(None),
        })
    }

    fn index(&self, generation: u64) -> String {
        format!("{}-{generation:06}", self.settings.prefix)
    }

    fn write_alias(&self, generation: u64) -> String {
        format!("{}-write", self.index(generation))
    }

    /// The generation of an index of this target.
    fn generation(&self, index: &str) -> Option<u64> {
        let number = index
            .strip_prefix(&self.settings.prefix)?
            .strip_prefix('-')?;
        let generation = number.parse().ok()?;
        (self.index(generation) == index).then_some(generation)
    }

    fn dimensions(&self) -> Option<usize> {
        let vectors = self.settings.vectors.as_ref()?;
        Some(vectors.dimensions())
    }

    /// Asks which program answers.
    async fn product(&self) -> Result<Product, TargetError> {
        if let Some(product) = self.product.get() {
            return Ok(*product);
        }
        let answer = self.request(Method::GET, "", Body::None).await?;
        let version = &answer["version"];
        let number = version["number"].as_str().unwrap_or_default();
        let mut parts = number.split('.').map(|part| part.parse().unwrap_or(0_u32));
        let number_pair = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let product = if version["distribution"] == "opensearch" {
            Product::OpenSearch
        } else {
            Product::Elasticsearch
        };
        let oldest = match product {
            Product::OpenSearch => (2, 7),
            Product::Elasticsearch => (8, 0),
        };
        if number_pair < oldest {
            let message = format!(
                "{product:?} {number:?} is older than {}.{}",
                oldest.0, oldest.1
            );
            return Err(TargetError::Refused(message));
        }
        Ok(*self.product.get_or_init(|| product))
    }

    /// Sends a request that should succeed.
    async fn request(&self, method: Method, path: &str, body: Body) -> Result<Value, TargetError> {
        let answer = self.client.send(method, path, body).await?;
        if answer.status.is_success() {
            Ok(answer.body)
        } else {
            Err(unexpected(&answer))
        }
    }

    /// Makes all writes so far visible to queries.
    async fn refresh(&self, index: &str) -> Result<(), TargetError> {
        let path = format!("{index}/_refresh");
        self.request(Method::POST, &path, Body::None).await?;
        Ok(())
    }

    /// The indices of all generations.
    async fn indices(&self) -> Result<Vec<String>, TargetError> {
        let path = format!("{}-*/_alias", self.settings.prefix);
        let found = self.request(Method::GET, &path, Body::None).await?;
        let found = found.as_object().into_iter().flatten();
        Ok(found
            .map(|(index, _)| index.clone())
            .filter(|index| self.generation(index).is_some())
            .collect())
    }

    /// The indices that the alias for queries names.
    async fn aliased(&self) -> Result<Vec<String>, TargetError> {
        let path = format!("_alias/{}", self.settings.prefix);
        let answer = self.client.send(Method::GET, &path, Body::None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(Vec::new());
        }
        if !answer.status.is_success() {
            return Err(unexpected(&answer));
        }
        let indices = answer.body.as_object().into_iter().flatten();
        Ok(indices.map(|(index, _)| index.clone()).collect())
    }

    /// Compares an index that exists with the one that this version creates.
    async fn check(&self, generation: u64, expected: &Value) -> Result<(), TargetError> {
        let index = self.index(generation);
        let found = self.request(Method::GET, &index, Body::None).await?;
        let found = &found[&index];
        let difference = mapping::first_difference(&found["mappings"], &expected["mappings"]);
        if let Some(field) = difference {
            let message = format!("the index {index} has another field {field}");
            return Err(TargetError::Altered(message));
        }
        let alias = self.write_alias(generation);
        if found["aliases"].get(&alias).is_none() {
            return Err(TargetError::Altered(format!(
                "the alias {alias} is missing"
            )));
        }
        Ok(())
    }

    /// The members that documents get besides their content: for each row, in order.
    async fn added(&self, updates: &[Update]) -> Result<Vec<Map<String, Value>>, TargetError> {
        let rows = updates.iter().flat_map(|update| match update {
            Update::Rows {
                rows, key, version, ..
            } => {
                let digest = session_digest(key);
                rows.iter()
                    .map(|row| (row, digest.clone(), *version))
                    .collect::<Vec<_>>()
            }
            Update::Removed { .. } => Vec::new(),
        });
        let mut texts = Vec::new();
        let mut added: Vec<Map<String, Value>> = Vec::new();
        for (row, digest, version) in rows {
            let text = row.content.get("text").and_then(Value::as_str);
            texts.push(text.unwrap_or_default().to_owned());
            added.push(Map::from_iter([
                ("doc_type".to_owned(), Value::from(row.table)),
                ("session_digest".to_owned(), Value::from(digest)),
                ("version".to_owned(), Value::from(version)),
            ]));
        }
        if let Some(vectors) = &self.settings.vectors {
            let embedded = vectors::embed(vectors, texts).await?;
            for (members, vector) in added.iter_mut().zip(embedded) {
                if let Some(vector) = vector {
                    members.insert("vector".to_owned(), Value::from(vector));
                }
            }
        }
        Ok(added)
    }
}

/// The error of a response that has no other meaning for the caller. It names the kind of error, and quotes no text of
/// the response.
fn unexpected(answer: &Answer) -> TargetError {
    let kind = answer.body["error"]["type"].as_str();
    let message = format!(
        "status {}: {}",
        answer.status.as_u16(),
        kind.unwrap_or("unknown error")
    );
    if answer.status == StatusCode::NOT_FOUND {
        return TargetError::Altered(message);
    }
    TargetError::Refused(message)
}

#[async_trait]
impl Target for OpenSearch {
    fn rows(&self, update: &SessionUpdate) -> Vec<Row> {
        rows::rows(update)
    }

    async fn published(&self) -> Result<Option<u64>, TargetError> {
        let generation = match &self.aliased().await?[..] {
            [] => return Ok(None),
            [index] => self.generation(index),
            _ => None,
        };
        let message = "the alias for queries names other indices than one generation";
        let generation = generation.ok_or_else(|| TargetError::Altered(message.to_owned()))?;
        Ok(Some(generation))
    }

    async fn create(&self, generation: u64) -> Result<(), TargetError> {
        let (product, dimensions) = (self.product().await?, self.dimensions());
        let alias = self.write_alias(generation);
        let body = mapping::index(product, dimensions, &alias);
        let path = self.index(generation);
        let created = Body::Json(body.clone());
        let answer = self.client.send(Method::PUT, &path, created).await?;
        match answer.body["error"]["type"].as_str() {
            _ if answer.status.is_success() => Ok(()),
            Some("resource_already_exists_exception") => self.check(generation, &body).await,
            _ => Err(unexpected(&answer)),
        }
    }

    async fn write(
        &self,
        generation: u64,
        updates: Vec<Update>,
    ) -> Result<Vec<Refused>, TargetError> {
        let mut added = self.added(&updates).await?.into_iter();
        let mut actions = Vec::new();
        for update in &updates {
            if let Update::Rows {
                key, version, rows, ..
            } = update
            {
                let digest = session_digest(key);
                let rows = rows.iter().zip(&mut added);
                actions.extend(
                    rows.map(|(row, added)| Action::write(key, &digest, *version, row, added)),
                );
            }
        }
        let alias = self.write_alias(generation);
        let outcome = bulk::run(&self.client, &alias, &actions).await?;
        let obsolete: Vec<Obsolete<'_>> = updates.iter().filter_map(Obsolete::of).collect();
        self.delete_obsolete(&self.index(generation), &alias, &obsolete)
            .await?;
        Ok(outcome.refused())
    }

    async fn stamp(&self, generation: u64) -> Result<Option<Stamp>, TargetError> {
        self.read_stamp(generation).await
    }

    async fn set_stamp(&self, generation: u64, stamp: &Stamp) -> Result<(), TargetError> {
        self.write_stamp(generation, stamp).await
    }

    async fn publish(&self, generation: u64) -> Result<(), TargetError> {
        let (index, alias) = (self.index(generation), &self.settings.prefix);
        let others = self.indices().await?.into_iter();
        let others = others.filter(|other| *other != index);
        let mut actions: Vec<Value> = others
            .map(|other| json!({ "remove_index": { "index": other } }))
            .collect();
        // Somebody else may have given the alias to other indices.
        for other in self.aliased().await? {
            if self.generation(&other).is_none() {
                actions.push(json!({ "remove": { "index": other, "alias": alias } }));
            }
        }
        let add = json!({ "index": index, "alias": alias, "filter": mapping::shown() });
        actions.push(json!({ "add": add }));
        let body = Body::Json(json!({ "actions": actions }));
        self.request(Method::POST, "_aliases", body).await?;
        Ok(())
    }

    async fn clean(&self, key: &SessionKey, version: u64) -> Result<Cleaned, TargetError> {
        let indices = self.indices().await?;
        for index in &indices {
            let alias = format!("{index}-write");
            let obsolete = [Obsolete::up_to(key, version)];
            self.delete_obsolete(index, &alias, &obsolete).await?;
        }
        self.merge_later(indices);
        Ok(Cleaned {
            remains: Some("in OpenSearch's segments, until a merge has rewritten them"),
        })
    }

    async fn sessions(
        &self,
        generation: u64,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, TargetError> {
        self.read_sessions(&self.index(generation), after, limit)
            .await
    }

    async fn stored(&self, generation: u64, key: &SessionKey) -> Result<Vec<Row>, TargetError> {
        self.read_rows(&self.index(generation), key).await
    }
}
