-- Deletes an ephemeral session that has the expected edition.
-- ARGV: that edition.
-- Returns 1 when it is deleted or absent, 0 when it has another edition.
local key = KEYS[1]
local found = redis.pcall('HGET', key, 'e')
if type(found) == 'table' then
    return found
end
if found == ARGV[1] then
    redis.call('UNLINK', key)
    return 1
end
return 1 - redis.call('EXISTS', key)
