-- The issuer reads the token claims of employees. Own arguments: its token, the number of employees.
dofile('report.lua')

function prepare(args)
  headers = { ['Authorization'] = 'Bearer ' .. args[2] }
  employees = tonumber(args[3])
end

function request()
  local id = string.format('5eed0001-0000-4000-8000-%012x', math.random(employees))
  return wrk.format('GET', '/api/v1/internal/users/' .. id .. '/claims', headers)
end
