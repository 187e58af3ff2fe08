-- Releases the lease, unless another owner has it or this owner acquired it again.
-- KEYS: lease. ARGV: owner, generation.

local holder = redis.call('GET', KEYS[1])
if not holder then
    return 0
end
local owner, generation = string.match(holder, '^(.*):(%d+)$')
if owner ~= ARGV[1] or tonumber(generation) > tonumber(ARGV[2]) then
    return 0
end
return redis.call('DEL', KEYS[1])
