-- The token bucket, smooth or in steps. Mirrors src/algorithm/token_bucket.rs.
--
-- Quota: l p cap tick. Letter 't': refilled with every tick; 's': at phase + n * step, with two numbers more: step phase.
-- Account: at, x = whole (microseconds), y = rem (units of 1/l tick).

local function token_bucket(letter)
    local function new(account, cost, cursor)
        local tick = tonumber(ARGV[cursor + 3])
        local step, phase, after = tick, 0, cursor + 4
        if letter == 's' then
            step, phase, after = tonumber(ARGV[cursor + 4]), tonumber(ARGV[cursor + 5]), cursor + 6
        end
        return {
            account = account, cost = cost, answer = 0, mark = 0, algorithm = false,
            l = tonumber(ARGV[cursor]), p = tonumber(ARGV[cursor + 1]), cap = tonumber(ARGV[cursor + 2]),
            tick = tick, step = step, phase = phase,
            now = 0, refill = 0, whole = 0, rem = 0, debt = 0,
        }, after
    end

    local function heal(charge, account, real)
        if not stepped_back(account.at, real) then return false end
        local step, phase = charge.step, charge.phase
        local moved = account.at - past(step, phase, account.at) - (real - past(step, phase, real))
        account.at, account.x = real, account.x - moved
        return true
    end

    local function read(charge, account, real)
        local l, cap, tick = charge.l, charge.cap, charge.tick
        local now = account.at
        if now < real then now = real end
        local refill = now - past(charge.step, charge.phase, now)
        local whole, rem = account.x, account.y
        if tick ~= 1 then
            refill, whole = floor(refill / tick), floor((whole + tick - 1) / tick)
        end
        if rem > l - 1 then rem = l - 1 end
        if whole < refill then whole, rem = refill, 0 end
        local missing = whole - refill
        charge.debt = cap + 1
        if missing <= floor(cap / l) + 1 then charge.debt = missing * l + rem end
        charge.now, charge.refill, charge.whole, charge.rem = now, refill, whole, rem
    end

    local function answer(charge)
        local price = charge.cost * charge.p
        if price == 0 then return ADMITS end
        if price > charge.cap then return NEVER_FITS end
        if charge.debt > charge.cap - price then return REFUSES end
        return ADMITS
    end

    local function reset_at(charge, account)
        local full = account.x
        if full == 0 then return account.at end
        if account.y > 0 then full = full + charge.tick end
        local over = past(charge.step, charge.phase, full)
        if over > 0 then full = full + charge.step - over end
        if full < account.at then return account.at end
        return full
    end

    local function remaining(charge)
        if charge.debt > charge.cap then return 0 end
        return floor((charge.cap - charge.debt) / charge.p)
    end

    local function retry_after(charge, real)
        if answer(charge) ~= REFUSES then return 0 end
        local room, fits_at = charge.cap - charge.cost * charge.p, charge.whole + 1
        if room >= charge.rem then fits_at = charge.whole - floor((room - charge.rem) / charge.l) end
        fits_at = fits_at * charge.tick
        local over = past(charge.step, charge.phase, fits_at)
        if over > 0 then fits_at = fits_at + charge.step - over end
        return fits_at - real
    end

    -- Writes the account as it stands now, with another debt.
    local function owe(charge, account, debt)
        charge.debt, charge.whole, charge.rem = debt, charge.refill + floor(debt / charge.l), debt % charge.l
        account.at, account.x, account.y = charge.now, charge.whole * charge.tick, charge.rem
    end

    local function take(charge, account)
        owe(charge, account, charge.debt + charge.cost * charge.p)
        return account.x
    end

    local function give_back(charge, account, mark)
        local weighs = (floor(mark / charge.tick) - charge.refill) * charge.l
        local given = math.min(weighs, charge.cost * charge.p, charge.debt)
        if given <= 0 or charge.debt > charge.cap then return false end
        owe(charge, account, charge.debt - given)
        return true
    end

    return {
        new = new, heal = heal, read = read, answer = answer, remaining = remaining, retry_after = retry_after,
        reset_at = reset_at, take = take, give_back = give_back,
    }
end
