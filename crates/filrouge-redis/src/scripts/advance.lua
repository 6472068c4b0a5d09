-- Applies one write of the ledger to a copy.
-- ARGV: time to live in ms, maximum turns, maximum bytes, seq and link before, seq and link after, the ordinal to
-- write or '', its member, the ordinals to remove. Seqs and ordinals have 20 digits: text order equals number order.
-- Returns 0 when nothing changed, 1 when the write was applied, 2 when the copy is now invalid, 3 when it was
-- unreadable.
local ttl, before, after, ordinal = ARGV[1], ARGV[4], ARGV[6], ARGV[8]
if known and after <= known then
    return 0
end
if damaged == 0 and not known and tonumber(before) == 0 then
    known, link, low, count, bytes = before, ARGV[5], string.rep('0', 21), 0, 0
end
if known ~= before or link ~= ARGV[5] then
    mark(after, ttl)
    return 2 + damaged
end

local function remove(gone)
    local found = redis.call('ZRANGEBYLEX', key, '[t' .. gone .. ':', '(t' .. gone .. ';')
    for _, member in ipairs(found) do
        redis.call('ZREM', key, member)
        count, bytes = count - 1, bytes - (#member - 22)
    end
end
for i = 10, #ARGV do
    remove(ARGV[i])
end
if ordinal ~= '' and ordinal .. '0' >= low then
    remove(ordinal)
    redis.call('ZADD', key, 0, ARGV[9])
    count, bytes = count + 1, bytes + #ARGV[9] - 22
end
if meta then
    redis.call('ZREM', key, meta)
end
while count > tonumber(ARGV[2]) or bytes > tonumber(ARGV[3]) do
    local oldest = redis.call('ZPOPMIN', key)[1]
    count, bytes = count - 1, bytes - (#oldest - 22)
    low = string.sub(oldest, 2, 21) .. '1'
end
redis.call('ZADD', key, 0, string.format('z1 %s %s %s %.0f %.0f', after, ARGV[7], low, count, bytes))
redis.call('PEXPIRE', key, ttl)
return 1
