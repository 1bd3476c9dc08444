-- What was admitted when, in buckets: the sliding window and the sliding log. Mirrors src/algorithm/trail.rs.
--
-- Quota: limit width kept (what is admitted in a bucket counts in it and in the `kept` buckets after it).
-- Account: a Redis hash of its own, because a log may be long and no decision may read all of it. Its entries are
-- numbered from `low` to `next - 1`, oldest first; each is a bucket and the total that was admitted up to it, wrapping.
-- So both questions, what still counts and when enough of it is gone, are binary searches. Besides them there are: at,
-- base (the total before `low`), and shift (what is to be subtracted from buckets since the clock stepped back).

local function trail()
    -- Entries deleted with one admission at most: more than are added, so that none stay for good.
    local SWEEP = 16

    local function entry(account, index)
        local found = account.entries[index]
        if not found then
            local text = redis.call('HGET', account.key, string.format('%.0f', index))
            local bucket, total = string.match(text or '', '^(%d+),(%d+)$')
            found = { bucket = tonumber(bucket), total = tonumber(total) }
            if not bucket or found.bucket >= WRAP or found.total >= WRAP then
                account.is_corrupt = true
                found = { bucket = 0, total = account.base }
            end
            account.entries[index] = found
        end
        return found
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

    local function heal(account, quota, real)
        if not stepped_back(account.at, real) then return false end
        account.shift = account.shift + floor(account.at / quota.width) - floor(real / quota.width)
        account.at = real
        return true
    end

    local function read(account, quota, real)
        local now = max(real, account.at)
        local bucket = floor(now / quota.width)
        local oldest = max(bucket - quota.kept, 0) + account.shift
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
        local base = total_before(account, first)
        local count = 0
        if first < next then count = (entry(account, next - 1).total - base) % WRAP end
        return { now = now, bucket = bucket, first = first, base = base, count = count, account = account }
    end

    local function answer(reading, quota, cost)
        return counted(reading.count, cost, quota.limit)
    end

    local function gone_at(account, quota, index)
        return (entry(account, index).bucket - account.shift + quota.kept + 1) * quota.width
    end

    local function reset_at(account, quota)
        if account.low == account.next then return account.at end
        return gone_at(account, quota, account.next - 1)
    end

    local function remaining(reading, quota)
        return max(quota.limit - reading.count, 0)
    end

    local function retry_after(reading, quota, real, cost)
        if answer(reading, quota, cost) ~= REFUSES then return 0 end
        local account, excess = reading.account, reading.count + cost - quota.limit
        local index = search(reading.first, account.next, function(index)
            return (entry(account, index).total - reading.base) % WRAP >= excess
        end)
        if index == account.next then return 0 end
        return max(gone_at(account, quota, index) - real, 0)
    end

    local function put(account, index, bucket, total)
        account.entries[index] = { bucket = bucket, total = total }
        account.changed[index] = true
    end

    local function charge(account, reading, _, _, cost)
        if reading.first == account.next then
            -- Nothing counts any more: all of it goes at once.
            account.is_stale = account.is_stale or account.next > 0
            account.low, account.next, account.base, account.shift = 0, 0, 0, 0
            account.entries, account.changed, account.gone = {}, {}, {}
            reading.first, reading.base = 0, 0
        else
            local low = min(reading.first, account.low + SWEEP)
            account.base = total_before(account, low)
            for index = account.low, low - 1 do
                account.changed[index] = nil
                account.gone[#account.gone + 1] = index
            end
            account.low = low
        end
        account.at = reading.now
        reading.count = reading.count + cost
        local total, bucket = (reading.base + reading.count) % WRAP, reading.bucket + account.shift
        local last = account.next - 1
        if last >= account.low and entry(account, last).bucket == bucket then
            put(account, last, bucket, total)
        else
            put(account, account.next, bucket, total)
            account.next = account.next + 1
        end
        return reading.bucket
    end

    local function give_back(account, quota, real, cost, mark)
        local reading = read(account, quota, real)
        local bucket = mark + account.shift
        local index = search(reading.first, account.next, function(index)
            return entry(account, index).bucket >= bucket
        end)
        if index == account.next or entry(account, index).bucket ~= bucket then return end
        local held = (entry(account, index).total - total_before(account, index)) % WRAP
        local given = min(held, cost)
        for later = index, account.next - 1 do
            local found = entry(account, later)
            put(account, later, found.bucket, (found.total - given) % WRAP)
        end
        -- An entry that holds nothing does no harm but as the last one, which tells when the account resets.
        while account.next > account.low
            and entry(account, account.next - 1).total == total_before(account, account.next - 1) do
            account.next = account.next - 1
            account.changed[account.next] = nil
            account.gone[#account.gone + 1] = account.next
        end
    end

    return {
        heal = heal, read = read, answer = answer, remaining = remaining, retry_after = retry_after,
        reset_at = reset_at, charge = charge, give_back = give_back,
    }
end
