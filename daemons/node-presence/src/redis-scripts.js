// The Lua scripts of the Redis store. Each is one round trip, and nothing comes between its commands.
//
// presence:seen       sorted set: "<connId> <roomId>" by the time of the last heartbeat in milliseconds
// presence:room:<R>   hash: connId to the member as JSON
// presence:seq:<R>    number of the room's last event; removed with the last member
'use strict';

const { defineScript } = require('redis');

const REMOVE = `
local function remove(conn, room)
  local key, seq = 'presence:room:' .. room, 'presence:seq:' .. room
  local member = redis.call('HGET', key, conn)
  redis.call('ZREM', 'presence:seen', conn .. ' ' .. room)
  if not member then return nil end
  redis.call('HDEL', key, conn)
  local number = redis.call('INCR', seq)
  if redis.call('EXISTS', key) == 0 then redis.call('DEL', seq) end
  return { conn, room, member, number }
end
`;

/** Returns { seq, members and their times, expired members }. */
const JOIN = `${REMOVE}
local conn, room, member, now, cutoff = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local key = 'presence:room:' .. room
local expired = {}
for _, other in ipairs(redis.call('HKEYS', key)) do
  local seen = redis.call('ZSCORE', 'presence:seen', other .. ' ' .. room)
  if not seen or tonumber(seen) <= cutoff then table.insert(expired, remove(other, room)) end
end
redis.call('HSET', key, conn, member)
redis.call('ZADD', 'presence:seen', now, conn .. ' ' .. room)
local number = redis.call('INCR', 'presence:seq:' .. room)
local members, entries = redis.call('HGETALL', key), {}
for i = 1, #members, 2 do
  local seen = redis.call('ZSCORE', 'presence:seen', members[i] .. ' ' .. room)
  table.insert(entries, { members[i], members[i + 1], seen })
end
return { number, entries, expired }
`;

/** Returns the number of the event, 0 if there is none, or -1 if the member is not there. */
const HEARTBEAT = `
local conn, room, member, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = 'presence:room:' .. room
if redis.call('ZADD', 'presence:seen', 'XX', 'CH', now, conn .. ' ' .. room) == 0
  and redis.call('HEXISTS', key, conn) == 0 then return -1 end
if member == '' then return 0 end
redis.call('HSET', key, conn, member)
return redis.call('INCR', 'presence:seq:' .. room)
`;

/** Returns the removed member, or nothing. */
const LEAVE = `${REMOVE} return remove(ARGV[1], ARGV[2])`;

/** Returns the removed members, at most a thousand at a time so that no other command waits for long. */
const EXPIRE = `${REMOVE}
local expired = {}
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', 'presence:seen', '-inf', ARGV[1], 'LIMIT', 0, 1000)) do
  local space = string.find(entry, ' ', 1, true)
  local removed = remove(string.sub(entry, 1, space - 1), string.sub(entry, space + 1))
  if removed then table.insert(expired, removed) end
end
return expired
`;

function script(text) {
  return defineScript({
    SCRIPT: text,
    NUMBER_OF_KEYS: 0,
    parseCommand: (parser, ...values) => parser.push(...values.map(String)),
    transformReply: undefined,
  });
}

module.exports = {
  scripts: {
    presenceJoin: script(JOIN),
    presenceHeartbeat: script(HEARTBEAT),
    presenceLeave: script(LEAVE),
    presenceExpire: script(EXPIRE),
  },
};
