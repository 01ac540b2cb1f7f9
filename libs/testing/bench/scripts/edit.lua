-- The author replaces the ten blocks of one post after another. Own arguments: the token of the author,
-- the number of posts.
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
  headers = { ['Authorization'] = 'Bearer ' .. args[2], ['Content-Type'] = 'application/json' }
  posts = tonumber(args[3])
  number = math.random(posts)
  bodies = {}
  for text = 1, 100 do bodies[text] = body(text) end
end

function request()
  number = number + 1
  local path = string.format('/api/v1/posts/00000000-0000-4000-8000-%012d/blocks', number % posts)
  return wrk.format('PUT', path, headers, bodies[math.random(#bodies)])
end
