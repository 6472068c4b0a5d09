//! Reads the health of Redis from the server, or from every master of a cluster.

use filrouge_store::hot::HotHealth;
use filrouge_types::Failure;
use redis::Value;

use crate::client::{RedisClient, Request};

/// The value of `maxmemory-policy` with which a server evicts no keys.
const EVICTS_NOTHING: &str = "noeviction";

/// Reads the health. If this fails, the result contains the reason.
pub(crate) async fn read(client: &RedisClient) -> HotHealth {
    match try_read(client).await {
        Ok(health) => health,
        Err(failure) => HotHealth {
            unavailable: Some(failure.detail),
            ..HotHealth::default()
        },
    }
}

async fn try_read(client: &RedisClient) -> Result<HotHealth, Failure> {
    let mut health = HotHealth::default();
    let mut nodes = Vec::new();
    for section in ["server", "memory"] {
        let mut command = redis::cmd("INFO");
        command.arg(section);
        let answers = client.send_all(Request::AllMasters(command)).await?;
        nodes.clear();
        for answer in answers {
            if let Value::BulkString(text) = client.unless_error(answer)? {
                let node = Node::parse(&String::from_utf8_lossy(&text));
                health.version = node.version.clone().or(health.version);
                nodes.push(node);
            }
        }
    }
    health.nodes = nodes.len() as u64;
    health.used_bytes = nodes.iter().map(|node| node.used).sum();
    health.unbounded = nodes.iter().any(|node| node.max_memory == Some(0));
    health.evicts_nothing = nodes.iter().any(Node::evicts_nothing);
    let full = nodes.iter().find(|node| node.is_full());
    health.refuses_writes = full
        .map(Node::full_message)
        .or_else(|| client.writes.refusal_reason());
    Ok(health)
}

/// The state of one server; `None` for values that it does not report.
struct Node {
    version: Option<String>,
    /// The used memory, in bytes.
    used: Option<u64>,
    /// `maxmemory`, in bytes; 0 means no limit.
    max_memory: Option<u64>,
    policy: Option<String>,
}

impl Node {
    /// Parses an answer to `INFO`: lines of the form `name:value`.
    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(key, _)| *key == name)
                .map(|(_, text)| text.to_owned())
        };
        let number = |name| value(name).and_then(|text| text.parse().ok());
        Self {
            version: value("redis_version"),
            used: number("used_memory"),
            max_memory: number("maxmemory"),
            policy: value("maxmemory_policy"),
        }
    }

    fn evicts_nothing(&self) -> bool {
        self.policy.as_deref() == Some(EVICTS_NOTHING)
    }

    /// Whether the server refuses commands that need memory, because it uses more than its limit and evicts no keys.
    fn is_full(&self) -> bool {
        let limit = self.max_memory.filter(|max_memory| *max_memory > 0);
        self.evicts_nothing()
            && limit.is_some_and(|max_memory| self.used.is_some_and(|used| used > max_memory))
    }

    fn full_message(&self) -> String {
        format!(
            "Redis is full: {} bytes used of maxmemory {}, and with maxmemory-policy {EVICTS_NOTHING} it evicts nothing",
            self.used.unwrap_or_default(),
            self.max_memory.unwrap_or_default()
        )
    }
}
