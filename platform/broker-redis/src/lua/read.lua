-- Delivers entries: first those delivered before and not accepted, oldest first, then new ones.
-- KEYS: stream, lease.
-- ARGV: group, consumer, token (empty if reading is shared), lease in ms, maximum entries, approximate maximum bytes,
--       delivery limit (0: none), first pending id (empty: skip pending entries), minimum idle time of pending entries.
-- Returns: state, entries {id, earlier deliveries, fields}, entries beyond the delivery limit, the last pending id that was
--          checked, 1 if no pending ones are left, and if there are no entries at all, the id after which new ones will come.

local stream, lease = KEYS[1], KEYS[2]
local group, consumer, token, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local room, bytes, delivery_limit = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local pending_from, idle_ms = ARGV[8], ARGV[9]

-- Checked atomically with the read: a stalled reader never receives entries that belong to another one.
local holder = redis.call('GET', lease)
if token == '' then
    if holder then
        return {'lost', {}, {}, '', 0, ''}
    end
elseif holder ~= token then
    return {'lost', {}, {}, '', 0, ''}
else
    redis.call('PEXPIRE', lease, lease_ms)
end

local delivered, exhausted, largest = {}, {}, 1

local function deliver(entry, deliveries)
    local size = 0
    for _, text in ipairs(entry[2]) do
        size = size + #text
    end
    largest = math.max(largest, size)
    bytes = bytes - size
    room = room - 1
    delivered[#delivered + 1] = {entry[1], deliveries, entry[2]}
end

local cursor, none_left = '', 1
if pending_from ~= '' then
    local wanted = room
    local pending = redis.call('XPENDING', stream, group, 'IDLE', idle_ms, pending_from, '+', wanted)
    if #pending == wanted then
        none_left = 0
    end
    for _, listed in ipairs(pending) do
        if bytes <= 0 then
            none_left = 0
            break
        end
        local id, deliveries = listed[1], listed[4]
        cursor = id
        if delivery_limit > 0 and deliveries >= delivery_limit then
            local entry = redis.call('XRANGE', stream, id, id)[1]
            if entry then
                exhausted[#exhausted + 1] = {id, deliveries, entry[2]}
            else
                redis.call('XACK', stream, group, id)
            end
        else
            local entry = redis.call('XCLAIM', stream, group, consumer, idle_ms, id)[1]
            if entry then
                deliver(entry, deliveries)
            end
        end
    end
end

if none_left == 1 then
    while room > 0 and bytes > 0 do
        -- In growing steps, because the size of an entry is known only after it was read.
        local step = math.min(room, #delivered + 1, 16, math.max(1, math.floor(bytes / largest)))
        local found = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', step, 'STREAMS', stream, '>')
        if not found then
            break
        end
        for _, entry in ipairs(found[1][2]) do
            deliver(entry, 0)
        end
        if #found[1][2] < step then
            break
        end
    end
end

local last = ''
if #delivered == 0 then
    for _, info in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
        local fields = {}
        for i = 1, #info, 2 do
            fields[info[i]] = info[i + 1]
        end
        if fields['name'] == group then
            last = fields['last-delivered-id']
        end
    end
end
return {'ok', delivered, exhausted, cursor, none_left, last}
