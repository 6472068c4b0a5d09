//! Changes by hand in the targets of projections.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use filrouge_testbed::{OpenSearch, Weaviate};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value, json};

use crate::projected::open;
use crate::world::World;

/// The SQLite file of the projection `tables`, and an older copy of it.
pub(super) struct TablesFile {
    file: PathBuf,
    copy: PathBuf,
}

/// The generation that queries see.
fn published(connection: &Connection) -> Option<u64> {
    let query = "SELECT generation FROM projection_generation WHERE published";
    let found = connection.query_row(query, [], |row| row.get::<_, i64>(0));
    let generation = found.optional().unwrap()?;
    Some(generation.try_into().unwrap())
}

impl TablesFile {
    pub(super) fn new(world: &World) -> Self {
        Self {
            file: world.path("config/filrouge/copy.db"),
            copy: world.path("older.db"),
        }
    }

    /// Runs a statement in which `{g}` is the published generation.
    fn execute(world: &World, statement: &str) {
        let connection = open(world).unwrap();
        let generation = published(&connection).expect("a published generation");
        let statement = statement.replace("{g}", &generation.to_string());
        connection.execute_batch(&statement).unwrap();
    }

    pub(super) fn drop_table(&self, world: &World) {
        Self::execute(world, "DROP TABLE \"turns_g{g}\"");
    }

    pub(super) fn rename_column(&self, world: &World) {
        let rename = "ALTER TABLE \"items_g{g}\" RENAME COLUMN \"text\" TO \"by_hand\"";
        Self::execute(world, rename);
    }

    /// Replaces the older copy by one of the file as it is now.
    pub(super) fn keep_copy(&self, world: &World) {
        std::fs::remove_file(&self.copy).ok();
        let copy = self.copy.to_str().unwrap();
        open(world)
            .unwrap()
            .execute("VACUUM INTO ?1", [copy])
            .unwrap();
    }

    /// Replaces the file by the older copy. No process may use the file.
    pub(super) fn put_back(&self) {
        for log in ["db-wal", "db-shm"] {
            std::fs::remove_file(self.file.with_extension(log)).ok();
        }
        std::fs::write(&self.file, std::fs::read(&self.copy).unwrap()).unwrap();
    }
}

#[derive(Clone, Copy)]
enum Kind {
    OpenSearch,
    Weaviate,
}

/// An index, and an older copy of it.
struct IndexCopy {
    index: String,
    copy: String,
    aliases: Value,
}

/// The indices or collections of a projection in a server.
pub(super) struct IndexedTarget<S> {
    pub(super) server: S,
    kind: Kind,
    url: String,
    key: Option<String>,
    prefix: String,
    copies: Vec<IndexCopy>,
}

impl IndexedTarget<Weaviate> {
    pub(super) fn weaviate(server: Weaviate, prefix: &str) -> Self {
        let (first, rest) = prefix.split_at(1);
        Self {
            kind: Kind::Weaviate,
            url: server.url(),
            key: Some(server.key().to_owned()),
            prefix: first.to_uppercase() + rest,
            copies: Vec::new(),
            server,
        }
    }
}

impl IndexedTarget<OpenSearch> {
    pub(super) fn opensearch(server: OpenSearch, prefix: &str) -> Self {
        Self {
            kind: Kind::OpenSearch,
            url: server.url(),
            key: None,
            prefix: prefix.to_owned(),
            copies: Vec::new(),
            server,
        }
    }

    /// The address of the server.
    pub(super) fn addr(&self) -> SocketAddr {
        self.url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Replaces the older copies by those of the indices as they are now.
    pub(super) fn keep_copy(&mut self) {
        for older in std::mem::take(&mut self.copies) {
            self.send("DELETE", &older.copy, None);
        }
        for index in self.names() {
            let copy = format!("copy-of-{index}");
            let aliases = self.send("GET", &format!("{index}/_alias"), None);
            self.clone_index(&index, &copy, &json!({}));
            self.block_writes(&index, false);
            self.copies.push(IndexCopy {
                aliases: aliases[&index]["aliases"].clone(),
                index,
                copy,
            });
        }
    }

    /// Replaces the indices by the older copies.
    pub(super) fn put_back(&self) {
        self.delete_all();
        for older in &self.copies {
            self.clone_index(&older.copy, &older.index, &older.aliases);
            self.block_writes(&older.index, false);
        }
    }

    /// Clones an index, to which nothing can be written then.
    fn clone_index(&self, from: &str, to: &str, aliases: &Value) {
        self.block_writes(from, true);
        let body = json!({ "aliases": aliases });
        self.send("POST", &format!("{from}/_clone/{to}"), Some(body));
    }

    fn block_writes(&self, index: &str, blocks: bool) {
        let settings = json!({ "index.blocks.write": blocks });
        self.send("PUT", &format!("{index}/_settings"), Some(settings));
    }

    /// Replaces each index by one with other fields, which the alias for queries names and the alias for writes does not.
    pub(super) fn replace(&self) {
        for name in self.names() {
            self.send("DELETE", &name, None);
            let index = json!({
                "mappings": { "properties": { "rank": { "type": "keyword" } } },
                "aliases": { &self.prefix: {} },
            });
            self.send("PUT", &name, Some(index));
        }
    }
}

impl<S> IndexedTarget<S> {
    /// Sends a request, which succeeds or finds nothing; returns the body.
    fn send(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        let agent = ureq::Agent::from(config);
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.url));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let response = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                agent.run(request.body(body.to_string()).unwrap())
            }
            None => agent.run(request.body(()).unwrap()),
        };
        let mut response = response.unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().unwrap();
        assert!(
            matches!(status, 200 | 201 | 404),
            "{method} {path}: {status} {text}"
        );
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The names of the indices or collections of all generations.
    fn names(&self) -> Vec<String> {
        match self.kind {
            Kind::OpenSearch => {
                let found = self.send("GET", &format!("{}-*/_alias", self.prefix), None);
                let found = found.as_object().unwrap();
                found.keys().cloned().collect()
            }
            Kind::Weaviate => {
                let schema = self.send("GET", "v1/schema", None);
                let classes = schema["classes"].as_array().unwrap().iter();
                let names = classes.map(|class| class["class"].as_str().unwrap().to_owned());
                names
                    .filter(|name| name.starts_with(&self.prefix))
                    .collect()
            }
        }
    }

    fn path(&self, name: &str) -> String {
        match self.kind {
            Kind::OpenSearch => name.to_owned(),
            Kind::Weaviate => format!("v1/schema/{name}"),
        }
    }

    pub(super) fn delete_all(&self) {
        for name in self.names() {
            self.send("DELETE", &self.path(&name), None);
        }
    }

    /// Adds a field that filrouge does not know.
    pub(super) fn add_field(&self) {
        for name in self.names() {
            let path = self.path(&name);
            match self.kind {
                Kind::OpenSearch => {
                    let fields = json!({ "by_hand": { "type": "keyword" } });
                    let mapping = json!({ "dynamic": true, "properties": fields });
                    self.send("PUT", &format!("{path}/_mapping"), Some(mapping))
                }
                Kind::Weaviate => {
                    let property = json!({ "name": "by_hand", "dataType": ["text"] });
                    self.send("POST", &format!("{path}/properties"), Some(property))
                }
            };
        }
    }
}
