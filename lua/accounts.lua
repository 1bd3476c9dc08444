-- How buckets and windows are kept in Redis: those of a tier's key share one string. (A trail has a hash: trail.lua.)
--
-- "id=at,reset,born,x,y,z;" for each quota. `at` is the last write; the next three are told from there, because short
-- numbers are read and written faster: `reset` until the account cannot be told from a new one, `born` back to when it was
-- opened, followed the clock back, or was given something back that makes older marks uncertain (only what was charged
-- since can be given back), `x` of the algorithm. Accounts that this call does not know, of another version of the
-- configuration, are kept until they reset.

-- The elements of a list from `index` on; unlike `unpack` there in every Lua.
local function spread(list, index)
    if index == #list then return list[index] end
    return list[index], spread(list, index + 1)
end

-- A key that should have expired long ago has lost its TTL. Clocks may step, so that is no more than a suspicion.
local function has_lost_ttl(key, reset_at)
    return reset_at + 60000000 < real and redis.call('PTTL', key) == -1
end

-- Milliseconds, rounded up, and one more for the server's own rounding.
local function ttl(reset_at)
    if reset_at < real then reset_at = real end
    return format('%d', floor((reset_at - real + 999) / 1000) + 1 + slack)
end

-- Whether a quota is in this call.
local function is_known(id)
    for index = 3, #ARGV do
        if ARGV[index] == id then return true end
    end
    return false
end

-- Takes an account out of a string: at, born, x, y and z of it, all zero if there is none; what else is in the string; and
-- when the last of that resets. Nothing if the string is corrupt or should not be there any more.
local function extract(value, id, key)
    local found_at, found_born, found_x, found_y, found_z = 0, 0, 0, 0, 0
    local others, latest, start = '', 0, 1
    while start <= #value do
        local _, stop, name, at, reset, born, x, y, z =
            find(value, '^(%w+)=(%d+),(%d+),(%-?%d+),(%-?%d+),(%d+),(%d*);', start)
        if not stop or #reset > 16 or #born > 16 or #x > 17 then return nil end
        at, y = at + 0, y + 0
        if at >= WRAP or y >= WRAP or #z > 16 then return nil end
        if at + 60000000 < real and has_lost_ttl(key, at + reset) then return nil end
        if name == id then
            found_at, found_born, found_x, found_y = at, at - born, at + x, y
            if z ~= '' then found_z = z + 0 end
        elseif at + reset > real or is_known(name) then
            others = others .. sub(value, start, stop)
            if at + reset > latest then latest = at + reset end
        end
        start = stop + 1
    end
    return found_at, found_born, found_x, found_y, found_z, others, latest
end

-- An account as it is written; nothing of one that cannot be told from a new one.
local function written(id, reset_at, born, at, x, y, z)
    if reset_at <= real then return '' end
    if z == 0 then return format('%s=%d,%d,%d,%d,%d,;', id, at, reset_at - at, at - born, x - at, y) end
    return format('%s=%d,%d,%d,%d,%d,%d;', id, at, reset_at - at, at - born, x - at, y, z)
end
