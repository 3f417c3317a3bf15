"""What the server does in one step, as Lua that Redis and Valkey run; keys and answers of each.

The first key of two is the *epoch*, a text that is lost when the server loses its keys. Whoever finds none makes one
and has all machines wait for SETTLE_MS, in which each says again what it asks and what it knows.
"""

from __future__ import annotations

PREFIX = b"svr:1:"
EPOCH, SETTLING = PREFIX + b"epoch", PREFIX + b"settling"
CLAIM, REPLY = PREFIX + b"c:", PREFIX + b"r:"
SETTLE_MS = 1500

_FOUND = """
local epoch = redis.call('get', KEYS[1])
if not epoch then
  epoch = ARGV[1]
  redis.call('set', KEYS[1], epoch)
  redis.call('set', KEYS[2], '1', 'PX', ARGV[2])
end
"""

# KEYS epoch, settling, claim, reply; ARGV new epoch, ms to settle, known epoch, own token, ms of a claim
# → epoch, whether the question is claimed now, its row or nil, the ms that another's claim has left
ASK = f"""{_FOUND}
local row = redis.call('get', KEYS[4])
if row then return {{epoch, 0, row, 0}} end
if epoch ~= ARGV[3] or redis.call('exists', KEYS[2]) == 1 then return {{epoch, 0, false, 1}} end
if redis.call('set', KEYS[3], ARGV[4], 'NX', 'PX', ARGV[5]) then return {{epoch, 1, false, 0}} end
return {{epoch, 0, false, redis.call('pttl', KEYS[3])}}
"""

# KEYS epoch, settling, claims …; ARGV new epoch, ms to settle, own token, ms of a claim → epoch
BEAT = f"""{_FOUND}
for n = 3, #KEYS do
  if redis.call('get', KEYS[n]) == ARGV[3] then redis.call('pexpire', KEYS[n], ARGV[4]) end
end
return epoch
"""

# KEYS claim, reply; ARGV own token, row or nothing, ms of a reply
LEAVE = """
if ARGV[2] ~= '' then redis.call('set', KEYS[2], ARGV[2], 'PX', ARGV[3]) end
if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end
return 1
"""

# KEYS purse; ARGV wanted → what is drawn of it
DRAW = """
local left = tonumber(redis.call('get', KEYS[1]) or '0') or 0
local got = math.max(0, math.min(left, tonumber(ARGV[1])))
if got > 0 then redis.call('decrby', KEYS[1], got) end
return got
"""

# KEYS purse, what says that this shard has put its rest; ARGV amount, seconds to keep
PUT = """
if tonumber(ARGV[1]) > 0 and redis.call('set', KEYS[2], '1', 'NX', 'EX', ARGV[2]) then
  redis.call('incrby', KEYS[1], ARGV[1])
  redis.call('expire', KEYS[1], ARGV[2])
end
return 1
"""

# KEYS machines at a run; ARGV now, own token, the time before which who was last seen is gone, seconds to keep → count
PRESENT = """
redis.call('zadd', KEYS[1], ARGV[1], ARGV[2])
redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[3])
redis.call('expire', KEYS[1], ARGV[4])
return redis.call('zcard', KEYS[1])
"""
