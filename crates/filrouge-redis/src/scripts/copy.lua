-- The beginning of every script about a copy of recent turns: parses the last member.
local key = KEYS[1]
local MARK = ' - 0 0 0'
local meta, known, link, low, count, bytes
local damaged = 0
do
    local top = redis.pcall('ZREVRANGE', key, 0, 0)
    if top.err then
        damaged = 1
    elseif top[1] then
        meta = top[1]
        known, link, low, count, bytes = string.match(meta, '^z1 (%d+) (%S+) (%d+) (%d+) (%d+)$')
        count, bytes = tonumber(count), tonumber(bytes)
        if not known or #known ~= 20 then
            known = nil
            damaged = 1
        end
    end
end

-- Replaces the copy with a mark that only records `seq`. DEL needs no memory, so this succeeds when Redis is out of it.
local function mark(seq, ttl)
    redis.call('DEL', key)
    redis.call('ZADD', key, 0, 'z1 ' .. seq .. MARK)
    redis.call('PEXPIRE', key, ttl)
end
