-- What was admitted when, in buckets: the sliding window and the sliding log. Mirrors src/algorithm/trail.rs.
--
-- Quota: limit width kept (what is admitted in a bucket counts in it and in the `kept` buckets after it).
-- Account: a Redis hash of its own, because a log may be long and no decision may read all of it. Its entries are
-- numbered from `low` to `next - 1`, oldest first; each is a bucket and the total that was admitted up to it, wrapping.
-- So both questions, what still counts and when enough of it is gone, are binary searches. Its field "h" holds reset_at,
-- born, at, base (the total before `low`), shift (what is to be subtracted from buckets since the clock stepped back),
-- low and next. Mark: the bucket.

local function trail()
    -- Entries deleted with one admission at most: more than are added, so that none stay for good.
    local SWEEP = 16

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

    local function put(account, index, bucket, total)
        account.entries[index] = { bucket = bucket, total = total }
        account.changed[index] = true
    end

    local function drop(account, index)
        account.changed[index] = nil
        account.gone[#account.gone + 1] = index
    end

    local function open(key)
        local account = {
            key = key, reset_at = 0, born = 0, at = 0, base = 0, shift = 0, low = 0, next = 0,
            entries = {}, changed = {}, gone = {}, taken = nil,
            is_dirty = false, is_stale = false, is_corrupt = false, is_healed = false,
        }
        local header = redis.pcall('HGET', key, 'h')
        if not header then return account end
        local text = type(header) == 'string' and header or ''
        local reset_at, born, at, base, shift, low, next =
            match(text, '^(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+)$')
        reset_at, low, next = tonumber(reset_at), tonumber(low), tonumber(next)
        if not reset_at or next >= WRAP or low > next or has_lost_ttl(key, reset_at) then
            account.is_stale, account.is_healed = true, true
            return account
        end
        account.reset_at, account.born, account.at, account.base = reset_at, born + 0, at + 0, base + 0
        account.shift, account.low, account.next = shift + 0, low, next
        return account
    end

    -- The first entry that counts in the bucket `oldest` and after it, the total before it, and how much counts.
    local function read(account, oldest)
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
        local base, count = total_before(account, first), 0
        if first < next then count = (entry(account, next - 1).total - base) % WRAP end
        if account.is_corrupt then
            clear(account)
            account.is_corrupt, account.is_healed = false, true
            return 0, 0, 0
        end
        return first, base, count
    end

    local function give_back(account, first, bucket, cost)
        local index = search(first, account.next, function(index)
            return entry(account, index).bucket >= bucket
        end)
        if index == account.next or entry(account, index).bucket ~= bucket then return end
        local held = (entry(account, index).total - total_before(account, index)) % WRAP
        local given = math.min(held, cost)
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
    end

    local function decide(account, cursor, cost, does, mark)
        local limit, width, kept = ARGV[cursor] + 0, ARGV[cursor + 1] + 0, ARGV[cursor + 2] + 0

        -- heal
        if account.at - real > PATIENCE then
            account.shift = account.shift + floor(account.at / width) - floor(real / width)
            account.at, account.born, account.is_dirty = real, real, true
        end

        -- read
        local now = account.at
        if now < real then now = real end
        local bucket = floor(now / width)
        local first, base, count = read(account, bucket - kept + account.shift)

        -- answer
        local answer = ADMITS
        if cost > limit then
            answer = NEVER_FITS
        elseif cost > 0 and cost > limit - count then
            answer = REFUSES
        end

        -- take, give back
        account.taken = nil
        if does == GIVE_BACK then
            give_back(account, first, mark + account.shift, cost)
            first, base, count = read(account, bucket - kept + account.shift)
            account.is_dirty, cost = true, 0
        elseif does == TAKE and answer == ADMITS and cost > 0 then
            -- For `take`, once all of the request is admitted.
            count, mark = count + cost, bucket
            account.taken = { now = now, bucket = bucket, first = first, base = base, count = count, reset_at = 0 }
        end

        -- remaining, retry after, reset at
        local function gone_at(index)
            if index == account.next then return (bucket + kept + 1) * width end
            return (entry(account, index).bucket - account.shift + kept + 1) * width
        end
        local remaining, retry_after, reset_at = 0, 0, account.at
        if count < limit then remaining = limit - count end
        if cost > remaining and cost <= limit then
            local excess = count + cost - limit
            local index = search(first, account.next, function(index)
                return (entry(account, index).total - base) % WRAP >= excess
            end)
            retry_after = gone_at(index) - real
        end
        if account.taken then
            reset_at = gone_at(account.next)
            account.taken.reset_at = reset_at
        else
            if account.low < account.next then reset_at = gone_at(account.next - 1) end
            account.reset_at = reset_at
        end
        return cursor + 3, answer, remaining, retry_after, reset_at, mark
    end

    local function take(account, taken)
        local first, base = taken.first, taken.base
        if first == account.next then
            -- Nothing counts any more: all of it goes at once.
            clear(account)
            base = 0
        else
            local low = math.min(first, account.low + SWEEP)
            account.base = total_before(account, low)
            for index = account.low, low - 1 do drop(account, index) end
            account.low = low
        end
        account.at, account.reset_at, account.is_dirty, account.taken = taken.now, taken.reset_at, true, nil
        if account.born == 0 then account.born = real end
        local total, bucket = (base + taken.count) % WRAP, taken.bucket + account.shift
        local last = account.next - 1
        if last >= account.low and entry(account, last).bucket == bucket then
            put(account, last, bucket, total)
        else
            put(account, account.next, bucket, total)
            account.next = account.next + 1
        end
    end

    local function write(account)
        local is_over = account.low == account.next or account.reset_at <= real
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
        redis.call('PEXPIRE', account.key, ttl(account.reset_at))
    end

    return { open = open, decide = decide, take = take, write = write }
end
