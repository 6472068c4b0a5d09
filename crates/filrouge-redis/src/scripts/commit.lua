-- Changes an ephemeral session that has the expected edition, or creates one.
-- ARGV: time to live in ms, the expected edition or '', the new edition, whose nonce is unique to this commit, the
-- number of names to remove, these names, then names and values to write.
-- Returns 1, also when this commit was already applied, or 0 when the session has another edition.
local key = KEYS[1]
local expected = ARGV[2] ~= '' and ARGV[2]
local found = redis.pcall('HGET', key, 'e')
if type(found) == 'table' then
    return found
end
if found == ARGV[3] then
    return 1
end
if found ~= expected then
    return 0
end
if not found and redis.call('EXISTS', key) == 1 then
    return redis.error_reply('DAMAGED a session without an edition')
end
local removes = tonumber(ARGV[4])
local first_put = 5 + removes

-- Removals first: after a command that needs no memory, Redis lets a script continue when it is out of memory.
for i = 5, first_put - 1, 1000 do
    redis.call('HDEL', key, unpack(ARGV, i, math.min(i + 999, first_put - 1)))
end
local edition = redis.pcall('HSET', key, 'e', ARGV[3])
if type(edition) == 'table' and edition.err then
    -- Out of memory: a change that does not enlarge the session, such as a redaction, is applied nevertheless.
    local before, after = 0, 0
    for i = first_put, #ARGV, 2 do
        before = before + redis.call('HSTRLEN', key, ARGV[i])
        after = after + #ARGV[i + 1]
    end
    if not found or after > before then
        return edition
    end
    for i = first_put, #ARGV, 2 do
        redis.call('HDEL', key, ARGV[i])
    end
    redis.call('HDEL', key, 'e')
    redis.call('HSET', key, 'e', ARGV[3])
end
for i = first_put, #ARGV, 1000 do
    redis.call('HSET', key, unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
redis.call('PEXPIRE', key, ARGV[1])
return 1
