//! How Redis is, as it tells.

use filrouge_store::hot::HotHealth;
use filrouge_types::Failure;
use redis::Value;

use crate::call::{Ask, Caller};

/// The policy of a server that forgets nothing to make room.
const EVICTS_NOTHING: &str = "noeviction";

/// Asks the server, or every master of a cluster.
pub(crate) async fn ask(caller: &Caller) -> HotHealth {
    match told(caller).await {
        Ok(health) => health,
        Err(failure) => HotHealth {
            unavailable: Some(failure.detail),
            ..HotHealth::default()
        },
    }
}

async fn told(caller: &Caller) -> Result<HotHealth, Failure> {
    let mut health = HotHealth::default();
    let mut nodes = Vec::new();
    for section in ["server", "memory"] {
        let mut command = redis::cmd("INFO");
        command.arg(section);
        let answers = caller.answers(Ask::Everybody(command)).await?;
        nodes.clear();
        for answer in answers {
            if let Value::BulkString(text) = caller.plain(answer)? {
                let node = Node::read(&String::from_utf8_lossy(&text));
                health.version = node.version.clone().or(health.version);
                nodes.push(node);
            }
        }
    }
    health.nodes = nodes.len() as u64;
    health.used_bytes = nodes.iter().map(|node| node.used).sum();
    health.unbounded = nodes.iter().any(|node| node.most == Some(0));
    health.evicts_nothing = nodes.iter().any(Node::evicts_nothing);
    let full = nodes.iter().find(|node| node.is_full());
    health.refuses_writes = full.map(Node::full).or_else(|| caller.writes.why());
    Ok(health)
}

/// What one of them says.
struct Node {
    version: Option<String>,
    used: Option<u64>,
    /// 0 for no bound.
    most: Option<u64>,
    policy: Option<String>,
}

impl Node {
    /// Reads lines of `name:value`.
    fn read(text: &str) -> Self {
        let of = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(found, _)| *found == name)
                .map(|(_, value)| value.to_owned())
        };
        let number = |name| of(name).and_then(|value| value.parse().ok());
        Self {
            version: of("redis_version"),
            used: number("used_memory"),
            most: number("maxmemory"),
            policy: of("maxmemory_policy"),
        }
    }

    fn evicts_nothing(&self) -> bool {
        self.policy.as_deref() == Some(EVICTS_NOTHING)
    }

    /// Whether it refuses what needs room: it has none, and makes none.
    fn is_full(&self) -> bool {
        let bound = self.most.filter(|most| *most > 0);
        self.evicts_nothing() && bound.is_some_and(|most| self.used.is_some_and(|used| used > most))
    }

    fn full(&self) -> String {
        format!(
            "Redis is full: {} bytes used of maxmemory {}, and with maxmemory-policy {EVICTS_NOTHING} it forgets nothing",
            self.used.unwrap_or_default(),
            self.most.unwrap_or_default()
        )
    }
}
