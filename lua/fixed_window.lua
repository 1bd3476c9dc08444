-- One count per window. Mirrors src/algorithm/fixed_window.rs.
--
-- Quota: limit period. Letter 'f': windows at multiples of the period; 'o': opened by the first admitted request.
-- Account: at, x = start, y = count. Mark: twice the start of the window, and one more for the charge that opened it.

local function fixed_window(cursor, letter, cost, does, mark, at, x, y)
    local limit, period, is_aligned = ARGV[cursor] + 0, ARGV[cursor + 1] + 0, letter == 'f'

    -- heal
    if at - real > PATIENCE then
        x = x - (at - real)
        if is_aligned then x = x + at % period - real % period end
        at = real
    end

    -- read
    local now = at
    if now < real then now = real end
    local start, count = x, y
    if count == 0 or now >= start + period then
        start, count = now, 0
        if is_aligned then start = now - now % period end
    end

    -- answer
    local answer = ADMITS
    if cost > limit then
        answer = NEVER_FITS
    elseif cost > 0 and cost > limit - count then
        answer = REFUSES
    end

    -- take, give back
    local counted = count
    if does == GIVE_BACK then
        local is_opener = mark % 2 == 1 and not is_aligned
        if start == floor(mark / 2) and not (is_opener and count > cost) then counted = math.max(count - cost, 0) end
        cost = 0
    elseif does == TAKE and answer == ADMITS then
        counted, mark = count + cost, 2 * start
        if count == 0 then mark = mark + 1 end
    end
    if counted ~= count then
        count = counted
        at, x, y = now, start, count
    end

    -- remaining, retry after, reset at
    local remaining, retry_after, reset_at = 0, 0, at
    if count < limit then remaining = limit - count end
    if cost > remaining and cost <= limit then retry_after = start + period - real end
    if y > 0 then reset_at = x + period end
    return cursor + 2, answer, remaining, retry_after, reset_at, mark, at, x, y, 0
end
