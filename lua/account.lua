-- What every algorithm needs. Mirrors src/algorithm/account.rs and src/algorithm/grid.rs.
--
-- All times are whole microseconds since the epoch, all numbers whole and below 2^53: exact in doubles. `real` is what
-- the server's clock shows; an account's own clock never runs back.
--
-- A `charge` is a table of the quota's numbers, the cost, and, once it was read, the account as it stands now; an
-- `account` is what is kept. One table each, made with all its fields at once, because tables and their growth are most of
-- what a script costs. For the same reason an algorithm is a function that makes its functions: they are made anew in every
-- call, so only where they are needed.

local floor, format, find, match, tonumber = math.floor, string.format, string.find, string.match, tonumber

-- Answers.
local ADMITS, REFUSES, NEVER_FITS = 0, 1, 2

-- Totals wrap here; nothing larger is ever stored.
local WRAP = 9007199254740992

-- How far `time` is past the last of the instants `phase + n * step`.
local function past(step, phase, time)
    if step == 1 then return 0 end
    return (time % step + step - phase) % step
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
