-- Keeps the queue for its reader a while longer, if it still is its reader.
-- KEYS: lease. ARGV: token, lease in ms.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
