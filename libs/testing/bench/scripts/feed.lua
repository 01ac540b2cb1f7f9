-- Guests from 65,536 addresses read the first page of the feed or of a search. Own argument: the search
-- text, empty for the feed.
dofile('guest.lua')

function prepare(args) query = args[2] end

function request()
  return ask('/api/v1/posts' .. (query == '' and '' or '?Query=' .. query))
end
