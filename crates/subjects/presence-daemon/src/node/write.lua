-- Carries out writes. ARGV: node, TTL in ms, then for each write its letter, its room and its arguments.
-- Returns the time in microseconds, and an answer for each write.
local ttl = tonumber(ARGV[2])
local prefix = node .. ' ' .. now .. ' '
local answers = {tonumber(now_us)}

-- Removes the members of a room that are past their TTL, and returns the others as a list of ids and values.
local function living(room)
  local found = redis.call('HGETALL', members_key(room))
  local list = {}
  for at = 1, #found, 2 do
    local conn, value = found[at], found[at + 1]
    local owner, seen, rest = split(value)
    if tonumber(seen) + ttl <= tonumber(now) then
      redis.call('HDEL', members_key(room), conn)
      number(room, 'le', conn, rest, true)
      count_out(room, owner)
    else
      list[#list + 1] = conn
      list[#list + 1] = value
    end
  end
  return list
end

local writes = {}

-- join or resume: id, member, kind if the member is known already
function writes.J(room, at)
  local conn, rest, kind = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  -- First, so that the room is never empty meanwhile.
  if redis.call('HSET', members_key(room), conn, prefix .. rest) == 1 then
    count_in(room, node)
    kind = 'j-'
  end
  local snapshot = living(room)
  local previous = last(room)
  local seq = previous
  if kind ~= '--' then seq = number(room, kind, conn, rest, false) end
  return {previous, seq, kind, snapshot}, 3
end

-- update: id, member
function writes.U(room, at)
  local conn, rest = ARGV[at], ARGV[at + 1]
  if redis.call('HSET', members_key(room), conn, prefix .. rest) == 1 then
    redis.call('HDEL', members_key(room), conn)
    return 0, 2
  end
  return number(room, 'u-', conn, rest, false), 2
end

-- touch: id, member
function writes.T(room, at)
  local conn, rest = ARGV[at], ARGV[at + 1]
  if redis.call('HSET', members_key(room), conn, prefix .. rest) == 1 then
    redis.call('HDEL', members_key(room), conn)
    return 0, 2
  end
  return 1, 2
end

-- leave: id, kind with reason
function writes.L(room, at)
  local conn, kind = ARGV[at], ARGV[at + 1]
  local value = redis.call('HGET', members_key(room), conn)
  if not value then return 0, 2 end
  local owner, _, rest = split(value)
  redis.call('HDEL', members_key(room), conn)
  local seq = number(room, kind, conn, rest, false)
  count_out(room, owner)
  return seq, 2
end

-- rejoin: the number to exceed
function writes.F(room, at)
  local previous = last(room)
  local seq = math.max(previous, tonumber(ARGV[at]))
  if seq > previous then
    redis.call('SET', seq_key(room), text(seq))
    emit(room, previous, seq, 'x-', '', '', false)
  end
  return {previous, seq, '--', redis.call('HGETALL', members_key(room))}, 1
end

-- restore: id, member
function writes.P(room, at)
  local conn, rest = ARGV[at], ARGV[at + 1]
  local value = redis.call('HGET', members_key(room), conn)
  local _, old
  if value then
    _, _, old = split(value)
  else
    count_in(room, node)
  end
  redis.call('HSET', members_key(room), conn, prefix .. rest)
  local previous = last(room)
  local kind = '--'
  if not old then kind = 'j-' elseif old ~= rest then kind = 'u-' end
  if kind == '--' then return {previous, previous, kind}, 2 end
  return {previous, number(room, kind, conn, rest, false), kind}, 2
end

-- correct: the count of numbers
function writes.C(room, at)
  local seq = redis.call('INCRBY', seq_key(room), ARGV[at])
  local previous = seq - tonumber(ARGV[at])
  emit(room, previous, seq, 'x-', '', '', false)
  return {previous, seq, '--'}, 1
end

local at = 3
while at <= #ARGV do
  local answer, count = writes[ARGV[at]](ARGV[at + 1], at + 2)
  answers[#answers + 1] = answer
  at = at + 2 + count
end
publish()
return answers
