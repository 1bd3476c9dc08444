-- What every algorithm needs. Mirrors src/algorithm/account.rs and src/algorithm/grid.rs.
--
-- All times are whole microseconds since the epoch, all numbers whole and below 2^53: exact in doubles. `real` is what the
-- server's clock shows; an account's own clock never runs back.
--
-- A script is run from its first line in every call, so functions and tables are made anew each time, and that is most of
-- what it costs. Therefore an algorithm is one function, an account is numbers handed in and out, and nothing is
-- made that most calls do not need.

local floor, format, find, match, sub = math.floor, string.format, string.find, string.match, string.sub

-- Answers.
local ADMITS, REFUSES, NEVER_FITS = 0, 1, 2

-- What is done with a charge: asked about only; taken, if it is admitted; or given back.
local LOOK, TAKE, GIVE_BACK = 0, 1, 2

-- Totals wrap here; nothing larger is ever stored.
local WRAP = 9007199254740992

-- A clock that shows less than an account's by more than this has stepped back; smaller steps are sat out.
local PATIENCE = 1000000

local real, slack
if ARGV[1] == '' then
    local time = redis.call('TIME')
    real, slack = time[1] * 1000000 + time[2], 0
else
    real, slack = match(ARGV[1], '^(%d+),(%d+)$')
    real, slack = real + 0, slack + 0
end

-- How far `time` is past the last of the instants `phase + n * step`.
local function past(step, phase, time)
    return (time % step + step - phase) % step
end
