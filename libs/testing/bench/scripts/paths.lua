-- Guests from 65,536 addresses request one of several paths. Own arguments: the paths.
dofile('guest.lua')

function prepare(args)
  paths = {}
  for at = 2, #args do paths[at - 1] = args[at] end
end

function request()
  return ask(paths[math.random(#paths)])
end
