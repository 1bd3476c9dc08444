-- One count per window. Mirrors src/algorithm/fixed_window.rs.
--
-- Quota: limit period. Letter 'f': windows at multiples of the period; 'o': opened by the first admitted request.
-- Account: at, x = start, y = count.

local function fixed_window(letter)
    local is_aligned = letter == 'f'

    local function new(account, cost, cursor)
        return {
            account = account, cost = cost, answer = 0, mark = 0, algorithm = false,
            limit = tonumber(ARGV[cursor]), period = tonumber(ARGV[cursor + 1]),
            now = 0, start = 0, count = 0,
        }, cursor + 2
    end

    local function heal(charge, account, real)
        if not stepped_back(account.at, real) then return false end
        local moved = account.at - real
        if is_aligned then moved = moved - account.at % charge.period + real % charge.period end
        account.at, account.x = real, account.x - moved
        return true
    end

    local function read(charge, account, real)
        local now = account.at
        if now < real then now = real end
        charge.now, charge.start, charge.count = now, account.x, account.y
        if account.y == 0 or now >= account.x + charge.period then
            charge.start, charge.count = now, 0
            if is_aligned then charge.start = now - now % charge.period end
        end
    end

    local function answer(charge)
        return counted(charge.count, charge.cost, charge.limit)
    end

    local function reset_at(charge, account)
        if account.y == 0 then return account.at end
        return account.x + charge.period
    end

    local function remaining(charge)
        if charge.count > charge.limit then return 0 end
        return charge.limit - charge.count
    end

    local function retry_after(charge, real)
        if answer(charge) ~= REFUSES then return 0 end
        return charge.start + charge.period - real
    end

    local function take(charge, account)
        charge.count = charge.count + charge.cost
        account.at, account.x, account.y = charge.now, charge.start, charge.count
        -- The window, and whether the charge opened it.
        if charge.count == charge.cost then return 2 * charge.start + 1 end
        return 2 * charge.start
    end

    local function give_back(charge, account, mark)
        local is_opener = mark % 2 == 1 and not is_aligned
        if charge.count == 0 or charge.start ~= floor(mark / 2) or (is_opener and charge.count > charge.cost) then
            return false
        end
        charge.count = math.max(charge.count - charge.cost, 0)
        account.at, account.x, account.y = charge.now, charge.start, charge.count
        return false
    end

    return {
        new = new, heal = heal, read = read, answer = answer, remaining = remaining, retry_after = retry_after,
        reset_at = reset_at, take = take, give_back = give_back,
    }
end
