-- Gives the queue free, unless somebody else has it or its owner took it anew.
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
