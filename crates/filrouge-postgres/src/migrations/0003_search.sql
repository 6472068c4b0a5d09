-- The search index (DESIGN §10; docs/adr/0026): derived from the journal, neither copied nor verified, made again by
-- `filrouge index rebuild`. docs/format.md tells what the columns hold. Names and keys are the feeder's bytes.

-- How far the feed was read, and how often something was forgotten.
CREATE TABLE filrouge.search_state (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    format    integer NOT NULL,
    position  bytea,
    forgotten bigint NOT NULL
);
INSERT INTO filrouge.search_state (format, forgotten) VALUES (1, 0);

-- Whose documents. A realm is known by the number of the first shard that it ever had.
CREATE TABLE filrouge.search_shard (
    no       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    realm_no bigint NOT NULL,
    realm    bytea NOT NULL,
    owner    bytea NOT NULL
);
CREATE UNIQUE INDEX search_shard_name ON filrouge.search_shard (realm, owner);

CREATE TABLE filrouge.search_session (
    no      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard   bigint NOT NULL,
    realm   bytea NOT NULL,
    key     bytea NOT NULL,
    stamp_0 bigint NOT NULL,
    stamp_1 bigint NOT NULL,
    updated bigint NOT NULL,
    project bytea
);
CREATE UNIQUE INDEX search_session_key ON filrouge.search_session (realm, key);
CREATE INDEX search_session_shard ON filrouge.search_session (shard, no);
CREATE INDEX search_session_unread ON filrouge.search_session (no) WHERE stamp_0 = 0 AND stamp_1 = 0;

CREATE TABLE filrouge.search_document (
    no      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    realm   bigint NOT NULL,
    shard   bigint NOT NULL,
    session bigint NOT NULL,
    unit    bigint NOT NULL,
    created bigint NOT NULL,
    digest  bigint NOT NULL,
    kind    smallint NOT NULL,
    bytes   integer NOT NULL,
    key     bytea NOT NULL,
    folded  text COLLATE "C" NOT NULL,
    body    bytea NOT NULL
);
CREATE UNIQUE INDEX search_document_key ON filrouge.search_document (session, key);
CREATE INDEX search_document_unit ON filrouge.search_document (session, unit);
-- Of sums, so that only questions that say so use them: the planner does not know what a look into a text costs, and would
-- rather take all documents of a shard than those that search_words leads to.
CREATE INDEX search_document_shard ON filrouge.search_document ((shard + 0), no);
CREATE INDEX search_document_realm ON filrouge.search_document ((realm + 0), no);

CREATE TABLE filrouge.search_vector (
    embedder bytea NOT NULL,
    document bigint NOT NULL,
    data     bytea NOT NULL,
    PRIMARY KEY (embedder, document)
);
CREATE INDEX search_vector_document ON filrouge.search_vector (document);

-- Samples of what is said would outlive it in the statistics. And vacuum, as it follows an erasure, leaves nothing in
-- the indexes of what has gone, however little that was.
ALTER TABLE filrouge.search_document ALTER COLUMN key SET STATISTICS 0, ALTER COLUMN folded SET STATISTICS 0,
    ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE filrouge.search_vector ALTER COLUMN data SET STATISTICS 0;
ALTER TABLE filrouge.search_document SET (vacuum_index_cleanup = on, toast.vacuum_index_cleanup = on);
ALTER TABLE filrouge.search_vector SET (vacuum_index_cleanup = on);

-- LZ4 is read three times as fast; not every server was built with it.
DO $$
BEGIN
    ALTER TABLE filrouge.search_document ALTER COLUMN folded SET COMPRESSION lz4, ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    RAISE NOTICE 'filrouge: this server has no LZ4';
END $$;

-- Makes the index of trigrams where there is none; tells what is missing for it, NULL when it is there. Both extensions
-- come with PostgreSQL, as a package of their own with some, and take the right to create in the database. Without
-- pg_trgm all documents of an owner are looked through; without btree_gin the postings of all owners are read and those
-- of one kept, before any document is looked at.
CREATE FUNCTION filrouge.search_prepare(make boolean) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    extension text;
    ops       text;
    columns   text := '';
    why       text := 'pg_trgm is not there';
