-- All counts of one call, or a batch of reports, in one run. Time is the
-- server's, in microseconds, so that gateways' clocks do not matter.
--
-- ARGV[1] is acquire or report, ARGV[2] the gateway's name, and then for each key
-- 14 arguments, which field names below.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local verb, me = ARGV[1], ARGV[2]
local width = 14
local lapse = 6000000 -- after which what a silent gateway held is free
local day = 86400000000

local function int(n) return string.format('%.0f', n) end

local function args(i)
  local at = 2 + (i - 1) * width
  local n = function(j) return tonumber(ARGV[at + j]) end
  return {
    key = KEYS[i], keep = ARGV[at + 1], count = n(2), period = n(3), burst = n(4),
    need = n(5), extra = n(6), waiting = n(7), soft = ARGV[at + 8] == '1', age = n(9),
    held = n(10), spent = n(11), floor = n(12), seq = n(13), lasts = n(14),
  }
end

local function pairsOf(key)
  local flat = redis.call('HGETALL', key)
  local i = -1
  return function()
    i = i + 2
    return flat[i], flat[i + 1]
  end
end

-- What has a rate keeps how much of it is used (u) and when that was so (t): as
-- exact as GCRA's one time, for any rate, since both are small numbers.
local bucket = {}

function bucket.read(a)
  local v = redis.call('HMGET', a.key, 'u', 't')
  local since = math.max(0, now - tonumber(v[2] or now))
  a.used = math.max(0, tonumber(v[1] or 0) - since * a.count / a.period)
  a.left = math.floor(a.burst - a.used + 1e-6)
  a.wait = math.ceil((a.need - (a.burst - a.used)) * a.period / a.count)
  a.reset = math.ceil(a.used * a.period / a.count)
end

function bucket.add(a, n)
  a.used = math.max(0, a.used + n)
  redis.call('HSET', a.key, 'u', string.format('%.17g', a.used), 't', int(now))
  redis.call('PEXPIRE', a.key, int(a.used * a.period / a.count / 1000 + 1000))
  a.reset = math.ceil(a.used * a.period / a.count)
end

-- A window keeps 64 counts by when their slots began.
local window = {}

function window.read(a)
  a.slot = math.ceil(a.period / 63)
  a.start = now - now % a.slot
  a.slots, a.gone = {}, {}
  local sum, current = 0, 0
  for start, n in pairsOf(a.key) do
    start, n = tonumber(start), tonumber(n)
    if start < a.start - 63 * a.slot then
      table.insert(a.gone, int(start))
    else
      table.insert(a.slots, {start, n})
      sum = sum + n
      if start >= a.start then current = current + n end
    end
  end
  table.sort(a.slots, function(x, y) return x[1] < y[1] end)
  a.left, a.wait, a.reset = a.count - sum, 0, 0
  if a.burst < a.count then
    a.left = math.min(a.left, a.burst - current)
    if current + a.need > a.burst then a.wait = a.start + a.slot - now end
  end
  for _, s in ipairs(a.slots) do
    if sum + a.need > a.count then a.wait = math.max(a.wait, s[1] + 64 * a.slot - now) end
    sum = sum - s[2]
    if s[2] > 0 then a.reset = s[1] + 64 * a.slot - now end
  end
end

function window.add(a, n)
  if #a.gone > 0 then redis.call('HDEL', a.key, unpack(a.gone)) end
  if n > 0 then
    redis.call('HINCRBY', a.key, int(a.start), int(n))
    a.reset = 64 * a.slot
  end
  -- What is given back leaves the slot that it was taken in, or one near it.
  local at = now - a.age
  for _, older in ipairs({true, false}) do
    for i = #a.slots, 1, -1 do
      local s = a.slots[i]
      if n < 0 and (s[1] <= at) == older then
        local back = math.min(-n, s[2])
        n, s[2] = n + back, s[2] - back
        redis.call('HSET', a.key, int(s[1]), int(s[2]))
      end
    end
  end
  redis.call('PEXPIRE', a.key, int(65 * a.slot / 1000 + 1000))
