-- protobuf -------------------------------------------------------------------------------------------------------------

-- Returns the low and high 32 bits of a varint and the position after it; nil if there is none before `stop`.
local function varint(data, at, stop)
  local low, high, shift = 0, 0, 1
  for index = 0, 9 do
    if at > stop then return nil end
    local byte = data:byte(at)
    local bits = byte % 128
    at = at + 1
    if index < 4 then
      low = low + bits * shift
      shift = shift * 128
    elseif index == 4 then
      low = low + (bits % 16) * 2 ^ 28
      high = math.floor(bits / 16)
    else
      high = (high + bits * 2 ^ (7 * index - 32)) % 2 ^ 32
    end
    if byte < 128 then return low, high, at end
  end
  return nil
end

local function signed_32(low)
  if low >= 2 ^ 31 then return low - 2 ^ 32 end
  return low
end

-- Text of an unsigned 64-bit number. All bits set mean -1: Java has no unsigned numbers.
local function text_of(low, high)
  if high == 0 then return string.format("%.0f", low) end
  if low == 2 ^ 32 - 1 and high == 2 ^ 32 - 1 then return "-1" end
  if high < 2 ^ 21 then return string.format("%.0f", high * 2 ^ 32 + low) end
  return tostring(UInt64.new(low, high))
end

-- Sequences of UTF-8 with more than one byte (RFC 3629, section 4).
local SEQUENCES = {
  "^[\194-\223][\128-\191]()", "^\224[\160-\191][\128-\191]()", "^\237[\128-\159][\128-\191]()",
  "^[\225-\236\238\239][\128-\191][\128-\191]()", "^\240[\144-\191][\128-\191][\128-\191]()",
  "^[\241-\243][\128-\191][\128-\191][\128-\191]()", "^\244[\128-\143][\128-\191][\128-\191]()",
}

local function escaped(byte) return string.format("\\x%02x", byte:byte()) end

local function after_sequence(text, at)
  for _, pattern in ipairs(SEQUENCES) do
    local after = text:match(pattern, at)
    if after then return after end
  end
  return nil
end

