-- How accounts are kept in Redis: all reads, then all writes, each of which carries its TTL.
--
-- The buckets and windows of a tier's key share one string, "id=reset_at,born,at,x,y,z;" for each quota; a trail has a
-- hash of its own, with the same in its field "h". `reset_at` is when the account cannot be told from a new one; `born`
-- is when it was opened, followed the clock back, or was given something back that makes older marks uncertain: only what
-- was charged since can be given back. Accounts of the string that this call does not know, of another version of the
-- configuration, are kept until they reset.

local healed = 0

-- What comes after the arguments `index - 1`; unlike `unpack` there in every Lua.
local function spread(list, index)
    if index == #list then return list[index] end
    return list[index], spread(list, index + 1)
end

local function parse(value)
    local accounts, expected = {}, 1
    local pattern = '()(%w+)=(%d+),(%d+),(%d+),(%d+),(%d+),(%d*);()'
    for start, id, reset_at, born, at, x, y, z, stop in string.gmatch(value, pattern) do
        local account = {
            reset_at = tonumber(reset_at), born = tonumber(born),
            at = tonumber(at), x = tonumber(x), y = tonumber(y), z = tonumber(z) or 0,
        }
        if start ~= expected or account.reset_at >= WRAP or account.at >= WRAP
            or account.x >= WRAP or account.y >= WRAP or account.z >= WRAP or account.born >= WRAP then
            return nil
        end
        accounts[id] = account
        expected = stop
    end
    if expected ~= #value + 1 then return nil end
    return accounts
end

-- A key that should have expired long ago has lost its TTL. Clocks may step, so that is no more than a suspicion.
local function has_lost_ttl(key, reset_at, real)
    return reset_at + 60000000 < real and redis.call('PTTL', key) == -1
end

-- The string of `KEYS[index]`, as accounts by id.
local function open_string(key, value, real)
    local opened = { key = key, accounts = {} }
    if not value then return opened end
    local accounts = parse(value)
    if not accounts then
        opened.is_dirty, healed = true, healed + 1
        return opened
    end
    opened.accounts = accounts
    for _, account in pairs(accounts) do
        if has_lost_ttl(key, account.reset_at, real) then
            opened.accounts, opened.is_dirty, healed = {}, true, healed + 1
            break
        end
    end
    return opened
end

local function open_trail(key, real)
    local account = {
        key = key, born = 0, at = 0, base = 0, shift = 0, low = 0, next = 0, entries = {}, changed = {}, gone = {},
    }
    local header = redis.pcall('HGET', key, 'h')
    if not header then return account end
    local text = type(header) == 'string' and header or ''
    local reset_at, born, at, base, shift, low, next =
        string.match(text, '^(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+)$')
    reset_at, low, next = tonumber(reset_at), tonumber(low), tonumber(next)
    if not reset_at or next >= WRAP or low > next or has_lost_ttl(key, reset_at, real) then
        account.is_stale, account.is_dirty, healed = true, true, healed + 1
        return account
    end
    account.born, account.at, account.base = tonumber(born), tonumber(at), tonumber(base)
    account.shift, account.low, account.next = tonumber(shift), low, next
    return account
end

-- Milliseconds, rounded up, and one more for the server's own rounding.
local function ttl(reset_at, real, slack)
    return string.format('%.0f', floor((max(reset_at - real, 0) + 999) / 1000) + 1 + slack)
end

local function write_string(opened, real, slack)
    local fields, latest = {}, 0
    for id, account in pairs(opened.accounts) do
        if account.reset_at > real or (account.is_asked and not account.is_over) then
            latest = max(latest, account.reset_at)
            fields[#fields + 1] = string.format('%s=%.0f,%.0f,%.0f,%.0f,%.0f,%.0f;', id, account.reset_at,
                account.born, account.at, account.x, account.y, account.z)
        end
    end
    if #fields == 0 then
        redis.call('DEL', opened.key)
    else
        redis.call('SET', opened.key, table.concat(fields), 'PX', ttl(latest, real, slack))
    end
end

local function write_trail(account, real, slack)
    local is_over = account.low == account.next or account.is_over
    if account.is_stale or is_over then redis.call('DEL', account.key) end
    if is_over then return end
    local fields = { account.key, 'h', string.format('%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f', account.reset_at,
        account.born, account.at, account.base, account.shift, account.low, account.next) }
    for index in pairs(account.changed) do
        local entry = account.entries[index]
        fields[#fields + 1] = string.format('%.0f', index)
        fields[#fields + 1] = string.format('%.0f,%.0f', entry.bucket, entry.total)
        if #fields > 100 then
            redis.call('HSET', spread(fields, 1))
            fields = { account.key }
        end
    end
    if #fields > 1 then redis.call('HSET', spread(fields, 1)) end
    if not account.is_stale then
        for _, index in ipairs(account.gone) do redis.call('HDEL', account.key, string.format('%.0f', index)) end
    end
    redis.call('PEXPIRE', account.key, ttl(account.reset_at, real, slack))
end
