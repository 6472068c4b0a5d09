//! Weaviate: sessions as objects, and turns as objects with vectors, for semantic queries.
//!
//! Each generation is a collection, `PREFIX_G1`. Queries of other programs use the alias `PREFIX`, which `publish` moves
//! (Weaviate 1.32 or later). Each tenant is a tenant of the collection.
//!
//! Weaviate has no versions of objects. The version is a property, which is read directly before a write. A process that
//! cleans a session may write between the two; the projector writes this session again afterwards.

mod batch;
mod list;
mod requests;
mod rows;
mod similar;
mod stamp;
mod structure;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::content::session_digest;
use crate::http::{Answer, Body, Client, Endpoint};
use crate::target::{SimilarQuery, SimilarTurn, Stamp};
use crate::vectors::{self, Vectors};
use crate::{Cleaned, Refused, Row, SessionKey, SessionUpdate, Target, TargetError, Update};
use batch::Object;
use requests::{Place, tenant_name};

/// The number of sessions whose objects a query reads.
const SESSIONS_PER_QUERY: usize = 50;

/// The versions of objects, by id.
type Versions = HashMap<String, u64>;

/// The settings of a target.
#[derive(Debug, Clone)]
pub struct WeaviateSettings {
    /// The server.
    pub endpoint: Endpoint,
    /// The name of the alias for queries, and the beginning of the names of collections: letters, digits and `_`,
    /// beginning with an upper-case letter.
    pub prefix: String,
    /// What computes the vectors of turns; `None` stores no vectors.
    pub vectors: Option<Arc<dyn Vectors>>,
}

/// A target in Weaviate 1.32 or later.
#[derive(Debug)]
pub struct Weaviate {
    client: Client,
    settings: WeaviateSettings,
}

impl Weaviate {
    /// Creates the target; sends nothing yet.
    ///
    /// # Errors
    /// [`TargetError::Refused`] for invalid settings.
    pub fn new(settings: WeaviateSettings) -> Result<Self, TargetError> {
        let prefix = settings.prefix.as_bytes();
        let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let begins_upper = prefix.first().is_some_and(u8::is_ascii_uppercase);
        if !begins_upper || prefix.len() > 100 || !prefix.iter().all(is_valid) {
            let message = "the prefix has 1 to 100 letters, digits and _, and begins with an upper-case letter";
            return Err(TargetError::Refused(message.to_owned()));
        }
        Ok(Self {
            client: Client::new(&settings.endpoint)?,
            settings,
        })
    }

    fn name(&self, generation: u64) -> String {
        format!("{}_G{generation}", self.settings.prefix)
    }

