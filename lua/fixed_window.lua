-- One count per window. Mirrors src/algorithm/fixed_window.rs.
--
-- Quota: limit period aligned (1: windows at multiples of the period; 0: opened by the first admitted request).
-- Account: at, x = start, y = count. A reading is the account as it would be written now.

local function fixed_window()
    local function heal(account, quota, real)
        if not stepped_back(account.at, real) then return false end
        local step = account.at - real
        if quota.aligned == 1 then
            step = floor_to(quota.period, 0, account.at) - floor_to(quota.period, 0, real)
        end
        account.x = max(account.x - step, 0)
        account.at = real
        return true
    end

    local function read(account, quota, real)
        local now = max(real, account.at)
        if account.y > 0 and now < account.x + quota.period then
            return { at = now, x = account.x, y = account.y }
        end
        local start = now
        if quota.aligned == 1 then start = floor_to(quota.period, 0, now) end
        return { at = now, x = start, y = 0 }
    end

    local function answer(reading, quota, cost)
        return counted(reading.y, cost, quota.limit)
    end

    local function reset_at(account, quota)
        if account.y == 0 then return account.at end
        return account.x + quota.period
    end

    local function remaining(reading, quota)
        return max(quota.limit - reading.y, 0)
    end

    local function retry_after(reading, quota, real, cost)
        if answer(reading, quota, cost) ~= REFUSES then return 0 end
        return max(reading.x + quota.period - real, 0)
    end

    local function charge(account, reading, _, _, cost)
        reading.y = reading.y + cost
        account.at, account.x, account.y = reading.at, reading.x, reading.y
        -- The window, and whether the charge opened it.
        if reading.y == cost then return 2 * reading.x + 1 end
        return 2 * reading.x
    end

    local function give_back(account, quota, real, cost, mark)
        local reading = read(account, quota, real)
        local opener = mark % 2 == 1 and quota.aligned == 0
        if reading.y > 0 and reading.x == floor(mark / 2) and (not opener or reading.y <= cost) then
            account.at, account.x, account.y = reading.at, reading.x, max(reading.y - cost, 0)
        end
    end

    return {
        heal = heal, read = read, answer = answer, remaining = remaining, retry_after = retry_after,
        reset_at = reset_at, charge = charge, give_back = give_back,
    }
end
