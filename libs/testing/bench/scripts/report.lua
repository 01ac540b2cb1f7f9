-- Common to all scripts: the request rate and the report at the end.
-- Arguments of a script: the mean pause of a connection between requests in milliseconds (0: none),
-- then the script's own arguments.

local wait = 0

function init(args)
  math.randomseed(tonumber(os.time()))
  wait = tonumber(args[1])
  if wait == 0 then delay = nil end
  if prepare then prepare(args) end
end

-- Pauses are exponential, as for independent arrivals. wrk takes whole milliseconds, so the
-- pause is rounded up or down at random and keeps its mean.
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
