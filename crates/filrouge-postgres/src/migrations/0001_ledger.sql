-- The ledger. docs/format.md describes the binary columns; docs/adr/0038 explains the lanes.
-- Every table begins with the lane of its rows, and so does each of its keys and indexes: no constraint or trigger
-- needs the rows of two lanes. Exceptions are the table store and the search index.
-- Ids are compared as bytes (COLLATE "C"). Free text is kept as UTF-8 bytes, because it may hold characters that text
-- cannot.

-- Creating a schema needs a right on the database, even with IF NOT EXISTS, so an existing empty schema is used.
DO $$
BEGIN
    IF to_regnamespace('filrouge') IS NULL THEN
        CREATE SCHEMA filrouge;
    END IF;
END $$;

-- The store's name, its format, the schema's version, the number of lanes, which never changes, and the marks of its
-- keys, which the first server adds. The setting filrouge.lanes determines the number of lanes. A distributed store has
-- the row distribute too.
CREATE TABLE filrouge.store (
    name  text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO filrouge.store (name, value) VALUES ('store_id', gen_random_uuid()::text), ('format', '2'), ('schema', '1'),
    ('lanes', coalesce(nullif(current_setting('filrouge.lanes', true), ''), '8'));

-- The lanes. A transaction that writes to a lane has locked its row, but never updates it: a row that every commit
-- updates becomes slow to read while a snapshot is held.
CREATE TABLE filrouge.lane (
    lane smallint PRIMARY KEY CHECK (lane BETWEEN 0 AND 63)
);
INSERT INTO filrouge.lane (lane)
    SELECT generate_series(0, value::integer - 1) FROM filrouge.store WHERE name = 'lanes';

CREATE TABLE filrouge.session (
    lane              smallint NOT NULL,
    pk                bigint NOT NULL,
    tenant_id         text COLLATE "C" NOT NULL,
    session_id        text COLLATE "C" NOT NULL,
    identity_id       text COLLATE "C",
    parent_session_id text COLLATE "C",
    project_id        text COLLATE "C",
    team_id           bytea,
    title             bytea,
    status            smallint NOT NULL,
    state             bytea,
    metadata          bytea NOT NULL,
    created_at        bigint NOT NULL,
    token             bytea,
    erased            bytea,
    PRIMARY KEY (lane, pk),
    UNIQUE (lane, tenant_id, session_id)
);
-- Lists are ordered by (created_at, pk).
CREATE INDEX session_tenant ON filrouge.session (lane, tenant_id, created_at, pk);
CREATE INDEX session_owner ON filrouge.session (lane, tenant_id, identity_id, created_at, pk);
CREATE INDEX session_token ON filrouge.session (lane, tenant_id, token, created_at, pk) WHERE identity_id IS NULL;
CREATE INDEX session_parent ON filrouge.session (lane, tenant_id, parent_session_id, created_at, pk)
    WHERE parent_session_id IS NOT NULL;

-- The part of a session that changes with every append. data is small and in no index, so that updates stay within the
-- page. updated_at, a copy from data, changes only when a turn begins or ends, or the session itself changes. The fill
-- factor leaves room for the name of a lease's holder, and for a second version of every row in a page, as a commit
-- of many sessions creates them.
CREATE TABLE filrouge.head (
    lane       smallint NOT NULL,
    pk         bigint NOT NULL,
    data       bytea NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (lane, pk)
) WITH (fillfactor = 33);
-- Lists by last activity.
CREATE INDEX head_updated ON filrouge.head (lane, updated_at, pk);

-- place = ordinal << 8 | version - 1. An append changes open_since and data, which are in no index.
CREATE TABLE filrouge.turn (
    lane       smallint NOT NULL,
    session_pk bigint NOT NULL,
    place      bigint NOT NULL,
    turn_id    uuid NOT NULL,
    open       boolean NOT NULL,
    open_since bigint,
    data       bytea NOT NULL,
    PRIMARY KEY (lane, session_pk, place)
) WITH (fillfactor = 80);
CREATE INDEX turn_id ON filrouge.turn (lane, turn_id);
CREATE INDEX turn_open ON filrouge.turn (lane, session_pk) WHERE open;

CREATE TABLE filrouge.record (
    lane       smallint NOT NULL,
    session_pk bigint NOT NULL,
    first_seq  bigint NOT NULL,
    count      bigint NOT NULL,
    head       bytea NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (lane, session_pk, first_seq)
);
-- Bodies are already compressed where that helps.
ALTER TABLE filrouge.record ALTER COLUMN body SET STORAGE EXTERNAL;

-- The callers' keys of items and requests, hashed to 16 bytes.
CREATE TABLE filrouge.item_key (
    lane       smallint NOT NULL,
    session_pk bigint NOT NULL,
    key        uuid NOT NULL,
    seq        bigint NOT NULL,
    PRIMARY KEY (lane, session_pk, key)
);

-- The agents that have spoken in each session: derived from the items, for lists.
CREATE TABLE filrouge.session_agent (
    lane       smallint NOT NULL,
    session_pk bigint NOT NULL,
    agent      bytea NOT NULL,
    data       bytea NOT NULL
);
-- The index is over a hash, because names may be longer than an index entry can be.
CREATE UNIQUE INDEX session_agent_key ON filrouge.session_agent (lane, sha256(agent), session_pk);
CREATE INDEX session_agent_pk ON filrouge.session_agent (lane, session_pk);

-- Events for key figures; the callers' keys hashed to 16 bytes.
CREATE TABLE filrouge.event (
    lane       smallint NOT NULL,
    session_pk bigint NOT NULL,
    number     bigint NOT NULL,
    key        uuid NOT NULL,
    data       bytea NOT NULL,
    -- Used to find the events of all sessions by time: derived, and compared with data on every read.
    at         bigint NOT NULL,
    PRIMARY KEY (lane, session_pk, number)
);
CREATE UNIQUE INDEX event_key ON filrouge.event (lane, session_pk, key);
CREATE INDEX event_at ON filrouge.event (lane, at, session_pk, number);

-- The state of applications as of a seq. The session's head lists the existing checkpoints, under its MAC.
CREATE TABLE filrouge.checkpoint (
    lane       smallint NOT NULL,
    session_pk bigint NOT NULL,
    seq        bigint NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (lane, session_pk, seq)
);

-- Small named values of the store, such as API keys and the positions of webhooks. All belong to the first lane.
CREATE TABLE filrouge.note (
    lane smallint NOT NULL CHECK (lane = 0),
    name text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (lane, name)
);

-- Text that open turns have streamed and that is not an item yet.
CREATE TABLE filrouge.draft (
    lane       smallint NOT NULL,
    session_pk bigint NOT NULL,
    place      bigint NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (lane, session_pk, place)
) WITH (fillfactor = 50);
CREATE TABLE filrouge.draft_chunk (
    lane       smallint NOT NULL,
    session_pk bigint NOT NULL,
    place      bigint NOT NULL,
    number     bigint NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (lane, session_pk, place, number)
);

CREATE TABLE filrouge.commit_log (
    lane      smallint NOT NULL,
    commit_no bigint NOT NULL,
    data      bytea NOT NULL,
    PRIMARY KEY (lane, commit_no)
);

-- The newest commit of a lane that erased contents, if the tables were not vacuumed since. A number below 0 is a removal
-- from the search index, which belongs to no lane.
CREATE TABLE filrouge.erasing (
    lane      smallint PRIMARY KEY,
    commit_no bigint NOT NULL
);

-- A session's number determines its lane, so that no row of a session can be in two lanes.
DO $$
DECLARE
    lanes    integer := (SELECT value::integer FROM filrouge.store WHERE name = 'lanes');
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['session', 'head', 'turn', 'record', 'item_key', 'session_agent', 'event',
        'checkpoint', 'draft', 'draft_chunk'] LOOP
        EXECUTE format('ALTER TABLE filrouge.%I ADD CONSTRAINT %I CHECK (lane = %I %% %s)', relation, relation || '_lane',
            CASE WHEN relation IN ('session', 'head') THEN 'pk' ELSE 'session_pk' END, lanes);
    END LOOP;
END $$;

-- The database itself refuses changes of the ledger other than by redaction or erasure. A redaction names, in a
-- setting of its transaction, the session whose records it empties, and keeps the link to the previous record; an
-- erasure names the session it deletes. Rows that every append changes (head, turn) or deletes (draft, draft_chunk) may
-- be updated: their MACs reveal other changes. The fixed search_path ignores names that a role has placed before those
-- of pg_catalog.
CREATE FUNCTION filrouge.guard_record() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND current_setting('filrouge.redacts', true) = OLD.session_pk::text
       AND (NEW.lane, NEW.session_pk, NEW.first_seq, NEW.count) = (OLD.lane, OLD.session_pk, OLD.first_seq, OLD.count)
       AND substr(NEW.head, length(NEW.head) - 47, 32) = substr(OLD.head, length(OLD.head) - 47, 32) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'filrouge: items are never changed but by redaction, and go by erasure alone' USING ERRCODE = 'FR001';
END $$;
CREATE FUNCTION filrouge.guard_erasure() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF current_setting('filrouge.erases', true) = OLD.session_pk::text THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'filrouge: rows of %.% go by erasure alone', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'FR001';
END $$;
-- Commits are never deleted, except those of an unfinished copy, which each run rewrites: it says so in a setting of
-- its transaction. No guard reads a row of another table.
CREATE FUNCTION filrouge.guard_copy() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF current_setting('filrouge.copies', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'filrouge: % on %.% is never done', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'FR001';
END $$;
CREATE FUNCTION filrouge.guard_always() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'filrouge: % on %.% is never done', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'FR001';
END $$;
CREATE TRIGGER guard_update BEFORE UPDATE ON filrouge.record FOR EACH ROW EXECUTE FUNCTION filrouge.guard_record();
CREATE TRIGGER guard_update BEFORE UPDATE ON filrouge.item_key FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_update BEFORE UPDATE ON filrouge.event FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_update BEFORE UPDATE ON filrouge.session_agent FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_update BEFORE UPDATE ON filrouge.commit_log FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_update BEFORE UPDATE ON filrouge.lane FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.record FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.turn FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.item_key FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.event FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.session_agent FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.session FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.head FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.note FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.commit_log FOR EACH ROW EXECUTE FUNCTION filrouge.guard_copy();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.lane FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.session FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.head FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.turn FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.record FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.item_key FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.session_agent FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.event FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.checkpoint FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.note FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.commit_log FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.lane FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();

-- The search index (DESIGN §10; docs/adr/0026): derived from the ledger, not copied, rebuilt by `filrouge index
-- rebuild`. docs/format.md describes the columns. Names and keys are the feeder's bytes.

-- The feed position that the index has reached, and a counter of redactions, erasures and other removals.
CREATE TABLE filrouge.search_state (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    format    integer NOT NULL,
    position  bytea,
    forgotten bigint NOT NULL,
    seal      bytea
);
INSERT INTO filrouge.search_state (format, forgotten) VALUES (1, 0);

-- The owners of documents. A realm is identified by the number of its first shard.
CREATE TABLE filrouge.search_shard (
    no       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    realm_no bigint NOT NULL,
    realm    bytea NOT NULL,
    owner    bytea NOT NULL,
    seal     bytea
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
    project bytea,
    seal    bytea
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
-- These indexes are over sums, so that only queries that name the sums use them: the planner does not know the cost of
-- reading a text, and would rather read all documents of a shard than those that search_words finds.
CREATE INDEX search_document_shard ON filrouge.search_document ((shard + 0), no);
CREATE INDEX search_document_realm ON filrouge.search_document ((realm + 0), no);

CREATE TABLE filrouge.search_vector (
    embedder bytea NOT NULL,
    document bigint NOT NULL,
    data     bytea NOT NULL,
    PRIMARY KEY (embedder, document)
);
CREATE INDEX search_vector_document ON filrouge.search_vector (document);

-- Statistics would keep samples of contents after an erasure. And the vacuum that follows an erasure must clean the
-- indexes, however few rows were deleted.
ALTER TABLE filrouge.search_document ALTER COLUMN key SET STATISTICS 0, ALTER COLUMN folded SET STATISTICS 0,
    ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE filrouge.search_vector ALTER COLUMN data SET STATISTICS 0;
ALTER TABLE filrouge.search_document SET (vacuum_index_cleanup = on, toast.vacuum_index_cleanup = on);
ALTER TABLE filrouge.search_vector SET (vacuum_index_cleanup = on);

-- LZ4 decompresses three times as fast; not every server is built with it.
DO $$
BEGIN
    ALTER TABLE filrouge.search_document ALTER COLUMN folded SET COMPRESSION lz4, ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    RAISE NOTICE 'filrouge: this server has no LZ4';
END $$;

-- Creates the trigram index if it is missing; returns what is missing for it, or NULL if it exists. Both extensions
-- ship with PostgreSQL, in some distributions as a separate package, and need the right to create in the database.
-- Without pg_trgm a search scans all documents of an owner; without btree_gin it reads the postings of all owners and
-- keeps those of one, before it reads any document.
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
    -- A distributed store has no search index.
    lacks text := filrouge.search_prepare(current_setting('filrouge.distribute', true) IS DISTINCT FROM 'citus');
BEGIN
    IF lacks IS NOT NULL THEN
        RAISE NOTICE 'filrouge: searches are slower without an index of trigrams: %', lacks;
    END IF;
END $$;

-- Redaction and erasure delete from the index in the same transaction. They take the lock of every change of the index:
-- a feeder that still holds text from an earlier read then finds forgotten raised, and writes nothing back. The row of
-- the session stays, because only a program with the keyring can seal its shard without it.
CREATE FUNCTION filrouge.search_forget() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    erased  boolean := TG_TABLE_NAME = 'session';
    of      bigint;
    number  bigint;
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
    SELECT i.no INTO number FROM filrouge.session s JOIN filrouge.search_session i
        ON i.realm = convert_to(s.tenant_id, 'UTF8') AND i.key = convert_to(s.session_id, 'UTF8')
        WHERE s.lane = NEW.lane AND s.pk = of;
    IF number IS NULL THEN
        RETURN NULL;
    END IF;
    DELETE FROM filrouge.search_vector WHERE document IN (SELECT no FROM filrouge.search_document WHERE session = number);
    DELETE FROM filrouge.search_document WHERE session = number;
    UPDATE filrouge.search_session SET stamp_0 = 0, stamp_1 = 0, updated = CASE WHEN erased THEN 0 ELSE updated END,
        project = CASE WHEN erased THEN NULL ELSE project END WHERE no = number;
    RETURN NULL;
END $$;
CREATE TRIGGER search_forget AFTER UPDATE ON filrouge.record FOR EACH ROW EXECUTE FUNCTION filrouge.search_forget();
CREATE TRIGGER search_forget AFTER UPDATE ON filrouge.session FOR EACH ROW EXECUTE FUNCTION filrouge.search_forget();
