-- Extends this node's lease, and removes the members of dead nodes. ARGV: node, lease in ms, rooms at once.
-- Returns 1 if the lease had not passed, the number of members removed, and 1 if there are more.
local existed = redis.call('EXISTS', lease_key(node))
redis.call('SET', lease_key(node), now, 'PX', ARGV[2])
redis.call('SADD', 'presence:alive', node)
local removed, more = 0, 0

local function remove_all(room, dead)
  local mine = {}
  local found = redis.call('HGETALL', members_key(room))
  redis.call('HDEL', nodes_key(room), dead)
  for at = 1, #found, 2 do
    local owner, _, rest = split(found[at + 1])
    if owner == dead then
      redis.call('HDEL', members_key(room), found[at])
      number(room, 'ln', found[at], rest, true)
      removed = removed + 1
    end
  end
  remove_if_empty(room)
end

for _, other in ipairs(redis.call('SMEMBERS', 'presence:alive')) do
  if redis.call('EXISTS', lease_key(other)) == 0 then
    for _, room in ipairs(redis.call('SPOP', rooms_key(other), ARGV[3])) do
      remove_all(room, other)
    end
    if redis.call('EXISTS', rooms_key(other)) == 0 then
      redis.call('SREM', 'presence:alive', other)
    else
      more = 1
    end
  end
end
publish()
return {existed, removed, more}
