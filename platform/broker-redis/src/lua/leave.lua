-- Removes a shared reader: others may claim its pending entries at once, and its consumer is deleted. So are idle consumers
-- without pending entries. A consumer is never deleted while it has pending entries: they would be lost.
-- KEYS: stream, lease. ARGV: group, consumer, idle time that lets others claim, idle time that counts as gone.
-- Returns 0 if an exclusive reader has the queue.

local stream, group = KEYS[1], ARGV[1]
repeat
    local pending = redis.call('XPENDING', stream, group, '-', '+', 100, ARGV[2])
    for _, listed in ipairs(pending) do
        redis.call('XCLAIM', stream, group, 'returned', 0, listed[1], 'IDLE', ARGV[3], 'JUSTID')
    end
until #pending == 0

for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
    local fields = {}
    for i = 1, #info, 2 do
        fields[info[i]] = info[i + 1]
    end
    if fields['pending'] == 0 and (fields['name'] == ARGV[2] or fields['idle'] > tonumber(ARGV[4])) then
        redis.call('XGROUP', 'DELCONSUMER', stream, group, fields['name'])
    end
end
return 1 - redis.call('EXISTS', KEYS[2])