-- Returns the text with bytes that are not UTF-8 as \xff.
local function utf_8(text)
  return (text:gsub("[\128-\255]+", function(run)
    local words, at = {}, 1
    while at <= #run do
      local after = after_sequence(run, at)
      words[#words + 1] = after and run:sub(at, after - 1) or escaped(run:sub(at, at))
      at = after or at + 1
    end
    return table.concat(words)
  end))
end

local function escaped_format(middle, last)
  return string.format("\\u%04x", 8192 + (middle:byte() - 128) * 64 + last:byte() - 128)
end

-- Returns the text without characters that control a terminal or the writing direction. Wireshark escapes them in
-- fields, but not in the Info column and in appended text.
local function printable(text)
  text = text:gsub("[\0-\31\127]", escaped):gsub("\194([\128-\159])", escaped)
  text = text:gsub("\226(\128)([\139-\143\168-\174])", escaped_format)
  return (text:gsub("\226(\129)([\160-\175])", escaped_format))
end

-- Returns a part of a range. Wireshark refuses an empty part at the end of a range.
local function part(range, offset, size)
  return range(size == 0 and math.min(offset, range:len() - 1) or offset, size)
end

local function keep(values, slot, value)
  if not slot.many then
    values[slot.path] = value
  else
    local list = values[slot.path] or {}
    list[#list + 1] = value
    values[slot.path] = list
  end
end

local function add_number(tree, slot, range, low, high, values)
  local kind = slot.kind
  if kind == "bool" then
    tree:add(slot.field, range, low ~= 0 or high ~= 0)
    keep(values, slot, low ~= 0 or high ~= 0)
  elseif kind == "enum" then
    tree:add(slot.field, range, signed_32(low))
    keep(values, slot, ENUMS[slot.of][signed_32(low)] or ("UNKNOWN_" .. string.format("%.0f", signed_32(low))))
  elseif kind == "uint32" then
    tree:add(slot.field, range, low)
    keep(values, slot, low)
  elseif kind == "int32" then
    tree:add(slot.field, range, signed_32(low))
    keep(values, slot, signed_32(low))
  elseif kind == "time" then
    local ms = high * 2 ^ 32 + low
    if high >= 2 ^ 31 then ms = ms - 2 ^ 64 end
    local seconds = math.floor(ms / 1000)
    if math.abs(seconds) < 2 ^ 53 then tree:add(slot.field, range, NSTime.new(seconds, (ms - seconds * 1000) * 1000000)) end
  else
    tree:add(slot.field, range, Int64.new(low, high))
    keep(values, slot, text_of(low, high))
  end
end

local function id_text(id)
  local ledger, entry = id.ledgerId, id.entryId
  if not ledger or not entry then return nil end
  local partition, batch = id.partition or -1, id.batch_index or -1
  if batch ~= -1 then return string.format("%s:%s:%d:%d", ledger, entry, partition, batch) end
  if partition ~= -1 then return string.format("%s:%s:%d", ledger, entry, partition) end
  return ledger .. ":" .. entry
end

local parse
local cut = false -- whether the capture lacks the end of the current frame

local function add_value(range, data, at, stop, slot, tree, values)
  if slot.kind == "message" then
    local below = tree:add(slot.field, part(range, at - 1, stop - at + 1))
    if slot.of == "MessageIdData" then
      local start = #slot.path + 2
      local own, id = {}, {}
      local whole = parse(range, data, at, stop, slot.inner, below, own)
      for path, value in pairs(own) do id[path:sub(start)] = type(value) == "table" and value[#value] or value end
      local text = id_text(id)
      if text then
        below:append_text(": " .. text)
        keep(values, slot, text)
      end
      return whole
    end
    return parse(range, data, at, stop, slot.inner, below, values)
  end
  local here = part(range, at - 1, stop - at + 1)
  if slot.kind == "text" then
    tree:add_packet_field(slot.field, here, ENC_UTF_8)
    keep(values, slot, utf_8(data:sub(at, stop)))
  elseif slot.kind == "bytes" then
    tree:add(slot.field, here)
  end
  return true
end

local function add_unknown(range, tree, number, from, stop)
  local item = tree:add(F.unknown, part(range, from - 1, stop - from + 1))
  item:prepend_text(string.format("Field %d: ", number))
  item:add_proto_expert_info(E.unknown)
end

-- Adds the fields in data[at..stop] to the tree and to `values`; returns false if the bytes are not valid.
parse = function(range, data, at, stop, slots, tree, values)
  while at <= stop do
    local from = at
    local low, high
    low, high, at = varint(data, at, stop)
    if not at or high ~= 0 or low < 8 then return false end
    local slot, number, wire = slots[low], math.floor(low / 8), low % 8
    if wire == 0 then
      low, high, at = varint(data, at, stop)
      if not at then return false end
      if slot and slot.kind then
        add_number(tree, slot, part(range, from - 1, at - from), low, high, values)
      elseif not slot then
        add_unknown(range, tree, number, from, at - 1)
      end
    elseif wire == 2 then
      low, high, at = varint(data, at, stop)
      if not at or high ~= 0 then return false end
      local last = at + low - 1
      if last > stop then
        if cut and slot and slot.kind == "message" then add_value(range, data, at, stop, slot, tree, values) end
        return false
      end
      if slot and slot.packed then
        while at <= last do
          local first = at
          low, high, at = varint(data, at, last)
          if not at then return false end
          add_number(tree, slot.packed, part(range, first - 1, at - first), low, high, values)
        end
      elseif slot then
        if not add_value(range, data, at, last, slot, tree, values) then return false end
      else
        add_unknown(range, tree, number, from, last)
      end
      at = last + 1
    elseif wire == 1 or wire == 5 then
      local size = wire == 1 and 8 or 4
      if at + size - 1 > stop then return false end
      if slot then
        tree:add_le(slot.field, part(range, at - 1, size))
      else
        add_unknown(range, tree, number, from, at + size - 1)
      end
      at = at + size
    else
      return false
    end
  end
  return true
end

-- checksums ------------------------------------------------------------------------------------------------------------

local CRC = {}
for index = 0, 255 do
  local value = index
  for _ = 1, 8 do
    if value % 2 == 1 then value = bit.bxor(bit.rshift(value, 1), 0x82f63b78) else value = bit.rshift(value, 1) end
  end
  CRC[index] = value
end

local function crc32c(data, from, to)
  local bxor, rshift, band, byte = bit.bxor, bit.rshift, bit.band, string.byte
  local value = 0xffffffff
  for at = from, to do value = bxor(rshift(value, 8), CRC[band(bxor(value, byte(data, at)), 255)]) end
  return bit.bnot(value) % 2 ^ 32
end

local function u16(data, at) return data:byte(at) * 256 + data:byte(at + 1) end
local function u32(data, at) return u16(data, at) * 65536 + u16(data, at + 2) end

-- entries --------------------------------------------------------------------------------------------------------------

local function decompressed(range)
  for _, name in ipairs({"uncompress_zlib", "uncompress"}) do
    local good, found = pcall(function() return range[name](range, "Decompressed payload") end)
    if good and found then return found end
  end
  return nil
end

local function add_batch(range, size, tree)
  local data, at, stop = range:raw(), 1, range:len()
  for index = 0, size - 1 do
    if at + 3 > stop then return false end
    local last = at + 3 + u32(data, at)
    if last > stop then return false end
    local item = tree:add(F.batch, part(range, at - 1, last - at + 1))
    local values = {}
    item:add(F.batch_index, index):set_generated()
    if not parse(range, data, at + 4, last, BATCH, item, values) then return false end
    local length = values.payload_size or 0
    if length < 0 or last + length > stop then return false end
    if length > 0 then item:add(F.batch_payload, part(range, last, length)) end
    item:set_len(last - at + 1 + length)
    item:append_text(string.format(" %d: %d bytes", index, length))
    at = last + length + 1
  end
  return true
end

local function add_payload(range, metadata, tree)
  local item = tree:add(F.payload, range)
  local size = metadata.num_messages_in_batch
  if not size or not pulsar.prefs.batches then return end
  local compression = metadata.compression or ENUMS.CompressionType[UNCOMPRESSED]
  if metadata.encryption_algo or metadata["encryption_keys.key"] then
    item:add_proto_expert_info(E.closed, "The batch is encrypted")
  elseif compression == ENUMS.CompressionType[UNCOMPRESSED] then
    if not add_batch(range, size, tree) then item:add_proto_expert_info(E.malformed, "The batch is not valid") end
  elseif compression == ENUMS.CompressionType[ZLIB] then
    local opened = decompressed(range)
    if not opened or not add_batch(opened, size, tree) then
      item:add_proto_expert_info(E.malformed, "The batch cannot be decompressed")
    end
  else
    item:append_text(" (a batch compressed with " .. compression .. ")")
    item:add_proto_expert_info(E.closed, "A batch compressed with " .. compression .. " is not opened")
  end
end

-- Adds the headers and the payload in data[at..stop]; returns the metadata.
local function add_entry(range, data, at, stop, whole, tree)
  local metadata = {}
  local function fail(text)
    if whole then tree:add_proto_expert_info(E.malformed, text) end
    return metadata
  end
  if stop - at >= 5 and u16(data, at) == BROKER_ENTRY_MAGIC then
    local size = u32(data, at + 2)
    if at + 5 + size > stop then return fail("The broker entry metadata is longer than the frame") end
    local item = tree:add(F.entry, part(range, at + 5, size))
    if not parse(range, data, at + 6, at + 5 + size, ENTRY, item, {}) then fail("The broker entry metadata is not valid") end
    at = at + 6 + size
  end
  local stored
  if stop - at >= 5 and u16(data, at) == CHECKSUM_MAGIC then
    stored = u32(data, at + 2)
    at = at + 6
  end
  if stop - at < 3 then return fail("The frame has no metadata") end
  local size = u32(data, at)
  local last = at + 3 + size
  if last > stop then return fail("The metadata is longer than the frame") end
  if whole and pulsar.prefs.checksum then
    local state = "none"
    if stored then state = crc32c(data, at, stop) == stored and "good" or "bad" end
    local item = tree:add(F.checksum, stored and part(range, at - 5, 4) or part(range, at - 1, 0), state)
    if state == "bad" then item:add_proto_expert_info(E.checksum) end
  end
  local item = tree:add(F.metadata, part(range, at + 3, size))
  if not parse(range, data, at + 4, last, METADATA, item, metadata) then fail("The metadata is not valid") end
  tree:add(F.payload_size, stop - last):set_generated()
  if last < stop then add_payload(part(range, last, stop - last), metadata, tree) end
  return metadata
end
