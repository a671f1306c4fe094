-- Frames of a TCP stream.

local GENERAL = {"request_id", "producer_id", "consumer_id", "sequence_id", "message_id", "topic", "subscription",
                 "producer_name", "consumer_name", "error"}
local IS_NUMBER = {request_id = true, producer_id = true, consumer_id = true, sequence_id = true}

-- Returns a number of 64 bits from its text. The fields are signed.
local function signed_64(text)
  local bits = UInt64.new(text)
  return Int64.new(bits:lower(), bits:higher())
end

local function add_general(tree, row, values, about)
  for _, meaning in ipairs(GENERAL) do
    local value = row.ids[meaning] and values[row.ids[meaning]]
    if value == nil then value = about[meaning] end
    for _, one in ipairs(type(value) == "table" and value or {value}) do
      tree:add(F[meaning], IS_NUMBER[meaning] and signed_64(one) or one):set_generated()
    end
  end
end

local function add_pair(tree, number)
  local request, response = frames.request[number], frames.response[number]
  if request then
    local latency = frames.latency[number]
    local seconds = latency < 0 and math.ceil(latency / 1e9) or math.floor(latency / 1e9)
    tree:add(F.answer_to, request):set_generated()
    tree:add(F.request_in, frames.packet[request]):set_generated()
    tree:add(F.latency, NSTime.new(seconds, latency - seconds * 1e9)):set_generated()
  end
  if response then
    tree:add(F.answer_in, response):set_generated()
    tree:add(F.response_in, frames.packet[response]):set_generated()
  end
end

