-- Calls, tables, strings and closures, for about a second.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print(fib(32))

local seed = 7
local function random() seed = (seed * 16807) % 2147483647; return seed end
local list = {}
for i = 1, 150000 do list[i] = random() end
table.sort(list)
print(list[1], list[#list])

local words = {}
for i = 1, 150000 do
  local word = ("%x"):format(random() % 4096)
  words[word] = (words[word] or 0) + 1
end
local n, most = 0, 0
for _, count in pairs(words) do n = n + 1; most = math.max(most, count) end
print(n, most)

local Point = {}
Point.__index = Point
function Point.new(x, y) return setmetatable({ x = x, y = y }, Point) end
function Point:add(other) return Point.new(self.x + other.x, self.y + other.y) end
local sum = Point.new(0, 0)
for i = 1, 3000000 do sum = sum:add(Point.new(i, -i)) end
print(sum.x, sum.y)
