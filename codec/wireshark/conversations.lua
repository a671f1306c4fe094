-- Conversations: senders, names behind ids, and requests with their responses, as in codec/observe.

local conversations, frame_count -- set by pulsar.init
local frames -- the results: columns indexed by frame number, because a table for each frame takes four times the memory
local numbers -- frame numbers by place

function pulsar.init()
  conversations, frame_count, numbers = {}, 0, {}
  frames = {sender = {}, packet = {}, about = {}, request = {}, response = {}, latency = {}}
end

local function conversation_of(stream)
  local found = conversations[stream]
  if not found then
    found = {producers = {}, consumers = {}, requests = {}, keyed = {}, ordered = {}, waiting = {}}
    conversations[stream] = found
  end
  return found
end

local function endpoint(address, port) return tostring(address) .. " " .. port end

-- Returns the sender. Commands that only one side sends determine it; until then, the port does.
local function sender_of(conversation, row, pinfo)
  local source, target = endpoint(pinfo.src, pinfo.src_port), endpoint(pinfo.dst, pinfo.dst_port)
  if not conversation.client and row and row.sender ~= "both" then
    conversation.client = row.sender == CLIENT and source or target
  end
  if conversation.client then return conversation.client == source and CLIENT or BROKER end
  local port = pulsar.prefs.port
  return (pinfo.src_port == port and pinfo.dst_port ~= port) and BROKER or CLIENT
end

local function full_topic(name)
  if name:find("://", 1, true) then return name end
  local _, slashes = name:gsub("/", "")
  if slashes == 0 then return "persistent://public/default/" .. name end
  return "persistent://" .. name
end

local function first(value)
  if type(value) == "table" then return value[1] end
  return value
end

local function named(text) return text ~= "" and text or nil end