    /// The generation of a collection of this target.
    fn generation(&self, collection: &str) -> Option<u64> {
        let number = collection.strip_prefix(&self.settings.prefix)?;
        let generation = number.strip_prefix("_G")?.parse().ok()?;
        (self.name(generation) == collection).then_some(generation)
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

    /// The collections of all generations.
    async fn collections(&self) -> Result<Vec<String>, TargetError> {
        let schema = self.request(Method::GET, "v1/schema", Body::None).await?;
        let collections = schema["classes"].as_array().into_iter().flatten();
        let names = collections.filter_map(|collection| collection["class"].as_str());
        Ok(names
            .filter(|name| self.generation(name).is_some())
            .map(str::to_owned)
            .collect())
    }

    /// The versions of the objects that the updates' sessions have: by the session's digest, and by id.
    async fn versions(
        &self,
        collection: &str,
        updates: &[Update],
    ) -> Result<HashMap<String, Versions>, TargetError> {
        let mut sessions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for key in updates.iter().map(Update::key) {
            let digests = sessions.entry(tenant_name(&key.tenant)).or_default();
            digests.push(session_digest(key));
        }
        let mut versions: HashMap<String, Versions> = HashMap::new();
        for (tenant, digests) in &sessions {
            for digests in digests.chunks(SESSIONS_PER_QUERY) {
                let place = (collection, tenant.as_str());
                let objects = self.objects_of_sessions(place, digests, "session_digest version");
                for object in objects.await? {
                    let text = |value: &Value| value.as_str().map(str::to_owned);
                    let digest = text(&object["session_digest"]);
                    let id = text(&object["_additional"]["id"]);
                    if let (Some(digest), Some(id), Some(version)) =
                        (digest, id, object["version"].as_u64())
                    {
                        versions.entry(digest).or_default().insert(id, version);
                    }
                }
            }
        }
        Ok(versions)
    }

    /// The objects of rows, with their vectors.
    async fn new_objects<'a>(
        &self,
        collection: &str,
        rows: &[(&'a SessionKey, u64, &Row)],
    ) -> Result<Vec<Object<'a>>, TargetError> {
        let texts: Vec<String> = rows.iter().map(|(_, _, row)| text(row)).collect();
        let mut objects = Vec::new();
        for (&(key, version, row), text) in rows.iter().zip(&texts) {
            let mut properties = row.content.clone();
            properties.extend(rows::present(json!({
                "kind": row.table,
                "session_digest": session_digest(key),
                "session_order": hex::encode(key.session.as_str()),
                "version": version,
            })));
            let json = json!({
                "class": collection,
                "tenant": tenant_name(&key.tenant),
                "id": row.id,
                "properties": properties,
            });
            let bytes = text.len() + 1_000;
            objects.push(Object { key, json, bytes });
        }
        if let Some(vectors) = &self.settings.vectors {
            let vectors = vectors::embed(vectors, texts).await?;
            for (object, vector) in objects.iter_mut().zip(vectors) {
                if let Some(vector) = vector {
                    object.json["vector"] = Value::from(vector);
                }
            }
        }
        Ok(objects)
    }
}

/// The text of which a turn's vector is computed.
fn text(row: &Row) -> String {
    let texts = ["question", "answer"].into_iter();
    let texts = texts.filter_map(|name| row.content.get(name)?.as_str());
    texts.collect::<Vec<_>>().join("\n\n")
}

/// The error of a response that has no other meaning for the caller. It quotes no text of the response.
fn unexpected(answer: &Answer) -> TargetError {
    match answer.status.as_u16() {
        404 => TargetError::Altered("the collection is missing".to_owned()),
        status => TargetError::Refused(format!("status {status}")),
    }
}

#[async_trait]
impl Target for Weaviate {
    fn rows(&self, update: &SessionUpdate) -> Vec<Row> {
        rows::rows(update)
    }

    async fn published(&self) -> Result<Option<u64>, TargetError> {
        let path = format!("v1/aliases/{}", self.settings.prefix);
        let answer = self.client.send(Method::GET, &path, Body::None).await?;
        if answer.status.as_u16() == 404 {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(unexpected(&answer));
        }
        let collection = answer.body["class"].as_str().unwrap_or_default();
        let message = "the alias for queries names another collection than that of a generation";
        let generation = self.generation(collection);
        let generation = generation.ok_or_else(|| TargetError::Altered(message.to_owned()))?;
        Ok(Some(generation))
    }

