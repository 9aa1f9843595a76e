-- The gateways that there are: KEYS[1] keeps for each when it last gave a sign of
-- life, when it first did, and the number of the last answer to it, which is when
-- that was made. ARGV[1] is the gateway's name and ARGV[2] whether it is alive,
-- leaves, or decides alone and so may not be counted as alive. ARGV[3] is the last
-- answer that it has. A beat is a sign of life only if this is indeed the last and
-- not older than ARGV[4]. After ARGV[5] without one a gateway is silent.
-- Returns how many are alive; how many have gone silent without taking leave in
-- the last minute, less those that came since: they took the places; whether the
-- beat was a sign of life; and the number of this answer.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local me, verb, seen = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fresh, patience, memory = tonumber(ARGV[4]), tonumber(ARGV[5]), 60000000

local all = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local last, first, answer = flat[i + 1]:match('^(%d+) (%d+) (%d+)$')
  if last then
    all[flat[i]] = {last = tonumber(last), first = tonumber(first), answer = tonumber(answer)}
  end
end

local heard = 0
if verb == 'leaves' then
  all[me] = nil
  redis.call('HDEL', KEYS[1], me)
else
  local it = all[me]
  if verb == 'alive' and (not it or seen == it.answer and now - it.answer < fresh) then
    heard = 1
  end
  it = it or {last = 0, first = now}
  it.answer = now
  if heard == 1 then it.last = now end
  -- What decides alone is missing for as long as it is there to say so.
  if verb == 'alone' then it.last = math.max(it.last, now - patience) end
  all[me] = it
  redis.call('HSET', KEYS[1], me, string.format('%.0f %.0f %.0f', it.last, it.first, it.answer))
end
redis.call('PEXPIRE', KEYS[1], 2 * memory / 1000)

local silent, live, oldest = 0, {}, now
for name, it in pairs(all) do
  -- The clock may have been set back: then nobody knows how long it has been.
  local age = it.last > now and patience or now - it.last
  if age < patience then
    table.insert(live, it)
  elseif age < memory then
    silent = silent + 1
    oldest = math.min(oldest, it.last)
  else
    redis.call('HDEL', KEYS[1], name)
  end
end
local new = 0
for _, it in ipairs(live) do
  if it.first > oldest then new = new + 1 end
end
return {#live, math.max(0, silent - new), heard, now}