BEGIN
    IF to_regclass('filrouge.search_words') IS NOT NULL THEN
        RETURN NULL;
    END IF;
    IF NOT make THEN
        RETURN why;
    END IF;
    FOREACH extension IN ARRAY ARRAY['btree_gin', 'pg_trgm'] LOOP
        BEGIN
            EXECUTE format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA filrouge', extension);
        EXCEPTION WHEN others THEN
            why := SQLERRM;
        END;
    END LOOP;
    SELECT format('%I.gin_trgm_ops', n.nspname) INTO ops
        FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_trgm';
    IF ops IS NULL THEN
        RETURN why;
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'btree_gin') THEN
        columns := 'realm, shard, ';
    END IF;
    -- Put together, as it is none of those that every store has.
    EXECUTE 'CREATE ' || format('INDEX search_words ON filrouge.search_document USING gin (%sfolded %s)', columns, ops);
    RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN SQLERRM;
END $$;
DO $$
DECLARE
    lacks text := filrouge.search_prepare(true);
BEGIN
    IF lacks IS NOT NULL THEN
        RAISE NOTICE 'filrouge: searches are slower without an index of trigrams: %', lacks;
    END IF;
END $$;

-- What is redacted or erased goes from the index in the same transaction. The lock is the one that every change of the
-- index is made under: a feeder that holds words it has read before finds forgotten raised, and puts nothing back.
CREATE FUNCTION filrouge.search_forget() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    erased  boolean := TG_TABLE_NAME = 'session';
    of      bigint;
    number  bigint;
    home    bigint;
BEGIN
    IF erased THEN
        IF NEW.erased IS NULL OR OLD.erased IS NOT NULL THEN
            RETURN NULL;
        END IF;
        of := NEW.pk;
    ELSE
        of := NEW.session_pk;
        -- Each record of a redaction comes here; the first one does it for all.
        IF current_setting('filrouge.forgot', true) = of::text THEN
            RETURN NULL;
        END IF;
        PERFORM set_config('filrouge.forgot', of::text, true);
    END IF;
    PERFORM pg_advisory_xact_lock(7380400768617177960);
    UPDATE filrouge.search_state SET forgotten = forgotten + 1;
    SELECT i.no, i.shard INTO number, home FROM filrouge.session s JOIN filrouge.search_session i
        ON i.realm = convert_to(s.tenant_id, 'UTF8') AND i.key = convert_to(s.session_id, 'UTF8') WHERE s.pk = of;
    IF number IS NULL THEN
        RETURN NULL;
    END IF;
    DELETE FROM filrouge.search_vector WHERE document IN (SELECT no FROM filrouge.search_document WHERE session = number);
    DELETE FROM filrouge.search_document WHERE session = number;
    IF NOT erased THEN
        UPDATE filrouge.search_session SET stamp_0 = 0, stamp_1 = 0 WHERE no = number;
        RETURN NULL;
    END IF;
    DELETE FROM filrouge.search_session WHERE no = number;
    DELETE FROM filrouge.search_shard WHERE no = home
        AND NOT EXISTS (SELECT FROM filrouge.search_session WHERE shard = home);
    RETURN NULL;
END $$;
CREATE TRIGGER search_forget AFTER UPDATE ON filrouge.record FOR EACH ROW EXECUTE FUNCTION filrouge.search_forget();
CREATE TRIGGER search_forget AFTER UPDATE ON filrouge.session FOR EACH ROW EXECUTE FUNCTION filrouge.search_forget();

-- A server whose role does not own the tables may do with these what it may with those that are there.
DO $$
DECLARE
    given record;
    made  text;
BEGIN
    FOR given IN SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role,
            CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
        FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
        WHERE c.oid = 'filrouge.draft'::regclass AND a.grantee <> c.relowner
    LOOP
        FOREACH made IN ARRAY ARRAY['state', 'shard', 'session', 'document', 'vector'] LOOP
            EXECUTE format('GRANT %s ON filrouge.search_%s TO %s%s', given.privilege_type, made, given.role, given.option);
        END LOOP;
    END LOOP;
END $$;

UPDATE filrouge.store SET value = '3' WHERE name = 'schema';
