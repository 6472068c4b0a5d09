-- Takes a copy made anew, unless a newer history is known.
-- ARGV: time to live in ms, its seq, its members.
-- Answers 0 when nothing changed, 1 when it was taken, 3 when it took the place of one that was not readable.
if known and known > ARGV[2] then
    return 0
end
if damaged == 0 then
    -- Asks for memory while the old copy is there. This member lies between turns and what is known of them.
    redis.call('ZADD', key, 0, 'u')
end
redis.call('DEL', key)
for i = 3, #ARGV do
    redis.call('ZADD', key, 0, ARGV[i])
end
redis.call('PEXPIRE', key, ARGV[1])
return 1 + 2 * damaged
