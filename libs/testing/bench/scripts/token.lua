-- One person requests one path. Own arguments: the path, the token.
dofile('report.lua')

function prepare(args)
  asked = wrk.format('GET', args[2], { ['Authorization'] = 'Bearer ' .. args[3] })
end

function request() return asked end
