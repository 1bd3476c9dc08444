-- Decides on requests, each all or nothing, in one call. See README.md for the calling convention.
--
-- KEYS   every Redis key that is touched
-- ARGV   '' for the server's clock, or for tests "now,slack": the time, and milliseconds added to every TTL
--        then for each request the number of its charges, negative to give back, and for each of them
--        id (the first letter is the algorithm), index into KEYS, cost, the numbers of the quota; to give back also mark
--        and born
-- reply  now, how many values were healed, then for each charge: answer, remaining, retry_after, reset_after, mark, born
--
-- Mirrors src/store/memory/mod.rs.

local real, slack = match(ARGV[1], '^(%d+),(%d+)$')
if real then
    real, slack = tonumber(real), tonumber(slack)
else
    local time = redis.call('TIME')
    real, slack = time[1] * 1000000 + time[2], 0
end

if not ARGV[2] then
    -- Nothing is asked but whether all is well. On a 32-bit server, `%d` would not be.
    if format('%d', WRAP - 1) ~= '9007199254740991' then return redis.error_reply('ERR numbers are too short') end
    return { real, 0 }
end

local function load(letter)
    if letter == 't' or letter == 's' then return token_bucket(letter) end
    if letter == 'f' or letter == 'o' then return fixed_window(letter) end
    if letter == 'w' then return weighted_window() end
    return trail()
end

local loaded, opened, trails, is_dirty = {}, {}, {}, {}
local reply, healed = { real, 0 }, 0
local values = redis.call('MGET', spread(KEYS, 1))

-- The account of a charge, which may be a new one.
local function open(algorithm, id, index)
    if algorithm.open then
        local account = trails[index]
        if not account then
            account = algorithm.open(KEYS[index], real)
            account.index, trails[index] = index, account
        end
        return account
    end
    local accounts = opened[index]
    if not accounts then
        accounts = {}
        local value = values[index]
        if value then
            accounts = parse(value, KEYS[index], real)
            if not accounts then
                accounts, is_dirty[index], healed = {}, true, healed + 1
            end
        end
        opened[index] = accounts
    end
    local account = accounts[id]
    if not account then
        account = { index = false, is_over = false, at = 0, reset_at = 0, born = 0, x = 0, y = 0, z = 0 }
        accounts[id] = account
    end
    account.index = index
    return account
end

-- Marks an account to be written.
local function touch(charge, account)
    is_dirty[account.index] = true
    if account.born == 0 then account.born = real end
    account.reset_at = charge.algorithm.reset_at(charge, account)
end

-- Follows a clock that stepped back, the one thing that is written even on a refusal; then reads.
local function read(charge)
    local account, algorithm = charge.account, charge.algorithm
    local is_healed = algorithm.heal(charge, account, real)
    if is_healed then
        account.born = real
        touch(charge, account)
    end
    algorithm.read(charge, account, real)
    return is_healed
end

local function tell(charge, answer)
    local account, algorithm, size = charge.account, charge.algorithm, #reply
    local reset_after = algorithm.reset_at(charge, account) - real
    if reset_after < 0 then reset_after = 0 end
    reply[size + 1], reply[size + 2] = answer, algorithm.remaining(charge)
    reply[size + 3], reply[size + 4] = algorithm.retry_after(charge, real), reset_after
    reply[size + 5], reply[size + 6] = charge.mark, account.born
end

local function give_back(charge, mark, born)
    local account, algorithm = charge.account, charge.algorithm
    if not read(charge) and account.born == born then
        if algorithm.give_back(charge, account, mark) then
            -- The marks of other charges say nothing certain from now on.
            account.born = math.max(born + 1, real)
        end
        touch(charge, account)
        account.is_over = account.reset_at <= real
        algorithm.read(charge, account, real)
    end
    charge.cost = 0
    tell(charge, ADMITS)
end

local cursor = 2
while ARGV[cursor] do
    local count, charges, is_admitted = tonumber(ARGV[cursor]), {}, true
    local gives_back = count < 0
    if gives_back then count = -count end
    cursor = cursor + 1
    for nth = 1, count do
        local id, index = ARGV[cursor], tonumber(ARGV[cursor + 1])
        local letter = string.sub(id, 1, 1)
        local algorithm = loaded[letter]
        if not algorithm then
            algorithm = load(letter)
            loaded[letter] = algorithm
        end
        local charge
        charge, cursor = algorithm.new(open(algorithm, id, index), tonumber(ARGV[cursor + 2]), cursor + 3)
        charge.algorithm = algorithm
        if gives_back then
            give_back(charge, tonumber(ARGV[cursor]), tonumber(ARGV[cursor + 1]))
            cursor = cursor + 2
        else
            read(charge)
            charge.answer = algorithm.answer(charge)
            if charge.answer ~= ADMITS then is_admitted = false end
            charges[nth] = charge
        end
    end
    for nth = 1, #charges do
        local charge = charges[nth]
        if is_admitted and charge.cost > 0 then
            charge.mark = charge.algorithm.take(charge, charge.account)
            touch(charge, charge.account)
        end
        tell(charge, charge.answer)
    end
end

for index, account in pairs(trails) do
    local is_healed = account.is_healed or account.is_corrupt
    if is_healed then healed = healed + 1 end
    if is_healed or is_dirty[index] then loaded.r.write(account, real, slack) end
end
for index, accounts in pairs(opened) do
    if is_dirty[index] then write_accounts(accounts, KEYS[index], real, slack) end
end
reply[2] = healed
return reply
