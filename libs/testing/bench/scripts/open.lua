-- Guests from 65,536 addresses open selections by code. Own argument: the number of selections.
dofile('guest.lua')

function prepare(args) selections = tonumber(args[2]) end

function request()
  return ask(string.format('/api/v1/selections/%.0f', 100000000000 + math.random(selections)))
end
