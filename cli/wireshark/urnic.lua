-- Post-dissector for RoCE v2 and native InfiniBand: the verdict on the ICRC, what a PSN says about its packet (retransmission,
-- duplicate, out of order, packets missing before it), response times, FLUSH and ATOMIC WRITE, and what urnic capture
-- has noted. For Wireshark and tshark from 3.6 on; docs/observe.md has its fields.

local bxor, band, rshift
if bit32 then
    bxor, band, rshift = bit32.bxor, bit32.band, bit32.rshift
elseif bit then
    bxor, band, rshift = bit.bxor, bit.band, bit.rshift
else
    bxor, band, rshift = load("return function(a, b) return a ~ b end, function(a, b) return a & b end, " ..
                              "function(a, n) return a >> n end")()
end

local proto = Proto("urnic", "RDMA analysis (urnic)")
local fields = {
    opcode = ProtoField.string("urnic.opcode", "Opcode"),
    icrc = ProtoField.string("urnic.icrc", "ICRC verdict"),
    icrc_expected = ProtoField.uint32("urnic.icrc.expected", "ICRC would be right as", base.HEX),
    fate = ProtoField.string("urnic.fate", "What became of it"),
    drop = ProtoField.string("urnic.drop", "Counter of the drop"),
    qpn = ProtoField.uint32("urnic.qpn", "QP of the RNIC that captured", base.HEX),
    state = ProtoField.string("urnic.state", "State of that QP"),
    expected_psn = ProtoField.uint32("urnic.expected_psn", "Its next expected PSN"),
    next_psn = ProtoField.uint32("urnic.next_psn", "Its next PSN to send"),
    stream_packet = ProtoField.uint32("urnic.stream.packet", "Packet of this stream"),
    stream_psn = ProtoField.uint32("urnic.stream.psn", "PSN relative to the stream's first"),
    retransmission = ProtoField.bool("urnic.retransmission", "Retransmission: this PSN was sent before"),
    duplicate = ProtoField.bool("urnic.duplicate", "Duplicate: this PSN was received before"),
    out_of_order = ProtoField.bool("urnic.out_of_order", "Out of order: later PSNs came before it"),
    missing = ProtoField.uint32("urnic.missing", "PSNs missing before this one"),
    first_frame = ProtoField.framenum("urnic.first_frame", "First seen in"),
    request_frame = ProtoField.framenum("urnic.request_frame", "Answers the request in", base.NONE, frametype.REQUEST),
    response_time = ProtoField.double("urnic.response_time", "Response time (s)"),
    flush_type = ProtoField.uint32("urnic.flush.type", "FLUSH placement type", base.HEX),
    flush_level = ProtoField.uint32("urnic.flush.level", "FLUSH selectivity level", base.HEX),
    va = ProtoField.uint64("urnic.va", "Virtual address", base.HEX),
    rkey = ProtoField.uint32("urnic.rkey", "R_Key", base.HEX),
    length = ProtoField.uint32("urnic.length", "Length"),
    value = ProtoField.uint64("urnic.atomic_write.value", "ATOMIC WRITE value", base.HEX),
}
local list = {}
for _, field in pairs(fields) do list[#list + 1] = field end
proto.fields = list
local bad_icrc = ProtoExpert.new("urnic.icrc.bad", "The ICRC is wrong", expert.group.CHECKSUM, expert.severity.ERROR)
local seen_again = ProtoExpert.new("urnic.seen_again", "This PSN was seen before", expert.group.SEQUENCE, expert.severity.NOTE)
local gap = ProtoExpert.new("urnic.gap", "Packets are missing before this one", expert.group.SEQUENCE, expert.severity.WARN)
local late = ProtoExpert.new("urnic.late", "Later packets came before this one", expert.group.SEQUENCE, expert.severity.WARN)
proto.experts = {bad_icrc, seen_again, gap, late}

local f_interface = Field.new("frame.interface_id")
local f_direction = Field.new("frame.packet_flags_direction")
local f_comment = Field.new("frame.comment")
local f_time = Field.new("frame.time_epoch")
local f_lrh = Field.new("infiniband.lrh")

local crc_table = {}
for i = 0, 255 do
    local crc = i
    for _ = 1, 8 do
        crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0xedb88320) or rshift(crc, 1)
    end
    crc_table[i] = crc
end

-- CRC-32 of a string of bytes, as a number from 0 to 2^32 - 1.
local function crc32(bytes)
    local crc = 0xffffffff
    for i = 1, #bytes do
        crc = bxor(rshift(crc, 8), crc_table[band(bxor(crc, bytes:byte(i)), 0xff)])
    end
    return bxor(crc, 0xffffffff) % 4294967296
end

