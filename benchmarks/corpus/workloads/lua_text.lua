-- Patterns, formats, packed strings, coroutines and metatables over real texts
local P = arg[1]
local function read(name) local f = assert(io.open(P .. "/" .. name, "rb")); local text = f:read "a"; f:close(); return text end
local total = 0
for _, name in ipairs { "text_train", "docs.md", "jquery.js", "lodash.js" } do
  local text = read(name)
  local words, order = {}, {}
  for word in text:gmatch "%a[%w_]+" do
    local n = words[word]
    if n then words[word] = n + 1 else words[word] = 1; order[#order + 1] = word end
  end
  table.sort(order, function(a, b) if words[a] ~= words[b] then return words[a] > words[b] end; return a < b end)
  for i = 1, math.min(200, #order) do total = total + #("%-20s %6d %5.2f%%"):format(order[i], words[order[i]], 100 * words[order[i]] / #order) end
  local changed, times = text:gsub("(%w+)%s*(%b())", function(f, args) return #args < 40 and args .. f or nil end)
  total = total + #changed + times + #text:gsub("[\t ]+\n", "\n"):upper():lower():reverse()
  local lines, from = {}, 1
  while true do
    local at = text:find("\n", from, true)
    if not at then break end
    lines[#lines + 1] = text:sub(from, at - 1); from = at + 1
  end
  local packed = {}
  for i, line in ipairs(lines) do packed[i] = string.pack("<I4s2d", i, line:sub(1, 60), i / 3) end
  local all, at = table.concat(packed), 1
  while at <= #all do local n, line, x; n, line, x, at = string.unpack("<I4s2d", all, at); total = total + n % 7 + #line + x // 1 end
  local function producer() for _, line in ipairs(lines) do coroutine.yield(line) end end
  local Sum = {}
  Sum.__index, Sum.__add = Sum, function(a, b) return setmetatable({ n = a.n + b }, Sum) end
  Sum.__lt, Sum.__le = function(a, b) return a.n < b.n end, function(a, b) return a.n <= b.n end
  Sum.__close = function(self) total = total + self.n end
  local sum = setmetatable({ n = 0 }, Sum)
  for line in coroutine.wrap(producer) do local _, spaces = line:gsub(" ", " "); local more = sum + spaces; if sum <= more then sum = more end end
  for byte = 1, #text, 3 do total = (total ~ (text:byte(byte) << (byte & 15))) & 0xffffffff end
  total = total + sum.n + select("#", table.unpack(lines, 1, 100)) + (pcall(error, { "x" }) and 1 or 0)
  local chunk = assert(load("local t = ... ; local n = 0; for k, v in pairs(t) do n = n + v end; return n"))
  total = total + chunk(words)
end
print(total)
