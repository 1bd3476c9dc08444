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
local function has_lost_ttl(key, reset_at, real)
    return reset_at + 60000000 < real and redis.call('PTTL', key) == -1
end

-- Milliseconds, rounded up, and one more for the server's own rounding.
local function ttl(reset_at, real, slack)
    if reset_at < real then reset_at = real end
    return format('%d', floor((reset_at - real + 999) / 1000) + 1 + slack)
end

-- The accounts in a string, by id; nothing if it is corrupt.
local function parse(value, key, real)
    local accounts, start = {}, 1
    while start <= #value do
        local _, stop, id, at, reset, born, x, y, z =
            find(value, '^(%w+)=(%d+),(%-?%d+),(%-?%d+),(%-?%d+),(%d+),(%d*);', start)
        at, y = tonumber(at), tonumber(y)
        if not stop or at >= WRAP or y >= WRAP or #reset > 17 or #x > 17 or #born > 17 or #z > 16 then return nil end
        if z == '' then z = 0 end
        local account = {
            index = false, is_over = false,
            at = at, reset_at = at + reset, born = at - born, x = at + x, y = y, z = z + 0,
        }
        if has_lost_ttl(key, account.reset_at, real) then return nil end
        accounts[id] = account
        start = stop + 1
    end
    return accounts
end

local function write_accounts(accounts, key, real, slack)
    local value, latest = '', 0
    for id, account in pairs(accounts) do
        local at, reset_at, z = account.at, account.reset_at, account.z
        if reset_at > real or (account.index and account.born ~= 0 and not account.is_over) then
            if reset_at > latest then latest = reset_at end
            if z == 0 then
                value = value .. format('%s=%d,%d,%d,%d,%d,;', id, at, reset_at - at, at - account.born,
                    account.x - at, account.y)
            else
                value = value .. format('%s=%d,%d,%d,%d,%d,%d;', id, at, reset_at - at, at - account.born,
                    account.x - at, account.y, z)
            end
        end
    end
    if value == '' then
        redis.call('DEL', key)
    else
        redis.call('SET', key, value, 'PX', ttl(latest, real, slack))
    end
end
