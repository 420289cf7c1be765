-- What the scripts share. Members are stored as NODE LAST_SEEN REST, where REST is opaque here.
local node = ARGV[1]
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
-- Events and answers have microseconds, which tell their order.
local now_us = string.format('%.0f', time[1] * 1000000 + time[2])
local outgoing = {}

local function members_key(room) return 'presence:members:' .. room end
local function nodes_key(room) return 'presence:nodes:' .. room end
local function seq_key(room) return 'presence:seq:' .. room end
local function rooms_key(owner) return 'presence:rooms:' .. owner end
local function lease_key(owner) return 'presence:lease:' .. owner end

local function text(number) return string.format('%.0f', number) end

-- Adds an event to the messages for the nodes that have members in the room.
local function emit(room, previous, seq, kind, conn, rest, to_self)
  local record
  for _, other in ipairs(redis.call('HKEYS', nodes_key(room))) do
    if to_self or other ~= node then
      record = record or table.concat({
        #room, text(previous), text(seq), now_us, kind, #conn, #rest .. '\n' .. room .. conn .. rest
      }, ' ')
      local list = outgoing[other]
      if list then list[#list + 1] = record else outgoing[other] = {record} end
    end
  end
end

-- Numbers an event and adds it to the messages.
local function number(room, kind, conn, rest, to_self)
  local seq = redis.call('INCR', seq_key(room))
  emit(room, seq - 1, seq, kind, conn, rest, to_self)
  return seq
end

local function last(room) return tonumber(redis.call('GET', seq_key(room)) or 0) end

local function remove_if_empty(room)
  if redis.call('EXISTS', members_key(room)) == 0 then
    redis.call('DEL', seq_key(room), nodes_key(room))
  end
end

local function count_in(room, owner)
  if redis.call('HINCRBY', nodes_key(room), owner, 1) == 1 then
    redis.call('SADD', rooms_key(owner), room)
  end
end

local function count_out(room, owner)
  if redis.call('HINCRBY', nodes_key(room), owner, -1) <= 0 then
    redis.call('HDEL', nodes_key(room), owner)
    redis.call('SREM', rooms_key(owner), room)
    remove_if_empty(room)
  end
end

local function split(value) return string.match(value, '^(%S+) (%d+) (.*)$') end

local function publish()
  for other, list in pairs(outgoing) do
    redis.call('PUBLISH', 'presence:node:' .. other, table.concat(list))
  end
end
