-- Forgets an ephemeral session that is in the edition expected.
-- ARGV: that edition.
-- Answers 1 when it is gone, 0 when it is in another edition.
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
