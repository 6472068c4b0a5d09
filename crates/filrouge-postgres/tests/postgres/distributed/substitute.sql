-- Functions and tables with the names of those of Citus that filrouge uses. They record the calls, and distribute
-- nothing.
SET allow_system_table_mods = on;

CREATE TABLE pg_catalog.pg_dist_local_group (groupid integer);
INSERT INTO pg_catalog.pg_dist_local_group VALUES (0);
CREATE TABLE pg_catalog.pg_dist_node (
    groupid integer, nodename text, nodeport integer, noderole text, isactive boolean, shouldhaveshards boolean
);
INSERT INTO pg_catalog.pg_dist_node VALUES (0, 'localhost', 0, 'primary', true, true);
-- The coordinator owns all lanes.
CREATE TABLE pg_catalog.pg_dist_placement (shardid bigint, groupid integer);
INSERT INTO pg_catalog.pg_dist_placement SELECT generate_series(1000, 1063), 0;
CREATE TABLE pg_catalog.distribution_calls (
    number bigint GENERATED ALWAYS AS IDENTITY, relation text, key text, colocate_with text, shard_count integer,
    settings text
);

CREATE FUNCTION pg_catalog.citus_version() RETURNS text LANGUAGE sql AS $$ SELECT 'Citus 13.2.0, a substitute' $$;
CREATE FUNCTION pg_catalog.get_shard_id_for_distribution_column(regclass, smallint) RETURNS bigint
    LANGUAGE sql AS $$ SELECT 1000 + $2 $$;
CREATE FUNCTION pg_catalog.create_distributed_table(table_name regclass, distribution_column text,
    colocate_with text DEFAULT 'default', shard_count integer DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF shard_count IS NOT NULL AND colocate_with NOT IN ('default', 'none') THEN
        RAISE EXCEPTION 'Cannot use colocate_with with a table and shard_count at the same time';
    END IF;
    INSERT INTO pg_catalog.distribution_calls (relation, key, colocate_with, shard_count, settings)
        VALUES (table_name::text, distribution_column, colocate_with, shard_count,
            current_setting('citus.multi_shard_modify_mode') || ' ' || current_setting('citus.enable_unsafe_triggers'));
END $$;
CREATE FUNCTION pg_catalog.create_reference_table(table_name regclass) RETURNS void LANGUAGE sql AS $$
    INSERT INTO pg_catalog.distribution_calls (relation) VALUES (table_name::text)
$$;
