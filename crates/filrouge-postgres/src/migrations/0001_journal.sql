-- The journal. docs/format.md tells what the binary columns hold; docs/adr/0018 why the tables lie like this.
-- Ids are compared as bytes (COLLATE "C"); free text is kept as its UTF-8 bytes, which may hold what text cannot.

-- Making it needs a right on the database, even with IF NOT EXISTS: a schema that is there may be empty.
DO $$
BEGIN
    IF to_regnamespace('filrouge') IS NULL THEN
        CREATE SCHEMA filrouge;
    END IF;
END $$;

-- The store's name and the schema's version; the marks of its keys, which the first server adds.
CREATE TABLE filrouge.store (
    name  text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO filrouge.store (name, value) VALUES ('store_id', gen_random_uuid()::text), ('schema', '1');

CREATE TABLE filrouge.session (
    pk                bigint PRIMARY KEY,
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
    UNIQUE (tenant_id, session_id)
);
CREATE INDEX session_tenant ON filrouge.session (tenant_id, pk);
CREATE INDEX session_owner ON filrouge.session (tenant_id, identity_id, pk);
CREATE INDEX session_token ON filrouge.session (tenant_id, token, pk) WHERE identity_id IS NULL;
CREATE INDEX session_parent ON filrouge.session (tenant_id, parent_session_id, pk) WHERE parent_session_id IS NOT NULL;

-- What changes of a session with every append: small, in no index, so that updates stay within the page.
CREATE TABLE filrouge.head (
    pk   bigint PRIMARY KEY,
    data bytea NOT NULL
) WITH (fillfactor = 50);

-- place = ordinal << 8 | version - 1. An append changes open_since and data, which are in no index.
CREATE TABLE filrouge.turn (
    session_pk bigint NOT NULL,
    place      bigint NOT NULL,
    turn_id    uuid NOT NULL,
    open       boolean NOT NULL,
    open_since bigint,
    data       bytea NOT NULL,
    PRIMARY KEY (session_pk, place)
) WITH (fillfactor = 80);
CREATE INDEX turn_id ON filrouge.turn (turn_id);
CREATE INDEX turn_open ON filrouge.turn (session_pk) WHERE open;

CREATE TABLE filrouge.record (
    session_pk bigint NOT NULL,
    first_seq  bigint NOT NULL,
    count      bigint NOT NULL,
    head       bytea NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (session_pk, first_seq)
);
-- Compressed already, where that helps.
ALTER TABLE filrouge.record ALTER COLUMN body SET STORAGE EXTERNAL;

-- The callers' keys of items and requests, hashed to 16 bytes.
CREATE TABLE filrouge.item_key (
    session_pk bigint NOT NULL,
    key        uuid NOT NULL,
    seq        bigint NOT NULL,
    PRIMARY KEY (session_pk, key)
);

-- Which agents have spoken in which sessions: derived from the items, for finding sessions.
CREATE TABLE filrouge.session_agent (
    session_pk bigint NOT NULL,
    agent      bytea NOT NULL
);
-- By a hash: names may be longer than what an index holds.
CREATE UNIQUE INDEX session_agent_key ON filrouge.session_agent (sha256(agent), session_pk);
CREATE INDEX session_agent_pk ON filrouge.session_agent (session_pk);

-- Events for key figures; the callers' keys hashed to 16 bytes.
CREATE TABLE filrouge.event (
    session_pk bigint NOT NULL,
    number     bigint NOT NULL,
    key        uuid NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (session_pk, number)
);
CREATE UNIQUE INDEX event_key ON filrouge.event (session_pk, key);

-- Small named values of the store, such as API keys and the places that webhooks have come to.
CREATE TABLE filrouge.note (
    name text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL
);

-- What open turns' streams have shown and is not an item yet.
CREATE TABLE filrouge.draft (
    session_pk bigint NOT NULL,
    place      bigint NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (session_pk, place)
) WITH (fillfactor = 50);
CREATE TABLE filrouge.draft_chunk (
    session_pk bigint NOT NULL,
    place      bigint NOT NULL,
    number     bigint NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (session_pk, place, number)
);

CREATE TABLE filrouge.commit_log (
    commit_no bigint PRIMARY KEY,
    data      bytea NOT NULL
);

-- Whoever changes a journal other than by redaction or erasure is refused by the database itself. A redaction says in
-- its transaction whose records it empties, and leaves the link to the record before; an erasure says whose it takes.
-- What every append changes (head, turn) or takes away (draft, draft_chunk) may be updated: its MACs tell. The names
-- that a role has put before pg_catalog's do not count.
CREATE FUNCTION filrouge.guard_record() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND current_setting('filrouge.redacts', true) = OLD.session_pk::text
       AND (NEW.session_pk, NEW.first_seq, NEW.count) = (OLD.session_pk, OLD.first_seq, OLD.count)
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
-- A session stays for ever, but for what an unfinished copy has of it.
CREATE FUNCTION filrouge.guard_copy() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF current_setting('filrouge.erases', true) = OLD.pk::text
       AND EXISTS (SELECT FROM filrouge.store WHERE name = 'copying') THEN
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
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.record FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.turn FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.item_key FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.event FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.session_agent FOR EACH ROW EXECUTE FUNCTION filrouge.guard_erasure();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.session FOR EACH ROW EXECUTE FUNCTION filrouge.guard_copy();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.head FOR EACH ROW EXECUTE FUNCTION filrouge.guard_copy();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.note FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_delete BEFORE DELETE ON filrouge.commit_log FOR EACH ROW EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.session FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.head FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.turn FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.record FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.item_key FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.session_agent FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.event FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.note FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.commit_log FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
