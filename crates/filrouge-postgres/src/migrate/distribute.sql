
-- Distributes the new store with Citus: each lane to a node (docs/scaling.md). Runs in the transaction that creates the
-- store, after SET LOCAL citus.multi_shard_modify_mode TO 'sequential'.
INSERT INTO filrouge.store (name, value) VALUES ('distribute', 'citus');

-- The search index belongs to no lane, and its triggers would change it from every node. A distributed store has none.
DROP TRIGGER search_forget ON filrouge.record;
DROP TRIGGER search_forget ON filrouge.session;

-- The guards are safe: a guard reads its row and settings of the transaction, and nothing else.
SET LOCAL citus.enable_unsafe_triggers TO on;
DO $$
DECLARE
    lanes    integer := (SELECT value::integer FROM filrouge.store WHERE name = 'lanes');
    nodes    integer := (SELECT greatest(count(*), 1) FROM pg_catalog.pg_dist_node
        WHERE noderole = 'primary' AND isactive AND shouldhaveshards);
    shards   integer;
    relation regclass;
BEGIN
    -- Citus hashes a lane to a range of hashes, and gives the ranges to the nodes in turn. Of all numbers of ranges,
    -- this is the smallest of those with which the nodes own the most equal numbers of lanes, and fewest lanes share
    -- a range.
    WITH hashed AS (
        SELECT hashint2(lane::smallint)::bigint + 2147483648 AS hash FROM generate_series(0, lanes - 1) AS lane
    ), placed AS (
        SELECT number, least(hash / (4294967296 / number), number - 1) AS range
        FROM generate_series(lanes, 4 * lanes) AS number, hashed
    ), owned AS (
        SELECT number, count(*) AS owned, count(*) - count(DISTINCT range) AS shared
        FROM placed GROUP BY number, range % nodes
    )
    SELECT number INTO shards FROM owned GROUP BY number ORDER BY max(owned), sum(shared), number LIMIT 1;
    PERFORM create_distributed_table('filrouge.lane', 'lane', colocate_with => 'none', shard_count => shards);
    FOR relation IN
        SELECT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'filrouge'::regnamespace AND c.relkind = 'r' AND a.attnum = 1 AND a.attname = 'lane'
            AND c.relname <> 'lane' ORDER BY c.relname
    LOOP
        PERFORM create_distributed_table(relation, 'lane', colocate_with => 'filrouge.lane');
    END LOOP;
    PERFORM create_reference_table('filrouge.store');
END $$;
