-- The dissector itself. The tables above are generated: VERSION, ENUMS, MESSAGES, COMMANDS and MAX_FRAME_SIZE.
--
-- Rules of this file
-- 1. Field names are those of `pcli fields`. Each place of a field in the protocol has its own field.
-- 2. State (names behind ids, open requests) is collected when a packet is dissected for the first time. The results of
--    a frame are kept for later dissections.
-- 3. Bytes that are not a frame are skipped up to the next position from which a chain of frames reaches the end.
-- 4. It runs in the Lua 5.2 of Wireshark 4.0 and in the Lua 5.4 of later versions: numbers up to 2^53 only.

local pulsar = Proto("pulsar", "Apache Pulsar")
local CLIENT, BROKER = "client", "broker"
local SEND, SEND_RECEIPT, SEND_ERROR, MESSAGE = 6, 7, 8, 9
local UNCOMPRESSED, ZLIB = 0, 2
local CHECKSUM_MAGIC, BROKER_ENTRY_MAGIC = 0x0e01, 0x0e02

pulsar.prefs.port = Pref.uint("TCP port", 6650, "Port of brokers (brokerServicePort); other ports are recognised by the heuristic")
pulsar.prefs.tls_port = Pref.uint("TLS port", 6651, "Port of brokers with TLS (brokerServicePortTls)")
pulsar.prefs.checksum = Pref.bool("Verify checksums", true, "Compute the CRC-32C of each entry")
pulsar.prefs.batches = Pref.bool("Open batches", true, "Show the messages of a batch")
pulsar.prefs.resync = Pref.bool("Search for frames", true, "Search for the next frame in bytes that are not a frame")

local f_stream, f_time = Field.new("tcp.stream"), Field.new("frame.time_epoch")

-- fields ---------------------------------------------------------------------------------------------------------------

local fields = {}