-- `bytes` with what lies at offset `at` (from 0) replaced.
local function put(bytes, at, new)
    return bytes:sub(1, at) .. new .. bytes:sub(at + #new + 1)
end

-- The places of IP header or LRH and BTH in a frame, the end of what the ICRC covers; nil if it is no RDMA packet.
local function locate(tvb)
    if f_lrh() then
        local lnh = band(tvb(1, 1):uint(), 3)
        if lnh < 2 then return nil end
        local length = band(tvb(4, 2):uint(), 0x7ff) * 4
        local bth = lnh == 3 and 48 or 8
        if tvb:captured_len() < bth + 12 then return nil end
        return {l3 = 8, bth = bth, is_infiniband = true, has_grh = lnh == 3, icrc = length - 4, source = tvb(6, 2):uint(),
                destination = tvb(2, 2):uint()}
    end
    if tvb:captured_len() < 14 + 20 + 8 + 12 then return nil end
    local l3 = 14
    local ether_type = tvb(12, 2):uint()
    if ether_type == 0x8100 then
        l3, ether_type = 18, tvb(16, 2):uint()
    end
    local place = {l3 = l3}
    local udp
    if ether_type == 0x0800 and tvb(l3 + 9, 1):uint() == 17 and tvb(l3, 1):uint() == 0x45 then
        udp, place.is_ipv4 = l3 + 20, true
        place.source, place.destination = tostring(tvb(l3 + 12, 4):ipv4()), tostring(tvb(l3 + 16, 4):ipv4())
    elseif ether_type == 0x86dd and tvb:captured_len() >= l3 + 60 and tvb(l3 + 6, 1):uint() == 17 then
        udp = l3 + 40
        place.source, place.destination = tostring(tvb(l3 + 8, 16):ipv6()), tostring(tvb(l3 + 24, 16):ipv6())
    end
    if not udp or tvb(udp + 2, 2):uint() ~= 4791 then return nil end
    place.udp, place.bth = udp, udp + 8
    place.icrc = udp + tvb(udp + 4, 2):uint() - 4
    return place
end

-- The ICRC that the frame should have (IBA 7.8.1, annex A17.3.3): what routers change counts as ones.
local function right_icrc(tvb, place)
    local bytes
    if place.is_infiniband then
        bytes = tvb:raw(0, place.icrc)
        if place.has_grh then
            bytes = put(bytes, 0, ("\255"):rep(8))
            bytes = put(bytes, 8, string.char(0x60 + 0xf) .. "\255\255\255")
            bytes = put(bytes, 8 + 7, "\255")
        else
            bytes = put(bytes, 0, string.char(band(bytes:byte(1), 0x0f) + 0xf0))
        end
        bytes = put(bytes, place.bth + 4, "\255")
    else
        bytes = tvb:raw(place.l3, place.icrc - place.l3)
        local udp, bth = place.udp - place.l3, place.bth - place.l3
        if place.is_ipv4 then
            bytes = put(bytes, 1, "\255")
            bytes = put(bytes, 8, "\255")
            bytes = put(bytes, 10, "\255\255")
        else
            bytes = put(bytes, 0, string.char(band(bytes:byte(1), 0xf0) + 0xf) .. "\255\255\255")
            bytes = put(bytes, 7, "\255")
        end
        bytes = put(bytes, udp + 6, "\255\255")
        bytes = put(bytes, bth + 4, "\255")
        bytes = ("\255"):rep(8) .. bytes
    end
    return crc32(bytes)
end

-- Of RC, and of XRC, which has the same in its low bits: what a packet is. READ and atomic requests take more than one PSN, or
-- wait for one; responses have the PSN of what they answer.
local kinds = {}
for opcode = 0, 11 do kinds[opcode] = "request" end
kinds[12] = "read"
for opcode = 13, 18 do kinds[opcode] = "response" end
for opcode = 19, 20 do kinds[opcode] = "request" end
for opcode = 22, 23 do kinds[opcode] = "request" end
kinds[28], kinds[29] = "request", "request"
local new_names = {[28] = "FLUSH", [29] = "ATOMIC WRITE"}

local streams, requests, results = {}, {}, {}

function proto.init()
    streams, requests, results = {}, {}, {}
end

-- a - b in 24 bits, signed.
local function distance(a, b)
    local d = (a - b) % 16777216
    return d >= 8388608 and d - 16777216 or d
end

local function look_at_psn(stream, psn, kind, frame, is_inbound, result)
    stream.packets = stream.packets + 1
    result.stream_packet, result.stream_psn = stream.packets, (psn - stream.first) % 16777216
    if kind == "response" then return end
    local ahead = distance(psn, stream.next)
    local before = stream.seen[psn]
    if before and ahead < 0 then
        result.first_frame = before
        result[is_inbound and "duplicate" or "retransmission"] = true
    elseif ahead < 0 then
        result.out_of_order = true
    elseif ahead > 0 and not stream.is_open then
        result.missing = ahead
    end
    stream.seen[psn] = before or frame
    if ahead >= 0 then
        stream.next, stream.is_open = (psn + 1) % 16777216, kind == "read"
    end
end

local function analyse(tvb, pinfo, place, opcode)
    local service, kind = math.floor(opcode / 32), kinds[opcode % 32]
    if (service ~= 0 and service ~= 5) or not kind then return {} end
    local psn = tvb(place.bth + 9, 3):uint()
    local queue = tvb(place.bth + 5, 3):uint()
    local interface = f_interface() and f_interface().value or 0
    local direction = f_direction() and f_direction().value or 0
    local key = table.concat({interface, direction, tostring(place.source), tostring(place.destination)}, "|")
    -- Requests and what answers the other end's requests have PSNs of their own.
    local name = table.concat({key, queue, kind == "response" and "r" or "q"}, "|")
    local stream = streams[name]
    if not stream then
        stream = {first = psn, next = psn, packets = 0, seen = {}, is_open = false}
        streams[name] = stream
    end
    local result = {}
    look_at_psn(stream, psn, kind, pinfo.number, direction == 1, result)
    local now = f_time().value
    if kind == "response" then
        -- The same conversation, the other way: that of the packets which this RNIC sends is received.
        local other = direction == 1 and 2 or direction == 2 and 1 or 0
        local asked = requests[table.concat({interface, other, tostring(place.destination), tostring(place.source), psn}, "|")]
        if asked then
            result.request_frame, result.response_time = asked.frame, (now - asked.time):tonumber()
        end
    else
        requests[key .. "|" .. psn] = {frame = pinfo.number, time = now}
    end
    return result
end

-- The headers of opcodes that dissectors of before IBA 1.5 do not know.
local function show_new_headers(tvb, tree, place, opcode)
    local at = place.bth + (opcode < 32 and 12 or 16)  -- behind XRCETH
    local kind = opcode % 32
    local last = math.min(place.icrc, tvb:captured_len())
    if new_names[kind] == nil or last < at + (kind == 28 and 20 or 16) then return end
    if kind == 28 then
        local feth = tvb(at, 4):uint()
        tree:add(fields.flush_type, tvb(at, 4), band(feth, 0xf))
        tree:add(fields.flush_level, tvb(at, 4), band(rshift(feth, 4), 3))
        at = at + 4
    end
    tree:add(fields.va, tvb(at, 8))
    tree:add(fields.rkey, tvb(at + 8, 4))
    tree:add(fields.length, tvb(at + 12, 4))
    if kind == 29 and last >= at + 24 then
        tree:add(fields.value, tvb(at + 16, 8))
    end
end

local function show_comment(tree)
    local comment = f_comment()
    if not comment then return end
    for key, value in comment.value:gmatch("(%a[%a_]*)=(%S+)") do
        local field = fields[key]
        if key == "fate" or key == "drop" or key == "state" then
            tree:add(field, value)
        elseif key == "qpn" or key == "expected_psn" or key == "next_psn" then
            tree:add(field, tonumber(value) or 0)
        end
    end
end

local function show_icrc(tvb, tree, place)
    if tvb:captured_len() < tvb:reported_len() or place.icrc + 4 > tvb:captured_len() or place.icrc <= place.bth then
        tree:add(fields.icrc, "not captured")
        return "not captured"
    end
    local right = right_icrc(tvb, place)
    local verdict = tvb(place.icrc, 4):le_uint() == right and "good" or "BAD"
    tree:add(fields.icrc, tvb(place.icrc, 4), verdict)
    if verdict == "BAD" then
        tree:add(fields.icrc_expected, right)
        tree:add_proto_expert_info(bad_icrc)
    end
    return verdict
end

function proto.dissector(tvb, pinfo, root)
    local place = locate(tvb)
    if not place then return end
    local opcode = tvb(place.bth, 1):uint()
    local result = results[pinfo.number]
    if not result then
        result = analyse(tvb, pinfo, place, opcode)
        results[pinfo.number] = result
    end
    local tree = root:add(proto, tvb())
    local service = math.floor(opcode / 32)
    if new_names[opcode % 32] and (service == 0 or service == 5) then
        local name = (service == 0 and "RC " or "XRC ") .. new_names[opcode % 32]
        tree:add(fields.opcode, tvb(place.bth, 1), name)
        pinfo.cols.info:append(" " .. name)
        show_new_headers(tvb, tree, place, opcode)
    end
    local icrc = show_icrc(tvb, tree, place)
    show_comment(tree)
    for _, name in ipairs({"stream_packet", "stream_psn", "missing", "first_frame", "request_frame", "response_time",
                           "retransmission", "duplicate", "out_of_order"}) do
        if result[name] ~= nil then
            tree:add(fields[name], result[name])
        end
    end
    local words = {}
    if icrc == "BAD" then words[#words + 1] = "BAD ICRC" end
    if result.retransmission then words[#words + 1] = "Retransmission" end
    if result.duplicate then words[#words + 1] = "Duplicate" end
    if result.retransmission or result.duplicate then tree:add_proto_expert_info(seen_again) end
    if result.out_of_order then
        words[#words + 1] = "Out of order"
        tree:add_proto_expert_info(late)
    end
    if result.missing then
        words[#words + 1] = result.missing .. " missing before"
        tree:add_proto_expert_info(gap)
    end
    if #words ~= 0 then pinfo.cols.info:prepend("[" .. table.concat(words, ", ") .. "] ") end
end

register_postdissector(proto)
