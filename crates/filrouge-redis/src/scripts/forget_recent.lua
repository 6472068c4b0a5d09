-- Deletes a copy; afterwards no copy of a history older than a seq is accepted.
-- ARGV: time to live in ms, that seq.
-- Returns 1, or 3 when the copy was unreadable.
local seq = ARGV[2]
if known and known > seq then
    seq = known
end
mark(seq, ARGV[1])
return 1 + 2 * damaged
