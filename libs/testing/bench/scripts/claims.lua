-- The issuer asks what goes into the tokens of employees. Own arguments: its token, how many employees there are.
dofile('report.lua')

function prepare(args)
  headers = { ['Authorization'] = 'Bearer ' .. args[2] }
  employees = tonumber(args[3])
end

function request()
  local id = string.format('5eed0001-0000-4000-8000-%012x', math.random(employees))
  return wrk.format('GET', '/api/v1/internal/users/' .. id .. '/claims', headers)
end
