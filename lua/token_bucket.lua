-- The token bucket, smooth or in steps. Mirrors src/algorithm/token_bucket.rs and src/algorithm/stepped_bucket.rs.
--
-- Quota: l p cap tick. Letter 't': refilled with every tick; 's': at phase + n * step, with two numbers more: step phase.
-- Account: at, x = whole (microseconds), y = rem (units of 1/l tick). Mark: whole after the charge.

local function token_bucket(cursor, letter, cost, does, mark, at, x, y)
    local l, p, cap, tick = ARGV[cursor] + 0, ARGV[cursor + 1] + 0, ARGV[cursor + 2] + 0, ARGV[cursor + 3] + 0
    local step, phase, after = tick, 0, cursor + 4
    if letter == 's' then step, phase, after = ARGV[cursor + 4] + 0, ARGV[cursor + 5] + 0, cursor + 6 end

    -- heal
    if at - real > PATIENCE then
        x = x - (at - past(step, phase, at)) + (real - past(step, phase, real))
        at = real
    end

    -- read
    local now = at
    if now < real then now = real end
    local refill, whole, rem = now, x, y
    if step ~= 1 then refill = now - past(step, phase, now) end
    if tick ~= 1 then refill, whole = floor(refill / tick), floor((whole + tick - 1) / tick) end
    if rem > l - 1 then rem = l - 1 end
    if whole < refill then whole, rem = refill, 0 end
    local missing, debt = whole - refill, cap + 1
    if missing <= floor(cap / l) + 1 then debt = missing * l + rem end

    -- answer
    local price, answer = cost * p, ADMITS
    if price > cap then
        answer = NEVER_FITS
    elseif price > 0 and debt > cap - price then
        answer = REFUSES
    end

    -- take, give back
    local owed = debt
    if does == GIVE_BACK then
        local weighs = (floor(mark / tick) - refill) * l
        if weighs > 0 and debt <= cap then owed = debt - math.min(weighs, price, debt) end
        price = 0
    elseif does == TAKE and answer == ADMITS then
        owed = debt + price
    end
    if owed ~= debt then
        debt, whole, rem = owed, refill + floor(owed / l), owed % l
        at, x, y = now, whole * tick, rem
    end

    -- remaining, retry after, reset at
    local remaining, retry_after, reset_at = 0, 0, at
    if debt <= cap then remaining = floor((cap - debt) / p) end
    if price > 0 and price <= cap and debt > cap - price then
        local room, fits_at = cap - price, whole + 1
        if room >= rem then fits_at = whole - floor((room - rem) / l) end
        fits_at = fits_at * tick
        local over = past(step, phase, fits_at)
        if over > 0 then fits_at = fits_at + step - over end
        retry_after = fits_at - real
    end
    if x > 0 then
        local full = x
        if y > 0 then full = full + tick end
        if step ~= 1 then
            local over = past(step, phase, full)
            if over > 0 then full = full + step - over end
        end
        if full > at then reset_at = full end
    end
    return after, answer, remaining, retry_after, reset_at, x, at, x, y, 0
end
