-- Clients send messages in one chat after another. Own argument: a file with one client token on each line.
dofile('report.lua')

local number = 0

function prepare(args)
  requests = {}
  for token in io.lines(args[2]) do
    local path = string.format('/api/messenger/chats/5eed0042-0000-4000-8000-%012d/messages', #requests + 1)
    local headers = { ['Authorization'] = 'Bearer ' .. token, ['Content-Type'] = 'application/json' }
    requests[#requests + 1] = wrk.format('POST', path, headers, '{"Text":"When can you come and look at it once more?"}')
  end
  number = math.random(#requests)
end

function request()
  number = number % #requests + 1
  return requests[number]
end
