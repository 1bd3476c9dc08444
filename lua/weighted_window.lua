-- The current window's count, and the previous one's weighted by its overlap. Mirrors src/algorithm/weighted_window.rs.
--
-- Quota: limit period tick.
-- Account: at, x = start, y = count, z = previous.

local function weighted_window()
    local function new(account, cost, cursor)
        local period, tick = tonumber(ARGV[cursor + 1]), tonumber(ARGV[cursor + 2])
        return {
            account = account, cost = cost, answer = 0, mark = 0, algorithm = false,
            limit = tonumber(ARGV[cursor]), period = period, tick = tick, window = floor(period / tick),
            now = 0, start = 0, count = 0, previous = 0,
        }, cursor + 3
    end

    local function heal(charge, account, real)
        if not stepped_back(account.at, real) then return false end
        local moved = account.at - account.at % charge.period - (real - real % charge.period)
        account.at, account.x = real, account.x - moved
        return true
    end

    local function read(charge, account, real)
        local now = account.at
        if now < real then now = real end
        local start = now - now % charge.period
        charge.now, charge.start, charge.count, charge.previous = now, start, 0, 0
        if start <= account.x then
            charge.count, charge.previous = account.y, account.z
        elseif start - account.x == charge.period then
            charge.previous = account.y
        end
    end

    local function remaining(charge)
        local elapsed = floor((charge.now - charge.start) / charge.tick)
        local weighted = charge.previous * (charge.window - elapsed)
        local spent = floor((weighted + charge.window - 1) / charge.window) + charge.count
        if spent > charge.limit then return 0 end
        return charge.limit - spent
    end

    local function answer(charge)
        local cost = charge.cost
        if cost == 0 then return ADMITS end
        if cost > charge.limit then return NEVER_FITS end
        if cost > remaining(charge) then return REFUSES end
        return ADMITS
    end

    local function reset_at(charge, account)
        if account.y > 0 then return account.x + 2 * charge.period end
        if account.z > 0 then return account.x + charge.period end
        return account.at
    end

    local function retry_after(charge, real)
        if answer(charge) ~= REFUSES then return 0 end
        -- In this window the previous count must lose weight; if that is not enough, in the next one this count.
        local start, weighing, room = charge.start, charge.previous, charge.limit - charge.count - charge.cost
        if room < 0 then
            start, weighing, room = charge.start + charge.period, charge.count, charge.limit - charge.cost
        end
        local part = floor(room * charge.window / math.max(weighing, 1))
        return start + math.max(charge.window - part, 0) * charge.tick - real
    end

    local function write(charge, account)
        account.at, account.x, account.y, account.z = charge.now, charge.start, charge.count, charge.previous
    end

    local function take(charge, account)
        charge.count = charge.count + charge.cost
        write(charge, account)
        return charge.start
    end

    local function give_back(charge, account, mark)
        if charge.start == mark then
            charge.count = math.max(charge.count - charge.cost, 0)
            write(charge, account)
        elseif charge.start - charge.period == mark then
            charge.previous = math.max(charge.previous - charge.cost, 0)
            write(charge, account)
        end
        return false
    end

    return {
        new = new, heal = heal, read = read, answer = answer, remaining = remaining, retry_after = retry_after,
        reset_at = reset_at, take = take, give_back = give_back,
    }
end
