-- The current window's count, and the previous one's weighted by its overlap. Mirrors src/algorithm/weighted_window.rs.
--
-- Quota: limit period tick.
-- Account: at, x = start, y = count, z = previous. Mark: the start of the window.

local function weighted_window(cursor, cost, does, mark, at, x, y, z)
    local limit, period, tick = ARGV[cursor] + 0, ARGV[cursor + 1] + 0, ARGV[cursor + 2] + 0
    local window = floor(period / tick)

    -- heal
    if at - real > PATIENCE then
        x = x - (at - at % period) + (real - real % period)
        at = real
    end

    -- read
    local now = at
    if now < real then now = real end
    local start, count, previous = now - now % period, 0, 0
    if start <= x then
        count, previous = y, z
    elseif start - x == period then
        previous = y
    end
    local elapsed = floor((now - start) / tick)
    local function remains()
        local weighted = previous * (window - elapsed)
        local spent = floor((weighted + window - 1) / window) + count
        if spent > limit then return 0 end
        return limit - spent
    end
    local remaining = remains()

    -- answer
    local answer = ADMITS
    if cost > limit then
        answer = NEVER_FITS
    elseif cost > remaining then
        answer = REFUSES
    end

    -- take, give back
    local is_changed = false
    if does == GIVE_BACK then
        if start == mark then
            count, is_changed = math.max(count - cost, 0), true
        elseif start - period == mark then
            previous, is_changed = math.max(previous - cost, 0), true
        end
        cost = 0
    elseif does == TAKE and answer == ADMITS and cost > 0 then
        count, mark, is_changed = count + cost, start, true
    end
    if is_changed then
        remaining = remains()
        at, x, y, z = now, start, count, previous
    end

    -- retry after, reset at
    local retry_after, reset_at = 0, at
    if cost > remaining and cost <= limit then
        -- In this window the previous count must lose weight; if that is not enough, in the next one this count.
        local opens, weighing, room = start, previous, limit - count - cost
        if room < 0 then opens, weighing, room = start + period, count, limit - cost end
        local part = floor(room * window / math.max(weighing, 1))
        retry_after = opens + math.max(window - part, 0) * tick - real
    end
    if y > 0 then
        reset_at = x + 2 * period
    elseif z > 0 then
        reset_at = x + period
    end
    return cursor + 3, answer, remaining, retry_after, reset_at, mark, at, x, y, z
end
