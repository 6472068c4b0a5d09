//! A private Redis Cluster: three masters, each with a replica on request.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::PORT_ATTEMPTS;
use super::node::Node;
use crate::binaries;
use crate::folder::{self, Folder, GracePeriod};

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
/// The first field with slots in a line of `CLUSTER NODES`, counted from 0.
const SLOT_FIELD: usize = 8;
/// The time without an answer after which a node is considered failing, in milliseconds.
const NODE_TIMEOUT: &str = "1000";

/// A cluster on loopback that its test may kill or pause. Nodes are identified by number: 0, 1 and 2 start as masters,
/// 3, 4 and 5 as their replicas. The cluster ends when this value is dropped, or when the test process ends in any way.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Node>,
    _folder: Folder,
}

impl RedisCluster {
    /// Starts three masters without replicas that serve all slots; takes about 2 s.
    #[must_use]
    pub fn start() -> Self {
        Self::with_nodes(MASTERS)
    }

    /// Starts three masters with a synchronized replica each.
    #[must_use]
    pub fn with_replicas() -> Self {
        Self::with_nodes(2 * MASTERS)
    }

    fn with_nodes(count: usize) -> Self {
        binaries::redis();
        let folder = Folder::new(GracePeriod::None, &folder::lock_exclusively("lock"));
        folder::create_for_servers(&folder.path().join("redis"));
        let nodes = start_nodes(&folder, count);
        let cluster = Self {
            nodes,
            _folder: folder,
        };
        cluster.form_cluster();
        cluster
    }