local function define(abbreviation, make, ...)
  local made = make(abbreviation, ...)
  fields[#fields + 1] = made
  return made
end

local TYPE_NAMES = {}
for number, row in pairs(COMMANDS) do TYPE_NAMES[number] = row.name end

local F = {
  number = define("pulsar.number", ProtoField.uint32, "Frame number", base.DEC),
  type = define("pulsar.type", ProtoField.int32, "Type", base.DEC, TYPE_NAMES),
  from = define("pulsar.from", ProtoField.string, "Sender"),
  length = define("pulsar.length", ProtoField.uint32, "Length", base.DEC),
  missing = define("pulsar.missing", ProtoField.uint32, "Missing bytes", base.DEC),
  checksum = define("pulsar.checksum", ProtoField.string, "Checksum"),
  answer_to = define("pulsar.answer_to", ProtoField.uint32, "Answer to frame number", base.DEC),
  answer_in = define("pulsar.answer_in", ProtoField.uint32, "Answered in frame number", base.DEC),
  request_in = define("pulsar.request_in", ProtoField.framenum, "Request in", base.NONE, frametype.REQUEST),
  response_in = define("pulsar.response_in", ProtoField.framenum, "Response in", base.NONE, frametype.RESPONSE),
  latency = define("pulsar.latency", ProtoField.relative_time, "Time since the request"),
  request_id = define("pulsar.request_id", ProtoField.int64, "Request id", base.DEC),
  producer_id = define("pulsar.producer_id", ProtoField.int64, "Producer id", base.DEC),
  consumer_id = define("pulsar.consumer_id", ProtoField.int64, "Consumer id", base.DEC),
  sequence_id = define("pulsar.sequence_id", ProtoField.int64, "Sequence id", base.DEC),
  message_id = define("pulsar.message_id", ProtoField.string, "Message id"),
  topic = define("pulsar.topic", ProtoField.string, "Topic"),
  subscription = define("pulsar.subscription", ProtoField.string, "Subscription"),
  producer_name = define("pulsar.producer_name", ProtoField.string, "Producer name"),
  consumer_name = define("pulsar.consumer_name", ProtoField.string, "Consumer name"),
  error = define("pulsar.error", ProtoField.string, "Error"),
  payload = define("pulsar.payload", ProtoField.bytes, "Payload"),
  payload_size = define("pulsar.payload_size", ProtoField.uint32, "Payload size", base.DEC),
  unknown = define("pulsar.unknown", ProtoField.bytes, "Unknown field"),
  skipped = define("pulsar.skipped", ProtoField.bytes, "Bytes that are not a frame"),
  metadata = define("pulsar.metadata", ProtoField.none, "Message metadata"),
  entry = define("pulsar.entry", ProtoField.none, "Broker entry metadata"),
  batch = define("pulsar.batch", ProtoField.none, "Message in a batch"),
  batch_index = define("pulsar.batch.index", ProtoField.uint32, "Index", base.DEC),
  batch_payload = define("pulsar.batch.payload", ProtoField.bytes, "Payload"),
}

local E = {
  refused = ProtoExpert.new("pulsar.expert.refused", "The broker refused the request", expert.group.RESPONSE_CODE, expert.severity.WARN),
  checksum = ProtoExpert.new("pulsar.expert.checksum", "The CRC-32C does not match the entry", expert.group.CHECKSUM, expert.severity.ERROR),
  malformed = ProtoExpert.new("pulsar.expert.malformed", "The frame cannot be parsed", expert.group.MALFORMED, expert.severity.ERROR),
  unknown = ProtoExpert.new("pulsar.expert.unknown", "Unknown to this version", expert.group.UNDECODED, expert.severity.NOTE),
  direction = ProtoExpert.new("pulsar.expert.direction", "This side never sends the command", expert.group.PROTOCOL, expert.severity.WARN),
  skipped = ProtoExpert.new("pulsar.expert.skipped", "Bytes that are not a frame", expert.group.SEQUENCE, expert.severity.NOTE),
  cut = ProtoExpert.new("pulsar.expert.cut", "The capture lacks a part of the frame", expert.group.UNDECODED, expert.severity.NOTE),
  closed = ProtoExpert.new("pulsar.expert.compressed", "The batch is not opened", expert.group.UNDECODED, expert.severity.CHAT),
}
local experts = {}
for _, one in pairs(E) do experts[#experts + 1] = one end
pulsar.experts = experts

-- plans: the fields of a message at one place in a frame -----------------------------------------------------------------

local WIRE = {text = 2, bytes = 2, message = 2, double = 1}
local BITS = {time = 64, int64 = 64, uint64 = 64}

local function proto_field(abbreviation, name, kind, of)
  if kind == "message" then return define(abbreviation, ProtoField.none, name) end
  if kind == "text" then return define(abbreviation, ProtoField.string, name) end
  if kind == "bytes" then return define(abbreviation, ProtoField.bytes, name) end
  if kind == "bool" then return define(abbreviation, ProtoField.bool, name) end
  if kind == "double" then return define(abbreviation, ProtoField.double, name) end
  if kind == "time" then return define(abbreviation, ProtoField.absolute_time, name, base.UTC) end
  if kind == "enum" then return define(abbreviation, ProtoField.int32, name, base.DEC, ENUMS[of]) end
  if kind == "uint32" then return define(abbreviation, ProtoField.uint32, name, base.DEC) end
  if kind == "int32" then return define(abbreviation, ProtoField.int32, name, base.DEC) end
  return define(abbreviation, ProtoField.int64, name, base.DEC)
end

local function count(list, value)
  local found = 0
  for _, one in ipairs(list) do if one == value then found = found + 1 end end
  return found
end

local function with(list, value)
  local longer = {}
  for at, one in ipairs(list) do longer[at] = one end
  longer[#longer + 1] = value
  return longer
end

-- Returns slots by tag (number * 8 + wire type). A recursive message is expanded once, as in pcli. `many` is true below a
-- repeated message, where a frame can have several values.
local function plan_of(message, prefix, path, above, many)
  local slots = {}
  above = with(above, message)
  for _, row in ipairs(MESSAGES[message]) do
    local number, name, kind, repeated, of = row[1], row[2], row[3], row[4], row[5]
    local inner
    if kind ~= "message" or count(above, of) < 2 then
      local slot = {kind = kind, name = name, of = of, path = path .. name, many = many or repeated}
      slot.field = proto_field(prefix .. name, name, kind, of)
      if kind == "message" then
        slot.inner = plan_of(of, prefix .. name .. ".", slot.path .. ".", above, slot.many)
      end
      local wire = WIRE[kind] or 0
      slots[number * 8 + wire] = slot
      if repeated and wire ~= 2 then slots[number * 8 + 2] = {packed = slot} end
    end
  end
  return slots
end

local PLANS = {}
for number, row in pairs(COMMANDS) do
  local slot = {kind = "message", name = row.field, path = "", of = row.message}
  -- pulsar.error is the error of any response.
  local abbreviation = F[row.field] and "pulsar." .. row.field .. ".command" or "pulsar." .. row.field
  slot.field = proto_field(abbreviation, row.message, "message")
  slot.inner = plan_of(row.message, "pulsar." .. row.field .. ".", "", {}, false)
  PLANS[number] = {[8] = {}, [number * 8 + 2] = slot}
end
local METADATA = plan_of("MessageMetadata", "pulsar.metadata.", "", {}, false)
local ENTRY = plan_of("BrokerEntryMetadata", "pulsar.entry.", "", {}, false)
local BATCH = plan_of("SingleMessageMetadata", "pulsar.batch.", "", {}, false)
pulsar.fields = fields
