-- Guests from 65,536 addresses read published posts. Own arguments: the number of the first post, the count.
dofile('guest.lua')

function prepare(args) first, posts = tonumber(args[2]), tonumber(args[3]) end

function request()
  return ask(string.format('/api/v1/posts/00000000-0000-4000-8000-%012d', first + math.random(0, posts - 1)))
end
