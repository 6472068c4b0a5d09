-- Leases and checkpoints (DESIGN §6). docs/format.md tells what the binary columns hold.

-- A session's newest lease lies in its head, which grows by the holder's name: room for that, and for a second version of
-- all that stands in a page, as a commit of many sessions makes them.
ALTER TABLE filrouge.head SET (fillfactor = 33);

-- What applications knew as of a seq. Which ones there are stands in the session's head, under its MAC.
CREATE TABLE filrouge.checkpoint (
    session_pk bigint NOT NULL,
    seq        bigint NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (session_pk, seq)
);
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON filrouge.checkpoint FOR EACH STATEMENT EXECUTE FUNCTION filrouge.guard_always();
-- A server whose role does not own the tables may do with this one what it may with those that are there.
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role,
            CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
        FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
        WHERE c.oid = 'filrouge.draft'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON filrouge.checkpoint TO %s%s', given.privilege_type, given.role, given.option);
    END LOOP;
END $$;

-- When an event happened, by which those of all sessions are found: derived, and compared with data whenever it is read.
-- Of events that are there it is read out of data, behind the format, the key's number and two texts, each behind its
-- length; of one that is malformed, 0. The table is written anew, for a guard refuses updates of it.
CREATE FUNCTION filrouge.event_at(data bytea) RETURNS bigint LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog AS $$
DECLARE
    place  integer := 5;
    length bigint;
    shift  integer;
    byte   integer;
BEGIN
    FOR texts IN 1..2 LOOP
        length := 0;
        shift := 0;
        LOOP
            byte := get_byte(data, place);
            place := place + 1;
            length := length + ((byte & 127)::bigint << shift);
            EXIT WHEN byte < 128;
            shift := shift + 7;
        END LOOP;
        place := place + length;
    END LOOP;
    RETURN ('x' || encode(substr(data, place + 1, 8), 'hex'))::bit(64)::bigint;
EXCEPTION WHEN others THEN
    RETURN 0;
END $$;
ALTER TABLE filrouge.event ADD COLUMN at bigint;
ALTER TABLE filrouge.event ALTER COLUMN at TYPE bigint USING filrouge.event_at(data), ALTER COLUMN at SET NOT NULL;
DROP FUNCTION filrouge.event_at(bytea);
CREATE INDEX event_at ON filrouge.event (at, session_pk, number);

UPDATE filrouge.store SET value = '2' WHERE name = 'schema';