end

-- A fixed window keeps a count (n) and when it began (w).
local fixed = {}

function fixed.read(a)
  local v = redis.call('HMGET', a.key, 'n', 'w', 'p')
  a.start = now - now % a.period
  a.used = tonumber(v[1] or 0)
  -- A window of another length carries its count into this one.
  if tonumber(v[2] or 0) < a.start and tonumber(v[2] or 0) + tonumber(v[3] or 0) <= now then a.used = 0 end
  a.left = a.count - a.used
  a.wait = a.start + a.period - now
  a.reset = a.used > 0 and a.wait or 0
end

function fixed.add(a, n)
  if n < 0 and now - a.age < a.start then return end
  a.used = math.max(0, a.used + n)
  redis.call('HSET', a.key, 'n', int(a.used), 'w', int(a.start), 'p', int(a.period))
  redis.call('PEXPIRE', a.key, int((a.start + a.period - now) / 1000 + 1000))
  a.reset = a.start + a.period - now
end

-- What is held keeps for each gateway what it holds (l), has spent (s), when it
-- was heard of (e), and the number of what it said last (q). A gateway that has
-- been silent for a day becomes a part of what was spent (base).
local held = {}

function held.read(a)
  local l, s, e, q, base = {}, {}, {}, {}, 0
  local of = {l = l, s = s, e = e, q = q}
  for field, v in pairsOf(a.key) do
    if field == 'base' then base = tonumber(v) else of[field:sub(1, 1)][field:sub(3)] = tonumber(v) end
  end
  if a.seq > (q[me] or 0) then
    l[me], s[me], q[me] = a.held, math.max(a.spent, s[me] or 0), a.seq
  end
  e[me] = now
  local spent, used = 0, 0
  for gw, at in pairs(e) do
    if at < now - day then
      base = base + (s[gw] or 0)
      redis.call('HDEL', a.key, 'l:' .. gw, 's:' .. gw, 'e:' .. gw, 'q:' .. gw)
    else
      spent = spent + (s[gw] or 0)
      if at >= now - lapse then used = used + (l[gw] or 0) end
    end
  end
  base = math.max(base, a.floor - spent)
  a.l, a.s, a.q, a.base = l[me] or 0, s[me] or 0, q[me] or 0, base
  a.left = a.burst - base - spent - used
  a.wait, a.reset = 0, 0
  -- What this gateway has said of itself holds whatever becomes of the want.
  held.add(a, 0)
end

function held.add(a, n)
  a.l = a.l + n
  redis.call('HSET', a.key, 'l:' .. me, int(a.l), 's:' .. me, int(a.s), 'e:' .. me, int(now), 'q:' .. me, int(a.q), 'base', int(a.base))
  redis.call('PEXPIRE', a.key, int(math.max(a.lasts, 3 * lapse) / 1000))
end

local keeps = {b = bucket, w = window, f = fixed, h = held}

local all, wants = true, {}
for i = 1, #KEYS do
  local a = args(i)
  wants[i] = a
  keeps[a.keep].read(a)
  if verb == 'report' then
    if a.keep ~= 'h' then keeps[a.keep].add(a, a.need) end
  else
    a.ok = a.need <= a.left and (a.left > 0 or a.keep ~= 'h')
    all = all and (a.ok or a.soft)
  end
end
if verb == 'report' then return 'OK' end

local out = {all and 1 or 0}
for _, a in ipairs(wants) do
  local granted = 0
  if all and a.ok then
    local rest = a.left - a.need
    granted = a.need + math.max(0, math.min(a.extra, math.floor(rest / 8)), math.min(a.waiting, rest))
    keeps[a.keep].add(a, granted)
  end
  table.insert(out, a.ok and 1 or 0)
  table.insert(out, granted)
  table.insert(out, a.left - granted)
  table.insert(out, a.ok and 0 or math.max(0, a.wait))
  table.insert(out, math.max(0, a.reset))
end
return out
