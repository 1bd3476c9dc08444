-- Decides on requests, each all or nothing, in one call. See README.md for the calling convention.
--
-- KEYS   every Redis key that is touched
-- ARGV   '' for the server's clock, or for tests "now,slack": the time, and milliseconds added to every TTL
--        then for each request the number of its charges, negative to give back, and for each of them
--        id (the first letter is the algorithm), index into KEYS, cost, to give back also mark and born, then
--        the numbers of the quota
-- reply  now, how many values were healed, then for each charge: answer, remaining, retry_after, reset_after, mark, born
--
-- Mirrors src/store/memory/mod.rs.

if not ARGV[2] then
    -- Nothing is asked but whether all is well: that all is allowed which is used, that this is no replica, which writes
    -- nothing, and that `%d` is long enough, as it is not on a 32-bit server. Want of memory is no lasting obstacle.
    local key = KEYS[1]
    local commands = {
        { 'MGET', key }, { 'PTTL', key }, { 'SET', key, '', 'PX', '1' }, { 'DEL', key },
        { 'HSET', key, 'h', '' }, { 'PEXPIRE', key, '1' }, { 'HGET', key, 'h' }, { 'HDEL', key, 'h' },
    }
    for _, command in ipairs(commands) do
        local done = redis.pcall(spread(command, 1))
        if type(done) == 'table' and done.err and not find(done.err, 'OOM', 1, true) then return done end
    end
    if format('%d', WRAP - 1) ~= '9007199254740991' then return redis.error_reply('ERR numbers are too short') end
    return { real, 0 }
end

local reply, told, healed = { real, 0 }, 2, 0
-- Strings by the index of their key, and when the last account in each resets; those with a time are to be written.
-- `pending` are those that the request at hand leaves if it is admitted.
local values, resets, pending, pending_resets = redis.call('MGET', spread(KEYS, 1)), {}, {}, {}
-- The same for trails.
local algorithm_of_trails, trails = nil, nil

local function open_trail(index)
    if not trails then algorithm_of_trails, trails = trail(), {} end
    local account = trails[index]
    if not account then
        account = algorithm_of_trails.open(KEYS[index])
        trails[index] = account
    end
    return account
end

-- Tells of one charge, and leaves pending what is to be written of it; where the next one begins, and the answer.
local function decide(cursor, does)
    local id, index, cost, mark = ARGV[cursor], ARGV[cursor + 1] + 0, ARGV[cursor + 2] + 0, 0
    local letter = sub(id, 1, 1)
    local gives_back, is_trail = does == GIVE_BACK, letter == 'r'
    cursor = cursor + 3

    local account, at, born, x, y, z, others, latest
    if is_trail then
        account = open_trail(index)
        at, born = account.at, account.born
    else
        at, born, x, y, z, others, latest = extract(pending[index] or values[index] or '', id, KEYS[index])
        if not at then
            values[index], resets[index], healed = '', 0, healed + 1
            at, born, x, y, z, others, latest = 0, 0, 0, 0, 0, '', 0
        end
    end
    local is_healed = at - real > PATIENCE
    if gives_back then
        mark = ARGV[cursor] + 0
        -- Of another life of the account nothing can be given back.
        if is_healed or born ~= ARGV[cursor + 1] + 0 then does, cost = LOOK, 0 end
        cursor = cursor + 2
    end
    if is_healed then born = real end

    local after, answer, remaining, retry_after, reset_at
    local x_before, y_before = x, y
    if letter == 't' or letter == 's' then
        after, answer, remaining, retry_after, reset_at, mark, at, x, y, z =
            token_bucket(cursor, letter, cost, does, mark, at, x, y)
    elseif is_trail then
        after, answer, remaining, retry_after, reset_at, mark =
            algorithm_of_trails.decide(account, cursor, cost, does, mark)
    elseif letter == 'w' then
        after, answer, remaining, retry_after, reset_at, mark, at, x, y, z =
            weighted_window(cursor, cost, does, mark, at, x, y, z)
    else
        after, answer, remaining, retry_after, reset_at, mark, at, x, y, z =
            fixed_window(cursor, letter, cost, does, mark, at, x, y)
    end

    local is_taken = does == TAKE and answer == ADMITS and cost > 0
    if is_taken and born == 0 then born = real end
    if not is_trail and (is_taken or is_healed or does == GIVE_BACK) then
        if does == GIVE_BACK and (letter == 't' or letter == 's') and (x ~= x_before or y ~= y_before) then
            -- The marks of a bucket's other charges say nothing certain from now on.
            born = math.max(born + 1, real)
        end
        if latest < reset_at then latest = reset_at end
        pending[index], pending_resets[index] = written(id, reset_at, born, at, x, y, z) .. others, latest
    end

    if gives_back then answer = ADMITS end
    if not is_taken then mark = 0 end
    local reset_after = 0
    if reset_at > real then reset_after = reset_at - real end
    reply[told + 1], reply[told + 2], reply[told + 3] = answer, remaining, retry_after
    reply[told + 4], reply[told + 5], reply[told + 6] = reset_after, mark, born
    told = told + 6
    return after, answer
end

-- Goes through the charges of a request; where the next one begins. Nothing if they were to be taken, but are not.
local function decide_all(cursor, count, does)
    local answer
    for _ = 1, count do
        cursor, answer = decide(cursor, does)
        if does == TAKE and answer ~= ADMITS then return nil end
    end
    return cursor
end

local cursor = 2
while ARGV[cursor] do
    local count, first, told_before = ARGV[cursor] + 0, cursor + 1, told
    if count < 0 then
        cursor = decide_all(first, -count, GIVE_BACK)
    else
        cursor = decide_all(first, count, TAKE)
        if not cursor then
            told, pending, pending_resets = told_before, {}, {}
            cursor = decide_all(first, count, LOOK)
        end
    end
    for index = 1, #KEYS do
        if pending[index] then
            values[index], resets[index], pending[index] = pending[index], pending_resets[index], nil
        end
        local account = trails and trails[index]
        if account and account.taken then algorithm_of_trails.take(account, account.taken) end
    end
end

for index = 1, #KEYS do
    local account = trails and trails[index]
    if account then
        if account.is_healed then healed = healed + 1 end
        if account.is_healed or account.is_dirty then algorithm_of_trails.write(account) end
    elseif resets[index] then
        if values[index] == '' then
            redis.call('DEL', KEYS[index])
        else
            redis.call('SET', KEYS[index], values[index], 'PX', ttl(resets[index]))
        end
    end
end
reply[2] = healed
return reply
