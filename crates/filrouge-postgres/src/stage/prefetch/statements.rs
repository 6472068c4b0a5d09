//! The statements that fetch rows for a group of writes, except events and checkpoints. A statement fetches the rows of
//! all lanes that the group will change. Its last column is the lane, because the rows of lanes that could not be locked
//! are dropped. Only [`RECORDS`] lacks it: it fetches rows of locked lanes.

use tokio_postgres::types::Type;

use crate::session::Sql;

/// Reads three things of each lane: the newest commits of the lane from its number in `$2` on, in descending order, at
/// most 16; whether the store is an unfinished copy; and the database's time in microseconds. Other servers have rarely
/// added more than 16 commits to a lane since this server's last write, so usually no second query for commits is
/// needed.
pub(crate) static NEWEST: Sql = Sql::new(
    "SELECT l.commit_no, l.data, EXISTS (SELECT FROM filrouge.store WHERE name = 'copying'),
         (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, q.lane
     FROM unnest($1, $2) AS q (lane, first_commit)
     LEFT JOIN LATERAL (SELECT commit_no, data FROM filrouge.commit_log
         WHERE lane = q.lane AND commit_no >= q.first_commit ORDER BY commit_no DESC LIMIT 16) l ON true
     ORDER BY l.commit_no DESC",
    &[Type::INT2_ARRAY, Type::INT8_ARRAY],
);
/// Reads sessions by their ids, each with its newest seq (column 16), its newest turn (17 to 21), and the requested
/// turn (22 to 26) with its draft (27). The statement is written so that PostgreSQL can use only one index for each
/// table, and cannot read all rows of a lane in order to join them: a session is the first one at or after its id, a
/// turn cannot be searched for among all turns of its session, and subqueries have limits (see [`crate::connect`]).
pub(crate) static SESSIONS: Sql = Sql::new(
    "SELECT s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
     s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
     s.token, s.erased, h.updated_at,
         (SELECT LEAST(GREATEST(r.first_seq, 0), 1::bigint << 62) + LEAST(GREATEST(r.count, 1), 1::bigint << 62) - 1
          FROM filrouge.record r WHERE r.lane = q.lane AND r.session_pk = s.pk
          ORDER BY r.first_seq DESC LIMIT 1),
         t.place, t.turn_id, t.open, t.open_since, t.data,
         w.place, w.turn_id, w.open, w.open_since, w.data, d.data, q.lane
     FROM unnest($1, $2, $3, $4) AS q (lane, tenant_id, session_id, turn_id)
     CROSS JOIN LATERAL (SELECT * FROM filrouge.session s WHERE s.lane = q.lane
         AND s.tenant_id = q.tenant_id AND s.session_id >= q.session_id ORDER BY s.session_id LIMIT 1) s
     LEFT JOIN LATERAL (SELECT h.data, h.updated_at FROM filrouge.head h
         WHERE h.lane = q.lane AND h.pk = s.pk LIMIT 1) h ON true
     LEFT JOIN LATERAL (SELECT * FROM filrouge.turn t WHERE t.lane = q.lane AND t.session_pk = s.pk
         ORDER BY t.place DESC LIMIT 1) t ON true
     LEFT JOIN LATERAL (SELECT * FROM filrouge.turn w
         WHERE w.lane = q.lane AND w.turn_id = q.turn_id AND w.session_pk + 0 = s.pk LIMIT 1) w ON true
     LEFT JOIN LATERAL (SELECT d.data FROM filrouge.draft d
         WHERE d.lane = q.lane AND d.session_pk = w.session_pk AND d.place = w.place LIMIT 1) d ON true
     WHERE s.session_id = q.session_id",
    &[
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
    ],
);
/// Reads idempotency keys: the session's number, the key, and the seq of the item that has the key.
pub(crate) static KEYS: Sql = Sql::new(
    "SELECT s.pk, k.key, k.seq, q.lane
     FROM unnest($1, $2, $3, $4) AS q (lane, tenant_id, session_id, key)
     CROSS JOIN LATERAL (SELECT s.pk, s.session_id FROM filrouge.session s WHERE s.lane = q.lane
         AND s.tenant_id = q.tenant_id AND s.session_id >= q.session_id ORDER BY s.session_id LIMIT 1) s
     CROSS JOIN LATERAL (SELECT * FROM filrouge.item_key k
         WHERE k.lane = q.lane AND k.session_pk = s.pk AND k.key = q.key LIMIT 1) k
     WHERE s.session_id = q.session_id",
    &[
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
    ],
);

/// Reads the records that contain given seqs: the session's number, and the columns of the record.
pub(crate) static RECORDS: Sql = Sql::new(
    "SELECT q.pk, r.first_seq, r.count, r.head, r.body
     FROM unnest($1, $2, $3) AS q (lane, pk, seq)
     CROSS JOIN LATERAL (SELECT * FROM filrouge.record r WHERE r.lane = q.lane
         AND r.session_pk = q.pk AND r.first_seq <= q.seq ORDER BY r.first_seq DESC LIMIT 1) r",
    &[Type::INT2_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY],
);
