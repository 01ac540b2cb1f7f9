-- Guests from 65,536 addresses read the first page of the feed, or of what a search finds. Own argument: what
-- is searched for, nothing for the feed.
dofile('guest.lua')

function prepare(args) query = args[2] end

function request()
  return ask('/api/v1/posts' .. (query == '' and '' or '?Query=' .. query))
end