    /// Makes a cluster of the separate nodes: assigns the slots, introduces the nodes, and attaches the replicas.
    fn form_cluster(&self) {
        for (n, node) in self.nodes.iter().enumerate() {
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]);
            if n < MASTERS {
                let slots: Vec<String> = (0..SLOTS)
                    .filter(|&slot| initial_master(slot) == n)
                    .map(|slot| slot.to_string())
                    .collect();
                let mut command = vec!["CLUSTER", "ADDSLOTS"];
                command.extend(slots.iter().map(String::as_str));
                node.cli(&command);
            }
        }
        for node in &self.nodes {
            // Introducing every pair saves waiting for gossip.
            for other in &self.nodes {
                let address = other.tcp();
                let (ip, port) = (address.ip().to_string(), address.port().to_string());
                node.cli(&["CLUSTER", "MEET", &ip, &port]);
            }
        }
        let all_known = format!("cluster_known_nodes:{}", self.nodes.len());
        self.wait_on_all("the nodes meet", |node| {
            node.cli(&["CLUSTER", "INFO"]).contains(&all_known)
                && !node.cli(&["CLUSTER", "NODES"]).contains("handshake")
        });
        for (n, node) in self.nodes.iter().enumerate().skip(MASTERS) {
            let master = self.id(n - MASTERS);
            wait_until("a node knows its master", || {
                node.try_cli(&["CLUSTER", "REPLICATE", &master]).is_ok()
            });
        }
        self.wait_until_settled();
    }

    /// Waits until every running node reports that the cluster serves all slots, and every replica is synchronized. No
    /// node may be paused.
    pub fn wait_until_settled(&self) {
        self.wait_on_all("the cluster serves", |node| {
            let info = node.cli(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
        });
        self.wait_on_all("the replicas are synchronized", |node| {
            let info = node.cli(&["INFO", "replication"]);
            info.contains("role:master") || info.contains("master_link_status:up")
        });
    }

    fn wait_on_all(&self, description: &str, is_done: impl Fn(&Node) -> bool) {
        wait_until(description, || {
            let mut running = self.nodes.iter().filter(|node| node.pid().is_some());
            running.all(&is_done)
        });
    }

    /// `redis://h1:p1,h2:p2,…/?cluster=true`, with the nodes that started as masters.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = (0..MASTERS).map(|n| self.tcp(n).to_string()).collect();
        format!("redis://{}/?cluster=true", hosts.join(","))
    }

    /// The loopback address of a node.
    #[must_use]
    pub fn tcp(&self, node: usize) -> SocketAddr {
        self.nodes[node].tcp()
    }

    /// The number of nodes, including killed ones.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Runs a command on a node, like [`Redis::cli`](super::Redis::cli).
    pub fn cli(&self, node: usize, command: &[&str]) -> String {
        self.nodes[node].cli(command)
    }

    /// Like [`RedisCluster::cli`]; `Err` is Redis's error, which begins with its code.
    ///
    /// # Errors
    /// When Redis answers with an error.
    pub fn try_cli(&self, node: usize, command: &[&str]) -> Result<String, String> {
        self.nodes[node].try_cli(command)
    }

    /// Kills a node (`SIGKILL`).
    pub fn kill(&self, node: usize) {
        self.nodes[node].kill();
    }

    /// Restarts a node after [`RedisCluster::kill`].
    pub fn restart(&self, node: usize) {
        assert!(self.nodes[node].spawn_and_wait(), "Redis does not start");
    }

    /// Freezes a node (`SIGSTOP`).
    pub fn pause(&self, node: usize) {
        self.nodes[node].pause();
    }

    /// Undoes [`RedisCluster::pause`].
    pub fn resume(&self, node: usize) {
        self.nodes[node].resume();
    }

    /// Promotes a replica while its master runs (`CLUSTER FAILOVER`). All nodes know the new master when this returns.
    pub fn fail_over_to(&self, replica: usize) {
        self.cli(replica, &["CLUSTER", "FAILOVER"]);
        self.wait_for_promotion(replica);
        let id = self.id(replica);
        self.wait_on_all("all nodes know the new master", |node| {
            let nodes = node.cli(&["CLUSTER", "NODES"]);
            let line = nodes.lines().find(|line| line.starts_with(&id));
            line.is_some_and(|line| line.contains("master") && line.split(' ').count() > SLOT_FIELD)
        });
        self.wait_until_settled();
    }

    /// Waits until a replica has become a master, as happens after its master was killed.
    pub fn wait_for_promotion(&self, replica: usize) {
        wait_until("the replica is a master", || {
            self.cli(replica, &["INFO", "replication"])
                .contains("role:master")
        });
    }

    /// Returns the slot of a key, computed from its hash tag if it has one.
    #[must_use]
    pub fn slot(&self, key: &str) -> u16 {
        let slot = self.cli(0, &["CLUSTER", "KEYSLOT", key]);
        slot.parse().expect("a slot")
    }

    /// Returns the running node that serves a slot.
    #[must_use]
    pub fn owner(&self, slot: u16) -> usize {
        let serves_slot = |node: &Node| {
            let nodes = node.cli(&["CLUSTER", "NODES"]);
            let this_node = nodes.lines().find(|line| line.contains("myself,master"));
            this_node.is_some_and(|line| {
                line.split(' ')
                    .skip(SLOT_FIELD)
                    .any(|range| range_contains(range, slot))
            })
        };
        let is_running = |node: &&Node| node.pid().is_some();
        self.nodes
            .iter()
            .position(|node| is_running(&node) && serves_slot(node))
            .expect("a node that serves the slot")
    }

    /// Begins to move a slot: new keys are created at `to`; existing keys are moved by [`RedisCluster::move_key`].
    pub fn begin_move(&self, slot: u16, to: usize) {
        let (from, slot) = (self.owner(slot), slot.to_string());
        let (source, target) = (self.id(from), self.id(to));
        self.cli(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]);
        self.cli(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]);
    }

    /// Moves one key of a slot that is being moved.
    pub fn move_key(&self, key: &str, from: usize, to: usize) {
        let address = self.tcp(to);
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        self.cli(from, &["MIGRATE", &ip, &port, key, "0", "5000"]);
    }

    /// Ends the move of a slot after all its keys were moved.
    pub fn end_move(&self, slot: u16, to: usize) {
        let (slot, target) = (slot.to_string(), self.id(to));
        // The target is informed first, so that the slot always has an owner. Replicas are informed by their masters.
        let others = (0..self.nodes()).filter(|&node| node != to && self.is_master(node));
        for node in std::iter::once(to).chain(others) {
            self.cli(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
        }
    }

    /// Returns whether a node runs and is a master.
    #[must_use]
    pub fn is_master(&self, node: usize) -> bool {
        self.try_cli(node, &["ROLE"])
            .is_ok_and(|role| role.contains("master"))
    }

    fn id(&self, node: usize) -> String {
        self.cli(node, &["CLUSTER", "MYID"])
    }
}

/// Starts separate nodes, which do not know each other yet.
fn start_nodes(folder: &Folder, count: usize) -> Vec<Node> {
    let settings = [
        ("cluster-enabled", "yes"),
        ("cluster-node-timeout", NODE_TIMEOUT),
        ("cluster-replica-validity-factor", "0"),
    ];
    let mut nodes = Vec::new();
    for attempt in 0..PORT_ATTEMPTS {
        for n in nodes.len()..count {
            let path = folder.path().join(format!("redis/{n}.{attempt}"));
            let node = Node::new(&path, &settings);
            node.spawn();
            nodes.push(node);
        }
        // A node exits if another process has taken its port or its bus port.
        nodes.retain(Node::wait_until_ready);
        if nodes.len() == count {
            return nodes;
        }
    }
    panic!("Redis does not start in {PORT_ATTEMPTS} attempts");
}

/// Returns the master that a slot initially belongs to.
fn initial_master(slot: usize) -> usize {
    slot * MASTERS / SLOTS
}

/// Returns whether a slot is in a range of `CLUSTER NODES`, such as `5` or `5-9`.
fn range_contains(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) => (first..=last).contains(&slot),
        // The entry of a slot that is being moved, such as `[93-<-…]`.
        _ => false,
    }
}

/// Waits until `is_done` returns true, for at most 60 s.
fn wait_until(description: &str, mut is_done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_done() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{description}: not within 60 s"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
