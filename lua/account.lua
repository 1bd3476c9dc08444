-- What every algorithm needs. Mirrors src/algorithm/account.rs and src/algorithm/grid.rs.
--
-- All times are whole microseconds since the epoch, all numbers whole and below 2^53: exact in doubles. `real` is what
-- the server's clock shows; an account's own clock never runs back.

local floor = math.floor

-- Answers.
local ADMITS, REFUSES, NEVER_FITS = 0, 1, 2

-- Totals wrap here; nothing larger is ever stored.
local WRAP = 9007199254740992

local function max(one, other)
    if one > other then return one end
    return other
end

local function min(one, other)
    if one < other then return one end
    return other
end

-- How far `time` is past the last of the instants `phase + n * step`.
local function past(step, phase, time)
    if step == 1 then return 0 end
    return (time % step + step - phase) % step
end

-- The last of them at or before `time`.
local function floor_to(step, phase, time)
    return max(time - past(step, phase, time), 0)
end

-- The first of them at or after `time`.
local function ceil_to(step, phase, time)
    local over = past(step, phase, time)
    if over == 0 then return time end
    return time + step - over
end

-- Whether a clock that shows `real` has stepped back, for an account last written at `at`: small steps are sat out.
local function stepped_back(at, real)
    return at - real > 1000000
end

-- The answer of an algorithm that counts.
local function counted(count, cost, limit)
    if cost == 0 then return ADMITS end
    if cost > limit then return NEVER_FITS end
    if cost > limit - count then return REFUSES end
    return ADMITS
end
