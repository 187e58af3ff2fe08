-- Deletes entries. A script instead of a transaction, because a full server refuses transactions but must be drained.
-- KEYS: stream. ARGV: group, ids.

for first = 2, #ARGV, 1000 do
    local last = math.min(first + 999, #ARGV)
    redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, first, last))
    redis.call('XDEL', KEYS[1], unpack(ARGV, first, last))
end
return 1
