-- Forwarded addresses of guests, 65,536 in all, so that no request exceeds the limit for one address.
dofile('report.lua')

function ask(path)
  local host = math.random(0, 65535)
  return wrk.format('GET', path, {
    ['X-Forwarded-For'] = string.format('10.0.%d.%d', math.floor(host / 256), host % 256),
  })
end