    async fn create(&self, generation: u64) -> Result<(), TargetError> {
        let name = self.name(generation);
        let dimensions = self.settings.vectors.as_ref().map(|v| v.dimensions());
        let expected = structure::collection(&name, dimensions);
        match self.collection(&name).await {
            Ok(found) => match structure::first_difference(&found, &expected) {
                None => Ok(()),
                Some(part) => {
                    let message = format!("the collection {name} has another {part}");
                    Err(TargetError::Altered(message))
                }
            },
            Err(TargetError::Altered(_)) => {
                let body = Body::Json(expected);
                self.request(Method::POST, "v1/schema", body).await?;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn write(
        &self,
        generation: u64,
        updates: Vec<Update>,
    ) -> Result<Vec<Refused>, TargetError> {
        let name = self.name(generation);
        let rows = updates.iter().flat_map(|update| match update {
            Update::Rows {
                key, version, rows, ..
            } => rows.iter().map(|row| (key, *version, row)).collect(),
            Update::Removed { .. } => Vec::new(),
        });
        let rows: Vec<(&SessionKey, u64, &Row)> = rows.collect();
        // Vectors may take long, so versions are read after them.
        let mut objects = self.new_objects(&name, &rows).await?.into_iter();
        let all_versions = self.versions(&name, &updates).await?;
        let no_versions = Versions::new();
        let mut written = Vec::new();
        let mut obsolete = Vec::new();
        for update in &updates {
            let key = update.key();
            let (tenant, digest) = (tenant_name(&key.tenant), session_digest(key));
            let versions = all_versions.get(&digest).unwrap_or(&no_versions);
            let up_to = match update {
                Update::Removed { version, .. } => Some(*version),
                Update::Rows {
                    version,
                    is_entire,
                    rows,
                    ..
                } => {
                    let is_newer = |row: &Row| versions.get(&row.id).is_none_or(|v| v <= version);
                    let objects = rows.iter().zip(&mut objects);
                    let objects = objects.filter(|(row, _)| is_newer(row));
                    written.extend(objects.map(|(_, object)| object));
                    version.checked_sub(1).filter(|_| *is_entire)
                }
            };
            let up_to = up_to.filter(|up_to| versions.values().any(|version| version <= up_to));
            obsolete.extend(up_to.map(|up_to| (tenant, digest, up_to)));
        }
        let refused = self.write_objects(&written).await?.into_iter();
        for (tenant, digest, up_to) in &obsolete {
            let place = Place {
                collection: &name,
                tenant,
                digest,
            };
            self.delete(&place, *up_to).await?;
        }
        Ok(refused
            .map(|(key, reason)| Refused { key, reason })
            .collect())
    }

    async fn stamp(&self, generation: u64) -> Result<Option<Stamp>, TargetError> {
        self.read_stamp(generation).await
    }

    async fn set_stamp(&self, generation: u64, stamp: &Stamp) -> Result<(), TargetError> {
        self.write_stamp(generation, stamp).await
    }

    async fn publish(&self, generation: u64) -> Result<(), TargetError> {
        let (name, alias) = (self.name(generation), &self.settings.prefix);
        self.collection(&name).await?;
        let path = format!("v1/aliases/{alias}");
        let existing = self.client.send(Method::GET, &path, Body::None).await?;
        let body = Body::Json(json!({ "alias": alias, "class": name }));
        if existing.status.as_u16() == 404 {
            self.request(Method::POST, "v1/aliases", body).await?;
        } else {
            self.request(Method::PUT, &path, body).await?;
        }
        for other in self.collections().await? {
            if other != name {
                let path = format!("v1/schema/{other}");
                self.request(Method::DELETE, &path, Body::None).await?;
            }
        }
        Ok(())
    }

    async fn clean(&self, key: &SessionKey, version: u64) -> Result<Cleaned, TargetError> {
        let (tenant, digest) = (tenant_name(&key.tenant), session_digest(key));
        for collection in self.collections().await? {
            let place = Place {
                collection: &collection,
                tenant: &tenant,
                digest: &digest,
            };
            if !self.objects(&place, "version").await?.is_empty() {
                self.delete(&place, version).await?;
            }
        }
        Ok(Cleaned {
            remains: Some("in Weaviate's segments, until a compaction has rewritten them"),
        })
    }

    async fn sessions(
        &self,
        generation: u64,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, TargetError> {
        self.list_sessions(&self.name(generation), after, limit)
            .await
    }

    async fn stored(&self, generation: u64, key: &SessionKey) -> Result<Vec<Row>, TargetError> {
        let collection = self.name(generation);
        // For a query, a missing collection looks like a missing tenant.
        self.collection(&collection).await?;
        let place = Place {
            collection: &collection,
            tenant: &tenant_name(&key.tenant),
            digest: &session_digest(key),
        };
        let objects = self.objects(&place, &structure::selection()).await?;
        let row = |object: Value| {
            let id = object["_additional"]["id"].as_str()?.to_owned();
            let mut content = rows::present(object);
            content.remove("_additional");
            let kind = content.remove("kind")?;
            let tables = [rows::SESSION, rows::TURN];
            let table = tables.into_iter().find(|name| kind == **name)?;
            Some(Row { table, id, content })
        };
        Ok(objects.into_iter().filter_map(row).collect())
    }

    async fn similar(&self, query: &SimilarQuery) -> Result<Option<Vec<SimilarTurn>>, TargetError> {
        self.similar_turns(query).await
    }
}
