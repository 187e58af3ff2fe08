#!lua flags=allow-oom
-- Moves an entry that reached the delivery limit to other streams, all or nothing.
-- KEYS: stream, lease, target streams. ARGV: group, token, id, then names and values to add.
-- Returns 'ok', 'lost', or the target that does not exist.

local holder = redis.call('GET', KEYS[2])
if (ARGV[2] == '' and holder) or (ARGV[2] ~= '' and holder ~= ARGV[2]) then
    return 'lost'
end
for i = 3, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 0 then
        return KEYS[i]
    end
end

local entry = redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])[1]
if entry then
    local added, fields = {}, {}
    for i = 4, #ARGV, 2 do
        added[ARGV[i]] = true
    end
    for i = 1, #entry[2], 2 do
        if not added[entry[2][i]] then
            fields[#fields + 1] = entry[2][i]
            fields[#fields + 1] = entry[2][i + 1]
        end
    end
    for i = 4, #ARGV do
        fields[#fields + 1] = ARGV[i]
    end
    for i = 3, #KEYS do
        redis.call('XADD', KEYS[i], '*', unpack(fields))
    end
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[3])
return 'ok'