local function summary(name, row, values, about)
  local words = {name}
  local topic = row and first(row.ids.topic and values[row.ids.topic]) or about.topic
  if topic then words[#words + 1] = topic end
  if about.subscription then words[#words + 1] = "/ " .. about.subscription end
  for _, meaning in ipairs({"message_id", "sequence_id", "request_id", "error"}) do
    local value = row and first(row.ids[meaning] and values[row.ids[meaning]])
    if value then words[#words + 1] = meaning:gsub("_id", "") .. " " .. value end
  end
  return printable(table.concat(words, " "))
end

-- Returns the type of the command in data[at..stop]; nil if it has none. All known clients write the type first.
local function type_of(data, at, stop)
  while at and at <= stop do
    local low, _, size
    low, _, at = varint(data, at, stop)
    if not at then return nil end
    if low % 8 == 0 then
      local value, high, after = varint(data, at, stop)
      if low == 8 then return value and high == 0 and value or nil end
      at = after
    elseif low % 8 == 2 then
      size, _, at = varint(data, at, stop)
      at = at and at + size
    else
      return nil
    end
  end
  return nil
end

-- Dissects one frame. `length` is its length according to its length prefix; `range` may be shorter.
local function dissect_frame(range, length, pinfo, tree, place)
  local data, size = range:raw(), range:len()
  local whole = size == length
  local stop = math.min(size, 8 + u32(data, 5))
  local number = type_of(data, 9, stop)
  local row = number and COMMANDS[number]
  local name = row and row.name or number and string.format("UNKNOWN_%.0f", number) or "NO_TYPE"
  local item = tree:add(pulsar, range)
  item:add(F.length, range(0, 4), length)
  local type_item = item:add(F.type, part(range, 8, math.min(2, size - 8)), number or -1)
  if number and not row then type_item:add_proto_expert_info(E.unknown) end
  local values, metadata = {}, {}
  cut = not whole
  local good = parse(range, data, 9, stop, PLANS[number] or {[8] = {}}, item, values)
  if not good and whole or not number then item:add_proto_expert_info(E.malformed, "The command is not valid") end
  if number == SEND or number == MESSAGE then metadata = add_entry(range, data, stop + 1, size, whole, item) end
  if not whole then
    item:add(F.missing, length - size):set_generated()
    item:add_proto_expert_info(E.cut)
  end
  local frame = numbers[place]
  if not frame then
    frame = observe(pinfo, row, values, metadata)
    numbers[place] = frame
  end
  local from, about = frames.sender[frame], frames.about[frame] or {}
  item:add(F.number, frame):set_generated()
  local sender = item:add(F.from, from):set_generated()
  if row then
    if row.sender ~= "both" and row.sender ~= from then sender:add_proto_expert_info(E.direction) end
    add_general(item, row, values, about)
    if row.ids.error and values[row.ids.error] then item:add_proto_expert_info(E.refused) end
  end
  add_pair(item, frame)
  local text = summary(name, row, values, about)
  item:append_text(", " .. text)
  return text
end

-- Returns whether data[at..] starts with the lengths of a frame, and the length of the frame.
local function lengths(data, at)
  if #data - at < 7 then return false, 0 end
  local length, command = u32(data, at) + 4, u32(data, at + 4)
  return length >= 8 and length <= MAX_FRAME_SIZE and command + 8 <= length, length
end

-- Returns whether data[at..] starts with a known command that is written in the usual way.
local function is_usual(data, at)
  local good, length = lengths(data, at)
  if not good then return false, length end
  if #data - at < 9 then return #data - at < 8 or data:byte(at + 8) == 8, length end
  local number = data:byte(at + 9)
  if data:byte(at + 8) ~= 8 or not COMMANDS[number] then return false, length end
  if #data - at < 11 then return true, length end
  local tag = number * 8 + 2
  local first_byte = tag < 128 and tag or tag % 128 + 128
  return data:byte(at + 10) == first_byte, length
end

-- Returns whether usual frames follow each other from `at` to the end of the data. `ended` contains the positions of
-- frames in chains that end before; without it, the time would be quadratic.
local function is_chain(data, at, ended)
  while at <= #data do
    if ended[at] then return false end
    local usual, length = is_usual(data, at)
    if not usual then return #data - at < 7 end
    ended[at] = true
    at = at + length
  end
  return true
end

-- Returns a function that returns the next position from `at` that starts a chain of frames; nil if there is none.
-- Positions may only increase.
local function frame_search(data)
  local ended, checked, latest = {}, 1, nil
  return function(at)
    if latest and latest >= at then return latest end
    at, latest = math.max(at, checked), nil
    while not latest do
      local found = data:find("\8", at + 8, true)
      if not found then break end
      at = found - 8
      if is_usual(data, at) and is_chain(data, at, ended) then latest = at end
      at = at + 1
    end
    checked = latest and at or #data
    return latest
  end
end

-- Returns how often the dissector was called before for this packet. A packet can contain several TLS records, or the
-- end of a frame and further frames.
local function earlier_calls(pinfo)
  local earlier = tonumber(pinfo.private.pulsar or 0)
  pinfo.private.pulsar = tostring(earlier + 1)
  return earlier
end

function pulsar.dissector(tvb, pinfo, tree)
  local size, offset = tvb:captured_len(), 0
  local data = tvb:raw(0, size)
  local texts, next_frame, earlier = {}, frame_search(data), earlier_calls(pinfo)
  pinfo.cols.protocol = "Pulsar"
  while offset < size do
    if size - offset < 8 then
      pinfo.desegment_offset, pinfo.desegment_len = offset, DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    local good, length = lengths(data, offset + 1)
    local resync = pulsar.prefs.resync and not is_usual(data, offset + 1) and next_frame(offset + 2)
    if resync or not good then
      local stop = resync and resync - 1 or size
      local skipped = tvb(offset, stop - offset)
      tree:add(F.skipped, skipped):add_proto_expert_info(E.skipped)
      offset = stop
    else
      if length > size - offset and tvb:reported_len() == size then
        pinfo.desegment_offset, pinfo.desegment_len = offset, length - (size - offset)
        break
      end
      local range = tvb(offset, math.min(length, size - offset))
      local place = table.concat({pinfo.number, earlier, offset, size}, " ")
      texts[#texts + 1] = dissect_frame(range, length, pinfo, tree, place)
      offset = offset + length
    end
  end
  if texts[1] then
    if pinfo.private.pulsar_info then table.insert(texts, 1, "") end
    pinfo.private.pulsar_info = "set"
    pinfo.cols.info:set(table.concat(texts, ", "))
    pinfo.cols.info:fence()
  end
  return size
end

-- Recognises a conversation on any port by its first frame.
local function recognise(tvb, pinfo, tree)
  local data = tvb:raw(0, math.min(tvb:captured_len(), 4096))
  if #data < 12 or not is_usual(data, 1) then return false end
  pulsar.dissector(tvb, pinfo, tree)
  return true
end

local function recognise_tcp(tvb, pinfo, tree)
  if not recognise(tvb, pinfo, tree) then return false end
  pinfo.conversation = pulsar -- for the packets that start within a frame
  return true
end

local ports = {}
local function register()
  for name, port in pairs({["tcp.port"] = pulsar.prefs.port, ["tls.port"] = pulsar.prefs.tls_port}) do
    if ports[name] and ports[name] ~= 0 then DissectorTable.get(name):remove(ports[name], pulsar) end
    if port ~= 0 then DissectorTable.get(name):add(port, pulsar) end
    ports[name] = port
  end
end

pulsar.prefs_changed = register
register()
pulsar:register_heuristic("tcp", recognise_tcp)
pulsar:register_heuristic("tls", recognise)
