-- Authors replace the ten blocks of one post after another. Own arguments: the number of posts, the
-- token of each author. Author `n % authors` wrote post `n`.
dofile('report.lua')

local number
local paragraph = 'Two rooms with a view of the river, close to the park, quiet and bright. '

-- A hundred different bodies, created in advance because the load generator shares the machine.
local function body(text)
  local blocks = {}
  for at = 0, 9 do
    blocks[at + 1] = string.format(
      '{"Kind":"Text","BlockId":null,"SortOrder":%d,"Format":"Plain","Text":"%s%d"}',
      at, string.rep(paragraph, 4), text
    )
  end
  return '{"Blocks":[' .. table.concat(blocks, ',') .. ']}'
end

function prepare(args)
  posts = tonumber(args[2])
  headers = {}
  for at = 3, #args do
    headers[at - 3] = { ['Authorization'] = 'Bearer ' .. args[at], ['Content-Type'] = 'application/json' }
  end
  authors = #args - 2
  number = math.random(posts)
  bodies = {}
  for text = 1, 100 do bodies[text] = body(text) end
end

function request()
  number = (number + 1) % posts
  local path = string.format('/api/v1/posts/00000000-0000-4000-8000-%012d/blocks', number)
  return wrk.format('PUT', path, headers[number % authors], bodies[math.random(#bodies)])
end
