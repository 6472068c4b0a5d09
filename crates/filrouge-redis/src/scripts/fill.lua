-- Stores a rebuilt copy, unless a newer history is known.
-- ARGV: time to live in ms, its seq, its members.
-- Returns 0 when nothing changed, 1 when it was stored, 3 when it replaced an unreadable one.
if known and known > ARGV[2] then
    return 0
end
if damaged == 0 then
    -- Requests memory while the old copy exists. This member sorts between the turns and the last member.
    redis.call('ZADD', key, 0, 'u')
end
redis.call('DEL', key)
for i = 3, #ARGV do
    redis.call('ZADD', key, 0, ARGV[i])
end
redis.call('PEXPIRE', key, ARGV[1])
return 1 + 2 * damaged
