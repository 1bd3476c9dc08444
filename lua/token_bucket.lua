-- The token bucket, smooth or in steps. Mirrors src/algorithm/token_bucket.rs.
--
-- Quota: burst l p cap tick step phase (the rate, reduced; refills are at phase + n * step).
-- Account: at, x = whole (microseconds), y = rem (units of 1/l tick).

local function token_bucket()
    local function heal(account, quota, real)
        if not stepped_back(account.at, real) then return false end
        local step, phase = quota.step, quota.phase
        account.x = max(account.x - (floor_to(step, phase, account.at) - floor_to(step, phase, real)), 0)
        account.at = real
        return true
    end

    local function read(account, quota, real)
        local l, cap, tick = quota.l, quota.cap, quota.tick
        local now = max(real, account.at)
        local refill = floor_to(quota.step, quota.phase, now)
        local whole, rem = account.x, min(account.y, l - 1)
        if tick ~= 1 then
            refill = floor(refill / tick)
            whole = floor((whole + tick - 1) / tick)
        end
        if whole < refill then whole, rem = refill, 0 end
        local missing = whole - refill
        local debt
        if missing > floor(cap / l) + 1 then
            debt = cap + 1
        else
            debt = missing * l + rem
        end
        return { now = now, refill = refill, whole = whole, rem = rem, debt = debt }
    end

    local function answer(reading, quota, cost)
        if cost == 0 then return ADMITS end
        if cost > quota.burst then return NEVER_FITS end
        if reading.debt > quota.cap - cost * quota.p then return REFUSES end
        return ADMITS
    end

    local function reset_at(account, quota)
        if account.x == 0 then return account.at end
        local full = account.x
        if account.y > 0 then full = full + quota.tick end
        return max(ceil_to(quota.step, quota.phase, full), account.at)
    end

    local function remaining(reading, quota)
        return floor(max(quota.cap - reading.debt, 0) / quota.p)
    end

    local function retry_after(reading, quota, real, cost)
        if answer(reading, quota, cost) ~= REFUSES then return 0 end
        local room = quota.cap - cost * quota.p
        local fits_at
        if room >= reading.rem then
            fits_at = max(reading.whole - floor((room - reading.rem) / quota.l), 0)
        else
            fits_at = reading.whole + 1
        end
        return max(ceil_to(quota.step, quota.phase, fits_at * quota.tick) - real, 0)
    end

    -- The same instant with another debt.
    local function owe(reading, quota, debt)
        reading.debt = debt
        reading.whole = reading.refill + floor(debt / quota.l)
        reading.rem = debt % quota.l
    end

    local function write(account, reading, quota)
        account.at, account.x, account.y = reading.now, reading.whole * quota.tick, reading.rem
    end

    local function charge(account, reading, quota, _, cost)
        owe(reading, quota, reading.debt + cost * quota.p)
        write(account, reading, quota)
        return account.x
    end

    local function give_back(account, quota, real, cost, mark)
        local reading = read(account, quota, real)
        local weighs = max(floor(mark / quota.tick) - reading.refill, 0) * quota.l
        local given = min(min(weighs, cost * quota.p), reading.debt)
        if given == 0 or reading.debt > quota.cap then return false end
        owe(reading, quota, reading.debt - given)
        write(account, reading, quota)
        return true
    end

    return {
        heal = heal, read = read, answer = answer, remaining = remaining, retry_after = retry_after,
        reset_at = reset_at, charge = charge, give_back = give_back,
    }
end
