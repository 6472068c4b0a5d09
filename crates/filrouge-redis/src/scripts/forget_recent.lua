-- Forgets a copy; nothing older than a seq is taken in its place.
-- ARGV: time to live in ms, that seq.
-- Answers 1, or 3 when the copy was not readable.
local seq = ARGV[2]
if known and known > seq then
    seq = known
end
mark(seq, ARGV[1])
return 1 + 2 * damaged
