-- Guests from 65,536 addresses request a path whose current response they have. Own arguments: the path, the tag.
dofile('guest.lua')

function prepare(args) path, tag = args[2], args[3] end

function request()
  local host = math.random(0, 65535)
  return wrk.format('GET', path, {
    ['If-None-Match'] = tag,
    ['X-Forwarded-For'] = string.format('10.0.%d.%d', math.floor(host / 256), host % 256),
  })
end
