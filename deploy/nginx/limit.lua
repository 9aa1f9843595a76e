-- A limit on requests that nginx keeps in the same Redis, under the same key and
-- with the same script as Headgate, so that both share it. Debian's nginx has no
-- client for Redis; a request and its answer are few bytes, which are read and
-- written here.
local limit = {}

local letters = {gcra = 'b', bucket = 'b', window = 'w', fixed = 'f'}
local names = {b = 'bucket', w = 'window', f = 'fixed'}

-- configure reads the script, once, when nginx starts. What it takes is explained
-- where it is called, in nginx.conf.
function limit.configure(options)
  local file = assert(io.open(options.script, 'r'))
  limit.script = file:read('*a')
  file:close()
  limit.sha = ngx.sha1_bin(limit.script):gsub('.', function(c) return string.format('%02x', c:byte()) end)
  limit.keep = assert(letters[options.algorithm or 'gcra'], 'unknown algorithm')
  limit.of = options
end

-- command is what Redis reads: the number of words, and each with its length.
local function command(words)
  local out = {'*' .. #words .. '\r\n'}
  for _, word in ipairs(words) do
    word = tostring(word)
    out[#out + 1] = '$' .. #word .. '\r\n' .. word .. '\r\n'
  end
  return table.concat(out)
end

-- answer reads one answer: a text, a number, or a list of them. An error of
-- Redis's is the second result, as one of the connection's is; only after the
-- first, third, may the connection be used again.
local function answer(sock)
  local line, err = sock:receive()
  if not line then return nil, err end
  local kind, rest = line:sub(1, 1), line:sub(2)
  if kind == '+' then return rest end
  if kind == ':' then return tonumber(rest) end
  if kind == '-' then return nil, rest, true end
  if kind ~= '*' then return nil, 'an answer of another form than the script\'s: ' .. line end
  local list = {}
  for i = 1, tonumber(rest) do
    list[i], err = answer(sock)
    if list[i] == nil then return nil, err end
  end
  return list
end

local function call(sock, ...)
  local sent, err = sock:send(command({...}))
  if not sent then return nil, err end
  return answer(sock)
end

local function connect()
  local redis = limit.of.redis
  local sock = ngx.socket.tcp()
  sock:settimeout(redis.timeout)
  local ok, err = sock:connect(redis.host, redis.port)
  if ok and redis.password and sock:getreusedtimes() == 0 then
    ok, err = call(sock, 'AUTH', redis.password)
  end
  if not ok then
    sock:close()
    return nil, err
  end
  return sock
end

-- take asks for one request. Redis knows the script by its hash; a server that was
-- started anew does not, and is told it.
local function take(key)
  local sock, err = connect()
  if not sock then return nil, err end
  local o = limit.of
  -- What the script asks for of each count: how it is kept and what it allows; one
  -- request, nothing on top, nobody waiting, not soft, no age; and nothing held.
  local wanted = {key, 'acquire', 'nginx', limit.keep, o.count, o.period * 1e6, o.burst or o.count, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  local got, usable
  got, err, usable = call(sock, 'EVALSHA', limit.sha, 1, unpack(wanted))
  if not got and usable and err:find('^NOSCRIPT') then
    got, err, usable = call(sock, 'EVAL', limit.script, 1, unpack(wanted))
  end
  if got or usable then sock:setkeepalive(10000, 32) else sock:close() end
  if not got then return nil, err end
  return {ok = got[1] == 1, remaining = got[4], wait = got[5] / 1e6, reset = got[6] / 1e6}
end

local function refuse(status, retry, kind, code, message)
  ngx.status = status
  ngx.header['Retry-After'] = retry
  ngx.header['Content-Type'] = 'application/json'
  ngx.print('{"error":{"message":"' .. message .. '","type":"' .. kind .. '","param":null,"code":"' .. code .. '"}}\n')
  return ngx.exit(status)
end

-- check lets the request of this moment through, or answers it.
function limit.check()
  local o = limit.of
  -- The key is that of Headgate: how, rule, and what the rule is kept by.
  local key = 'hg:{g}:' .. names[limit.keep] .. ':' .. o.rule .. '/requests'
  if o.per_ip then key = key .. '|ip=' .. ngx.var.remote_addr end
  local got, err = take(key)
  if not got then
    ngx.log(ngx.ERR, 'the limit ', o.rule, ' cannot be checked: ', err)
    if o.on_outage == 'open' then return end
    return refuse(503, 1, 'server_error', 'overloaded', 'The limits of this gateway cannot be checked at the moment; try again in a second.')
  end
  ngx.header['X-RateLimit-Limit'] = o.burst or o.count
  ngx.header['X-RateLimit-Remaining'] = math.max(0, got.remaining)
  ngx.header['X-RateLimit-Reset'] = math.ceil(got.reset)
  if not got.ok then
    return refuse(429, math.max(1, math.ceil(got.wait)), 'rate_limit_error', 'rate_limit_exceeded', 'Too many requests; see the header Retry-After.')
  end
end

return limit
