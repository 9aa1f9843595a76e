-- The gateways that were heard of: KEYS[1] keeps for each when it was heard of
-- last and first. ARGV[1] is the gateway's name, ARGV[2] is alive or leaves.
-- Returns how many are alive, and how many have gone silent without taking leave
-- in the last minute, less those that came in that minute: they took the places.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local patience, memory = 3000000, 60000000
if ARGV[2] == 'leaves' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  local was = redis.call('HGET', KEYS[1], ARGV[1])
  local first = was and was:match(' (%d+)') or string.format('%.0f', now)
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now) .. ' ' .. first)
end
redis.call('PEXPIRE', KEYS[1], 2 * memory / 1000)
local live, silent, oldest, new = 0, {}, now, 0
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local last = tonumber(flat[i + 1]:match('^%d+'))
  if now - last < patience then
    live = live + 1
  elseif now - last < memory then
    table.insert(silent, last)
    oldest = math.min(oldest, last)
  else
    redis.call('HDEL', KEYS[1], flat[i])
  end
end
for i = 1, #flat, 2 do
  local last, first = flat[i + 1]:match('^(%d+) (%d+)')
  if now - last < patience and tonumber(first) > oldest then new = new + 1 end
end
return {live, math.max(0, #silent - new)}
