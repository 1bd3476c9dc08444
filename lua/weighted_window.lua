-- The current window's count, and the previous one's weighted by its overlap. Mirrors src/algorithm/weighted_window.rs.
--
-- Quota: limit period tick.
-- Account: at, x = start, y = count, z = previous. A reading is the account as it would be written now.

local function weighted_window()
    local function heal(account, quota, real)
        if not stepped_back(account.at, real) then return false end
        local step = floor_to(quota.period, 0, account.at) - floor_to(quota.period, 0, real)
        account.x = max(account.x - step, 0)
        account.at = real
        return true
    end

    local function read(account, quota, real)
        local now = max(real, account.at)
        local start = floor_to(quota.period, 0, now)
        local count, previous = 0, 0
        if start <= account.x then
            count, previous = account.y, account.z
        elseif start - account.x == quota.period then
            previous = account.y
        end
        return { at = now, x = start, y = count, z = previous }
    end

    local function remaining(reading, quota)
        local window = floor(quota.period / quota.tick)
        local elapsed = floor((reading.at - reading.x) / quota.tick)
        local weighted = reading.z * (window - elapsed)
        local spent = floor((weighted + window - 1) / window) + reading.y
        return max(quota.limit - spent, 0)
    end

    local function answer(reading, quota, cost)
        if cost == 0 then return ADMITS end
        if cost > quota.limit then return NEVER_FITS end
        if cost > remaining(reading, quota) then return REFUSES end
        return ADMITS
    end

    local function reset_at(account, quota)
        if account.y > 0 then return account.x + 2 * quota.period end
        if account.z > 0 then return account.x + quota.period end
        return account.at
    end

    local function retry_after(reading, quota, real, cost)
        if answer(reading, quota, cost) ~= REFUSES then return 0 end
        -- In this window the previous count must lose weight; if that is not enough, in the next one this count.
        local start, weighing, room = reading.x, reading.z, quota.limit - reading.y - cost
        if room < 0 then
            start, weighing, room = reading.x + quota.period, reading.y, quota.limit - cost
        end
        local window = floor(quota.period / quota.tick)
        local part = floor(room * window / max(weighing, 1))
        return max(start + max(window - part, 0) * quota.tick - real, 0)
    end

    local function charge(account, reading, _, _, cost)
        reading.y = reading.y + cost
        account.at, account.x, account.y, account.z = reading.at, reading.x, reading.y, reading.z
        return account.x
    end

    local function give_back(account, quota, real, cost, mark)
        local reading = read(account, quota, real)
        if reading.x == mark then
            reading.y = max(reading.y - cost, 0)
        elseif reading.x - quota.period == mark then
            reading.z = max(reading.z - cost, 0)
        else
            return
        end
        account.at, account.x, account.y, account.z = reading.at, reading.x, reading.y, reading.z
    end

    return {
        heal = heal, read = read, answer = answer, remaining = remaining, retry_after = retry_after,
        reset_at = reset_at, charge = charge, give_back = give_back,
    }
end
