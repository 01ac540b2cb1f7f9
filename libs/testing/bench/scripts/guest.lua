-- A guest among 65,536 addresses, as the gateway tells of it: nobody meets the limits that hold for one.
dofile('report.lua')

function ask(path)
  local host = math.random(0, 65535)
  return wrk.format('GET', path, {
    ['X-Forwarded-For'] = string.format('10.0.%d.%d', math.floor(host / 256), host % 256),
  })
end
