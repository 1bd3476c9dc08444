-- What was admitted when, in buckets: the sliding window and the sliding log. Mirrors src/algorithm/trail.rs.
--
-- Quota: limit width kept (what is admitted in a bucket counts in it and in the `kept` buckets after it).
-- Account: a Redis hash of its own, because a log may be long and no decision may read all of it. Its entries are
-- numbered from `low` to `next - 1`, oldest first; each is a bucket and the total that was admitted up to it, wrapping.
-- So both questions, what still counts and when enough of it is gone, are binary searches. Its field "h" holds reset_at,
-- born, at, base (the total before `low`), shift (what is to be subtracted from buckets since the clock stepped back),
-- low and next.

local function trail()
    -- Entries deleted with one admission at most: more than are added, so that none stay for good.
    local SWEEP = 16

    local function new(account, cost, cursor)
        return {
            account = account, cost = cost, answer = 0, mark = 0, algorithm = false,
            limit = tonumber(ARGV[cursor]), width = tonumber(ARGV[cursor + 1]), kept = tonumber(ARGV[cursor + 2]),
            now = 0, bucket = 0, first = 0, base = 0, count = 0,
        }, cursor + 3
    end

    local function entry(account, index)
        local found = account.entries[index]
        if not found then
            local text = redis.call('HGET', account.key, format('%d', index))
            local bucket, total = match(text or '', '^(%d+),(%d+)$')
            found = { bucket = tonumber(bucket), total = tonumber(total) }
            if not bucket or found.bucket >= WRAP or found.total >= WRAP then
                account.is_corrupt = true
                found = { bucket = 0, total = account.base }
            end
            account.entries[index] = found
        end
        return found
    end

    -- Forgets all entries; what is in Redis goes when the account is written.
    local function clear(account)
        account.is_stale = account.is_stale or account.next > 0
        account.low, account.next, account.base, account.shift = 0, 0, 0, 0
        account.entries, account.changed, account.gone = {}, {}, {}
    end

    -- The first index from `low` to `high` for which `holds` is true, as it is for all after it; `high` if for none.
    local function search(low, high, holds)
        while low < high do
            local middle = floor((low + high) / 2)
            if holds(middle) then high = middle else low = middle + 1 end
        end
        return low
    end

    local function total_before(account, index)
        if index == account.low then return account.base end
        return entry(account, index - 1).total
    end

    local function heal(charge, account, real)
        if not stepped_back(account.at, real) then return false end
        account.shift = account.shift + floor(account.at / charge.width) - floor(real / charge.width)
        account.at = real
        return true
    end

    local function read(charge, account, real)
        local now = account.at
        if now < real then now = real end
        local bucket = floor(now / charge.width)
        local oldest = bucket - charge.kept + account.shift
        local low, next = account.low, account.next
        local first = next
        if low < next and entry(account, next - 1).bucket >= oldest then
            first = low
            if entry(account, low).bucket < oldest then
                first = search(low + 1, next - 1, function(index)
                    return entry(account, index).bucket >= oldest
                end)
            end
        end
        charge.now, charge.bucket, charge.first = now, bucket, first
        charge.base, charge.count = total_before(account, first), 0
        if first < next then charge.count = (entry(account, next - 1).total - charge.base) % WRAP end
        if account.is_corrupt then
            clear(account)
            account.is_corrupt, account.is_healed = false, true
            charge.first, charge.base, charge.count = 0, 0, 0
        end
    end

    local function answer(charge)
        return counted(charge.count, charge.cost, charge.limit)
    end

    local function gone_at(charge, account, index)
        return (entry(account, index).bucket - account.shift + charge.kept + 1) * charge.width
    end

    local function reset_at(charge, account)
        if account.low == account.next then return account.at end
        return gone_at(charge, account, account.next - 1)
    end

    local function remaining(charge)
        if charge.count > charge.limit then return 0 end
        return charge.limit - charge.count
    end

    local function retry_after(charge, real)
        if answer(charge) ~= REFUSES then return 0 end
        local account, excess = charge.account, charge.count + charge.cost - charge.limit
        local index = search(charge.first, account.next, function(index)
            return (entry(account, index).total - charge.base) % WRAP >= excess
        end)
        if index == account.next then return 0 end
        return gone_at(charge, account, index) - real
    end

    local function put(account, index, bucket, total)
        account.entries[index] = { bucket = bucket, total = total }
        account.changed[index] = true
    end

    local function drop(account, index)
        account.changed[index] = nil
        account.gone[#account.gone + 1] = index
    end

    local function take(charge, account)
        if charge.first == account.next then
            -- Nothing counts any more: all of it goes at once.
            clear(account)
            charge.first, charge.base = 0, 0
        else
            local low = math.min(charge.first, account.low + SWEEP)
            account.base = total_before(account, low)
            for index = account.low, low - 1 do drop(account, index) end
            account.low = low
        end
        account.at = charge.now
        charge.count = charge.count + charge.cost
        local total, bucket = (charge.base + charge.count) % WRAP, charge.bucket + account.shift
        local last = account.next - 1
        if last >= account.low and entry(account, last).bucket == bucket then
            put(account, last, bucket, total)
        else
            put(account, account.next, bucket, total)
            account.next = account.next + 1
        end
        return charge.bucket
    end

    local function give_back(charge, account, mark)
        local bucket = mark + account.shift
        local index = search(charge.first, account.next, function(index)
            return entry(account, index).bucket >= bucket
        end)
        if index == account.next or entry(account, index).bucket ~= bucket then return false end
        local held = (entry(account, index).total - total_before(account, index)) % WRAP
        local given = math.min(held, charge.cost)
        for later = index, account.next - 1 do
            local found = entry(account, later)
            put(account, later, found.bucket, (found.total - given) % WRAP)
        end
        -- An entry that holds nothing does no harm but as the last one, which tells when the account resets.
        while account.next > account.low
            and entry(account, account.next - 1).total == total_before(account, account.next - 1) do
            account.next = account.next - 1
            drop(account, account.next)
        end
        return false
    end

    local function open(key, real)
        local account = {
            key = key, index = false, reset_at = 0, born = 0, at = 0, base = 0, shift = 0, low = 0, next = 0,
            entries = {}, changed = {}, gone = {},
        }
        local header = redis.pcall('HGET', key, 'h')
        if not header then return account end
        local text = type(header) == 'string' and header or ''
        local reset_at, born, at, base, shift, low, next =
            match(text, '^(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+)$')
        reset_at, low, next = tonumber(reset_at), tonumber(low), tonumber(next)
        if not reset_at or next >= WRAP or low > next or has_lost_ttl(key, reset_at, real) then
            account.is_stale, account.is_healed = true, true
            return account
        end
        account.reset_at, account.born, account.at, account.base = reset_at, tonumber(born), tonumber(at), tonumber(base)
        account.shift, account.low, account.next = tonumber(shift), low, next
        return account
    end

    local function write(account, real, slack)
        local is_over = account.is_corrupt or account.is_over or account.low == account.next
        if account.is_stale or is_over then redis.call('DEL', account.key) end
        if is_over then return end
        local fields = { account.key, 'h', format('%d,%d,%d,%d,%d,%d,%d', account.reset_at, account.born, account.at,
            account.base, account.shift, account.low, account.next) }
        for index in pairs(account.changed) do
            local changed = account.entries[index]
            fields[#fields + 1] = format('%d', index)
            fields[#fields + 1] = format('%d,%d', changed.bucket, changed.total)
            if #fields > 100 then
                redis.call('HSET', spread(fields, 1))
                fields = { account.key }
            end
        end
        if #fields > 1 then redis.call('HSET', spread(fields, 1)) end
        if not account.is_stale then
            for _, index in ipairs(account.gone) do redis.call('HDEL', account.key, format('%d', index)) end
        end
        redis.call('PEXPIRE', account.key, ttl(account.reset_at, real, slack))
    end

    return {
        new = new, heal = heal, read = read, answer = answer, remaining = remaining, retry_after = retry_after,
        reset_at = reset_at, take = take, give_back = give_back, open = open, write = write,
    }
end
