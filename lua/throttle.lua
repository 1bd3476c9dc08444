-- Decides on requests, each all or nothing, in one call. See README.md for the calling convention.
--
-- KEYS   every Redis key that is touched
-- ARGV   now ('' for the server's clock), slack (ms added to every TTL); both are for tests only
--        then for each request: 'charge' or 'give_back', the number of its charges, and for each of them
--        algorithm, index into KEYS, id, cost, the numbers of the quota, and to give back also: mark, born
-- reply  now, how many values were healed, then for each charge: answer, remaining, retry_after, reset_after, mark,
--        born
--
-- Mirrors src/store/memory/mod.rs.

local real = tonumber(ARGV[1])
if not real then
    local time = redis.call('TIME')
    real = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local slack = tonumber(ARGV[2])

local algorithms = { t = token_bucket, f = fixed_window, w = weighted_window, r = trail }
local numbers = {
    t = { 'burst', 'l', 'p', 'cap', 'tick', 'step', 'phase' },
    f = { 'limit', 'period', 'aligned' },
    w = { 'limit', 'period', 'tick' },
    r = { 'limit', 'width', 'kept' },
}
-- An algorithm's functions are made when a charge needs them, because they would be made anew for every call.
local loaded, opened = {}, {}
local values = KEYS[1] and redis.call('MGET', spread(KEYS, 1)) or {}

local function open(charge, index)
    if charge.letter == 'r' then
        opened[index] = opened[index] or open_trail(KEYS[index], real)
        charge.keeper, charge.account = opened[index], opened[index]
        return
    end
    opened[index] = opened[index] or open_string(KEYS[index], values[index], real)
    local accounts = opened[index].accounts
    accounts[charge.id] = accounts[charge.id] or { reset_at = 0, born = 0, at = 0, x = 0, y = 0, z = 0 }
    accounts[charge.id].is_asked = true
    charge.keeper, charge.account = opened[index], accounts[charge.id]
end

local cursor = 3

local function next_charge(gives_back)
    local letter = ARGV[cursor]
    local charge = { letter = letter, id = ARGV[cursor + 2], cost = tonumber(ARGV[cursor + 3]), quota = {}, mark = 0 }
    local index = tonumber(ARGV[cursor + 1])
    cursor = cursor + 4
    for _, name in ipairs(numbers[letter]) do
        charge.quota[name] = tonumber(ARGV[cursor])
        cursor = cursor + 1
    end
    if gives_back then
        charge.given_mark, charge.given_born = tonumber(ARGV[cursor]), tonumber(ARGV[cursor + 1])
        cursor = cursor + 2
    end
    loaded[letter] = loaded[letter] or algorithms[letter]()
    charge.algorithm = loaded[letter]
    open(charge, index)
    return charge
end

-- Marks an account to be written.
local function touch(charge)
    if charge.account.born == 0 then charge.account.born = real end
    charge.keeper.is_dirty = true
    charge.account.reset_at = charge.algorithm.reset_at(charge.account, charge.quota)
end

-- Follows a clock that stepped back; the one thing that is written even on a refusal.
local function heal(charge)
    if not charge.algorithm.heal(charge.account, charge.quota, real) then return false end
    charge.account.born = real
    touch(charge)
    return true
end

local reply = { real, 0 }

local function tell(charge, answer)
    local algorithm, account, reading, quota = charge.algorithm, charge.account, charge.reading, charge.quota
    local size = #reply
    reply[size + 1] = answer
    reply[size + 2] = algorithm.remaining(reading, quota)
    reply[size + 3] = algorithm.retry_after(reading, quota, real, charge.cost)
    reply[size + 4] = max(algorithm.reset_at(account, quota) - real, 0)
    reply[size + 5] = charge.mark
    reply[size + 6] = account.born
end

local function charge_all(charges)
    local is_admitted = true
    for _, charge in ipairs(charges) do
        heal(charge)
        charge.reading = charge.algorithm.read(charge.account, charge.quota, real)
        charge.answer = charge.algorithm.answer(charge.reading, charge.quota, charge.cost)
        is_admitted = is_admitted and charge.answer == ADMITS
    end
    for _, charge in ipairs(charges) do
        if is_admitted and charge.cost > 0 then
            charge.mark = charge.algorithm.charge(charge.account, charge.reading, charge.quota, real, charge.cost)
            touch(charge)
        end
        tell(charge, charge.answer)
    end
end

local function give_back_all(charges)
    for _, charge in ipairs(charges) do
        local algorithm, account, quota = charge.algorithm, charge.account, charge.quota
        if not heal(charge) and account.born == charge.given_born then
            if algorithm.give_back(account, quota, real, charge.cost, charge.given_mark) then
                -- The marks of other charges say nothing certain from now on.
                account.born = max(account.born + 1, real)
            end
            touch(charge)
            account.is_over = account.reset_at <= real
        end
        charge.reading, charge.cost = algorithm.read(account, quota, real), 0
        tell(charge, ADMITS)
    end
end

while ARGV[cursor] do
    local gives_back, charges = ARGV[cursor] == 'give_back', {}
    local count = tonumber(ARGV[cursor + 1])
    cursor = cursor + 2
    for nth = 1, count do charges[nth] = next_charge(gives_back) end
    if gives_back then give_back_all(charges) else charge_all(charges) end
end

for _, keeper in pairs(opened) do
    if keeper.is_corrupt then
        keeper.is_stale, keeper.is_dirty, healed = true, true, healed + 1
        keeper.low = keeper.next
    end
    if keeper.is_dirty then
        if keeper.entries then
            write_trail(keeper, real, slack)
        else
            write_string(keeper, real, slack)
        end
    end
end

reply[2] = healed
return reply
