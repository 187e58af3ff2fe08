-- Extends the lease, if the reader still holds it.
-- KEYS: lease. ARGV: token, lease in ms.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
