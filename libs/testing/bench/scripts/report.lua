-- What every script has in common: the rate at which it asks, and what it reports in the end.
-- Arguments of a script: how long a connection waits between requests in milliseconds (0: not at all),
-- and what is the script's own.

local wait = 0

function init(args)
  math.randomseed(tonumber(os.time()))
  wait = tonumber(args[1])
  if wait == 0 then delay = nil end
  if prepare then prepare(args) end
end

-- Arrivals that know nothing of each other: waits are exponential. wrk counts in whole milliseconds.
function delay()
  return math.floor(-wait * math.log(1 - math.random()) + math.random())
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"seconds": %f, "per_second": %f, "refused": %d, "broken": %d, "late": %d, "p50": %f, "p95": %f, "p99": %f, "p999": %f}\n',
    summary.duration / 1e6,
    summary.requests / summary.duration * 1e6,
    errors.status,
    errors.connect + errors.read + errors.write,
    errors.timeout,
    latency:percentile(50) / 1e3,
    latency:percentile(95) / 1e3,
    latency:percentile(99) / 1e3,
    latency:percentile(99.9) / 1e3
  ))
end
