#!lua flags=allow-oom
-- Acquires the lease, unless another reader has it. Works on a full server, too, or it could never be drained.
-- KEYS: stream, lease. ARGV: group, owner, generation, lease in ms.
-- The latest call of an owner counts: one that was delayed on a dead connection has a lower generation.

redis.call('XPENDING', KEYS[1], ARGV[1]) -- an error if the queue was never declared

local holder = redis.call('GET', KEYS[2])
if holder then
    local owner, generation = string.match(holder, '^(.*):(%d+)$')
    if owner ~= ARGV[2] or tonumber(generation) >= tonumber(ARGV[3]) then
        return 0
    end
end
redis.call('SET', KEYS[2], ARGV[2] .. ':' .. ARGV[3], 'PX', ARGV[4])
return 1