-- Requests by (sender, first response, id); lookups and watches by (sender, type, id); others in order.
local function open_request(conversation, from, row, request, values)
  if row.paired_by == "order" then
    local handshake = row.answers[1] == "CONNECTED"
    if not handshake or not conversation.connected then
      local key = from .. table.concat(row.answers, " ")
      local queue = conversation.ordered[key] or {}
      queue[#queue + 1] = request
      conversation.ordered[key] = queue
    end
  elseif row.paired_by == "request_id" then
    local id = first(values[row.ids.request_id or "request_id"])
    if id and id ~= "-1" and not (row.sender == "both" and from == BROKER) then
      conversation.requests[from .. row.answers[1] .. " " .. id] = request
    end
  elseif row.paired_by == "session_id" or row.paired_by == "watch_id" then
    local id = first(values[row.paired_by])
    if id then conversation.keyed[from .. row.number .. " " .. id] = request end
  end
end

local function accepts(request, row)
  for _, name in ipairs(request.row.answers) do if name == row.name then return true end end
  return false
end

local function find_request(conversation, from, row, values)
  local asker = from == CLIENT and BROKER or CLIENT
  local id = first(values[row.ids.request_id or "request_id"])
  local found, place
  for _, group in ipairs(row.groups) do
    local key = id and asker .. group .. " " .. id
    local request = key and conversation.requests[key]
    if request and accepts(request, row) and (not found or request.number < found.number) then
      found, place = request, key
    end
  end
  if found then
    conversation.requests[place] = nil
    return found
  end
  local waiting = id and conversation.waiting[asker .. id]
  if waiting and accepts(waiting, row) then
    conversation.waiting[asker .. id] = nil
    return waiting
  end
  for _, other in ipairs(row.keyed) do
    local own = first(values[COMMANDS[other].paired_by])
    local key = own and asker .. other .. " " .. own
    local request = key and conversation.keyed[key]
    if request then
      conversation.keyed[key] = nil
      return request
    end
  end
  for _, answers in ipairs(row.queues) do
    local queue = conversation.ordered[asker .. answers]
    if queue and queue[1] then return table.remove(queue, 1) end
  end
  return nil
end

local function pair_sends(conversation, row, request, values)
  local producer = conversation.producers[values.producer_id or ""]
  if not producer or not values.sequence_id then return nil end
  local queue = producer.sends[values.sequence_id] or {}
  if row.number == SEND then
    queue[#queue + 1] = request
    producer.sends[values.sequence_id] = queue
    return nil
  end
  local found = table.remove(queue, 1)
  if not queue[1] then producer.sends[values.sequence_id] = nil end
  return found
end

local function peer_of(conversation, row, values)
  if values.producer_id and row.ids.producer_id then
    local known = conversation.producers[values.producer_id]
    if not known and row.number == SEND then
      known = {id = values.producer_id, sends = {}, about = {}}
      conversation.producers[values.producer_id] = known
    end
    return known
  end
  if values.consumer_id and row.ids.consumer_id then return conversation.consumers[values.consumer_id] end
  return nil
end

local function opened(conversation, row, values)
  if row.name == "PRODUCER" and values.producer_id and values.topic then
    conversation.producers[values.producer_id] =
      {id = values.producer_id, topic = full_topic(values.topic), producer_name = named(values.producer_name), sends = {},
       about = {}}
  elseif row.ids.subscription and row.ids.consumer_id and values.consumer_id and values.topic then
    conversation.consumers[values.consumer_id] = {
      id = values.consumer_id, topic = full_topic(values.topic), subscription = values.subscription,
      consumer_name = named(values.consumer_name), consumer = true, about = {},
    }
  end
end

-- Returns what is known about a frame from other frames. Frames of a producer or consumer share the table.
local function about_of(peer, answered, metadata)
  if not peer then
    local producer_name = metadata.producer_name
    if not answered and not producer_name then return nil end
    return {topic = answered and answered.topic, subscription = answered and answered.subscription, producer_name = producer_name}
  end
  local producer_name = peer.producer_name or metadata.producer_name
  local shared = peer.about[producer_name or ""]
  if not shared then
    shared = {
      topic = peer.topic, subscription = peer.subscription, consumer_name = peer.consumer_name,
      producer_name = producer_name, [peer.consumer and "consumer_id" or "producer_id"] = peer.id,
    }
    peer.about[producer_name or ""] = shared
  end
  return shared
end

-- Collects what a frame shows and returns its number; called once for each frame, in order.
local function observe(pinfo, row, values, metadata)
  frame_count = frame_count + 1
  local conversation = conversation_of(f_stream() and f_stream().value or 0)
  local from = sender_of(conversation, row, pinfo)
  frames.sender[frame_count], frames.packet[frame_count] = from, pinfo.number
  if not row then return frame_count end
  local time = f_time().value
  local request = {number = frame_count, seconds = time.secs, nanoseconds = time.nsecs, row = row}
  opened(conversation, row, values)
  local peer = peer_of(conversation, row, values)
  request.peer = peer
  local answered
  if row.number == SEND or row.number == SEND_RECEIPT or row.number == SEND_ERROR then
    answered = pair_sends(conversation, row, request, values)
  else
    if row.responds then answered = find_request(conversation, from, row, values) end
    if row.paired_by ~= "" then open_request(conversation, from, row, request, values) end
  end
  if row.name == "CONNECTED" then conversation.connected = true end
  if answered then
    frames.request[frame_count], frames.response[answered.number] = answered.number, frame_count
    frames.latency[frame_count] = (time.secs - answered.seconds) * 1e9 + time.nsecs - answered.nanoseconds
    if row.name == "PRODUCER_SUCCESS" then
      if answered.peer and values.producer_name then answered.peer.producer_name = values.producer_name end
      if values.producer_ready == false then
        conversation.waiting[(from == CLIENT and BROKER or CLIENT) .. (values.request_id or "")] = answered
      end
    end
    peer = peer or answered.peer
    if row.name == "SUCCESS" and answered.peer then
      local closed = answered.row.name
      if closed == "CLOSE_PRODUCER" then conversation.producers[answered.peer.id] = nil end
      if closed == "CLOSE_CONSUMER" or closed == "UNSUBSCRIBE" then conversation.consumers[answered.peer.id] = nil end
    end
  end
  if row.paired_by ~= "" and row.ids.topic then
    local topic = first(values[row.ids.topic])
    request.topic = topic and full_topic(topic)
    request.subscription = row.ids.subscription and first(values[row.ids.subscription])
  end
  frames.about[frame_count] = about_of(peer, answered, metadata)
  return frame_count
end
