//! The nodes of a distributed store: which of them owns each lane, and a writer's connections to them. A
//! transaction of a lane goes to the node that owns the lane, so that it involves no other node (docs/scaling.md).

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::{Lane, Lanes};
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::{Connection, Connector};
use crate::error::{malformed, unavailable};
use crate::lanes::query_lanes;
use crate::rows::column;
use crate::session::{Session, Sql};

/// How long a writer relies on what it has read about the owners of the lanes. A lane may move to another node; until
/// the writer knows that, the previous owner forwards its statements.
const OWNERS_AGE_MAX: Duration = Duration::from_secs(30);

/// Reads the node that owns a lane. Group 0 is the coordinator.
static OWNER: Sql = Sql::new(
    "SELECT n.groupid, n.nodename::text, n.nodeport FROM pg_dist_placement p
     JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
     WHERE p.shardid = get_shard_id_for_distribution_column('filrouge.lane', $1)",
    &[Type::INT2],
);

/// A node of a distributed store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// The node that the store's URL names.
    Coordinator,
    Worker {
        host: String,
        port: u16,
    },
}

impl Node {
    /// Returns the connector for this node of the store to which `coordinator` connects.
    pub(crate) fn connector(&self, coordinator: &Arc<Connector>) -> Arc<Connector> {
        match self {
            Self::Coordinator => coordinator.clone(),
            Self::Worker { host, port } => Arc::new(coordinator.for_node(host, *port)),
        }
    }
}

/// Reads the nodes that own the lanes of a distributed store, in the order of the lanes.
pub(crate) async fn read_owners(session: &Session, lanes: Lanes) -> Result<Vec<Node>, Failure> {
    let owners = query_lanes(session, &OWNER, lanes.iter());
    let owners = session.with_answer_timeout(owners).await?;
    owners.iter().map(|rows| read_owner(rows)).collect()
}

/// Decodes the result of [`OWNER`].
fn read_owner(rows: &[Row]) -> Result<Node, Failure> {
    let absent = || unavailable("Citus knows no node for a lane of the store");
    let row = rows.first().ok_or_else(absent)?;
    if column::<i32>(row, 0)? == 0 {
        return Ok(Node::Coordinator);
    }
    let port: i32 = column(row, 2)?;
    Ok(Node::Worker {
        host: column(row, 1)?,
        port: u16::try_from(port).map_err(|_| malformed("port of a node"))?,
    })
}

/// A writer's connections to the nodes of a distributed store, except the one in use.
pub(crate) struct Nodes {
    /// The owners of the lanes, in the order of the lanes.
    owners: Vec<Node>,
    read_at: Instant,
    /// The node of the connection in use.
    current: Node,
    idle: BTreeMap<Node, Connection>,
}

impl Nodes {
    /// Creates the nodes of a store whose coordinator's connection is in use.
    pub(crate) fn new(owners: Vec<Node>) -> Self {
        Self {
            owners,
            read_at: Instant::now(),
            current: Node::Coordinator,
            idle: BTreeMap::new(),
        }
    }

    /// Whether the owners must be read again.
    pub(crate) fn are_old(&self) -> bool {
        self.read_at.elapsed() >= OWNERS_AGE_MAX
    }

    /// Records the owners of the lanes; `None` if they could not be read.
    pub(crate) fn update(&mut self, owners: Option<Vec<Node>>) {
        self.read_at = Instant::now();
        if let Some(owners) = owners {
            self.owners = owners;
        }
    }

    /// Replaces `connection`, the one in use, by that to the owner of `lane`; by `None` if there is none yet.
    pub(crate) fn switch_to_owner(&mut self, lane: Lane, connection: &mut Option<Connection>) {
        let owner = self.owners.get(lane.index()).cloned();
        let owner = owner.unwrap_or(Node::Coordinator);
        if owner == self.current {
            return;
        }
        let previous = mem::replace(&mut self.current, owner);
        if let Some(connection) = connection.take() {
            self.idle.insert(previous, connection);
        }
        *connection = self.idle.remove(&self.current);
    }

    /// The connector for the node of the connection in use.
    pub(crate) fn connector(&self, coordinator: &Arc<Connector>) -> Arc<Connector> {
        self.current.connector(coordinator)
    }
}
