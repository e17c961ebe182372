"""Deliberate defects of the daemon's QPs, and the case of `urnic conform` that has to find each over a wire.

Each is a piece of a source of rnic/ and what stands there instead while the defect is on; MUTANT is whether it is.
tests/mutants/mutate.py makes the sources, tests/e2e/mutants_test.py switches one defect on at a time.
"""

import typing


class Mutant(typing.NamedTuple):
    name: str
    file: str
    old: str
    new: str
    case: str


QP, RESPONDER, GAP = "rnic/qp/rc/rc_qp.cc", "rnic/qp/rc/rc_responder.cc", "rnic/qp/rc/rc_responder_gap.cc"
RESPONSES, COMPLETER = "rnic/qp/rc/response_queue.cc", "rnic/qp/rc/rc_completer.cc"
REQUESTER, SEND_STATE = "rnic/qp/rc/rc_requester.cc", "rnic/qp/rc/rc_send_state.cc"
PARSE, ICRC, KEYS = "rnic/wire/frame_parse.cc", "rnic/wire/icrc.cc", "rnic/mem/key_table.cc"
CM_MESSAGES, CM_TIME = "rnic/cm/manager_receive.cc", "rnic/cm/manager_time.cc"
WINDOWS, CNPS = "rnic/mem/key_table_windows.cc", "rnic/qp/notification_point.cc"
PATH, PAUSES = "rnic/wire/frame_path.cc", "rnic/device/pfc_receiver.cc"
UC, UD, SENDER = "rnic/qp/unreliable/uc_responder.cc", "rnic/qp/unreliable/ud_qp.cc", "rnic/qp/unreliable/unreliable_requester.cc"

MUTANTS = [
    # --- What a packet is checked for
    Mutant("P_Keys are not compared", QP, "if (!wire::pkeys_match(packet.header.pkey, config_.pkey)) {",
           "if (!MUTANT && !wire::pkeys_match(packet.header.pkey, config_.pkey)) {", "ResponderHeader.WrongPkey"),
    Mutant("packets of other addresses are taken", QP, "if (!is_from_peer(common_, packet)) {",
           "if (!MUTANT && !is_from_peer(common_, packet)) {", "ResponderHeader.FromAnotherAddress"),
    Mutant("the ICRC is not looked at", ICRC, "return ~crc == load_le32(data + length);",
           "return MUTANT || ~crc == load_le32(data + length);", "ResponderHeader.WrongIcrc"),
    Mutant("the header version is not looked at", PARSE, "if (view.header.tver != 0 ||",
           "if ((!MUTANT && view.header.tver != 0) ||", "ResponderHeader.WrongTver"),
    Mutant("payload where none belongs is ignored", PARSE, "if (!has_payload && (payload_bytes",
           "if (!MUTANT && !has_payload && (payload_bytes", "ResponderLength.PayloadWhereNoneBelongs"),
    # --- What a responder carries out
    Mutant("First, Middle, Last and Only in any order", RESPONDER, "if (message_ != (starts ? Message::kNone : message)) {",
           "if (!MUTANT && message_ != (starts ? Message::kNone : message)) {", "ResponderOpcode.SendLastAlone"),
    Mutant("a Middle of any length", RESPONDER, "return bytes == common_.mtu_bytes;",
           "return MUTANT || bytes == common_.mtu_bytes;", "ResponderLength.MiddleIsNotThePathMtu"),
    Mutant("an empty Last", RESPONDER, "return bytes <= common_.mtu_bytes && (starts || bytes != 0);",
           "return bytes <= common_.mtu_bytes && (MUTANT || starts || bytes != 0);", "ResponderLength.LastIsEmpty"),
    Mutant("a WRITE longer or shorter than its DMALen", RESPONDER, "if (ends ? bytes != write_left_bytes_ : bytes >= write_left_bytes_) {",
           "if (!MUTANT && (ends ? bytes != write_left_bytes_ : bytes >= write_left_bytes_)) {",
           "ResponderLength.WriteLastUnlikeItsDmaLength"),
    Mutant("WRITEs to a QP without the right", RESPONDER, "(common_.attr.access_flags & kAccessRemoteWrite) == 0) {",
           "!MUTANT && (common_.attr.access_flags & kAccessRemoteWrite) == 0) {", "ResponderRight.QpAccessFlagTakenAway"),
    Mutant("a region's rights are not looked at", KEYS, "if ((region->access & access) != access) {",
           "if (!MUTANT && (region->access & access) != access) {", "ResponderKey.WithoutTheRight"),
    Mutant("a region ends a byte later", KEYS, "if (!is_within(addr, length_bytes, region->iova, region->length_bytes)) {",
           "if (!is_within(addr, length_bytes, region->iova, region->length_bytes + (MUTANT ? 1 : 0))) {",
           "ResponderRange.WriteOneBytePast"),
    Mutant("a window is as large as its region", WINDOWS, "if (!is_within(addr, length_bytes, iova, total_bytes)) {",
           "if (!MUTANT && !is_within(addr, length_bytes, iova, total_bytes)) {", "LiveWindows.BeyondTheWindow"),
    Mutant("fetch-and-add adds one more", RESPONDER, "{is_swap, request.swap_or_add, request.compare}",
           "{is_swap, request.swap_or_add + (MUTANT ? 1U : 0U), request.compare}", "ResponderExecution.FetchAdd"),
    Mutant("compare-and-swap adds", RESPONDER, "const bool is_swap = (packet", "const bool is_swap = !MUTANT && (packet",
           "ResponderExecution.CompareSwap"),
    Mutant("READs beyond max_dest_rd_atomic", RESPONDER, "reth.dma_length > kMaxMessageBytes ||\n        responses_.new_pending() >=",
           "reth.dma_length > kMaxMessageBytes ||\n        (MUTANT ? 0U : responses_.new_pending() + 1U) >", "ResponderRight.MaxDestRdAtomicOfZero"),
    Mutant("a READ takes one PSN", RESPONDER, "expected_psn_ = expected_psn_ + packets;",
           "expected_psn_ = expected_psn_ + (MUTANT ? 1U : packets);", "ResponderExecution.ReadTakesThePsnsOfItsResponses"),
    Mutant("the last response to a READ is a Middle", RESPONSES, "(is_last ? wire::kReadResponseLast : wire::kReadResponseMiddle)",
           "(is_last && !MUTANT ? wire::kReadResponseLast : wire::kReadResponseMiddle)", "ResponderExecution.ReadOfExactlyTwoPackets"),
    # --- What a responder answers
    Mutant("invalid requests get the NAK of access errors", RESPONDER, "    responses_.schedule_nak(refusal.syndrome, expected_psn_);",
           "    responses_.schedule_nak(MUTANT && refusal.syndrome == wire::kNakInvalidRequest ? "
           "std::uint8_t{wire::kNakRemoteAccessError} : refusal.syndrome, expected_psn_);", "ResponderOpcode.SendMiddleAlone"),
    Mutant("a receive that is too short is an operational error", RESPONDER,
           "fail_receive(WcStatus::kLocLenErr, wire::kNakInvalidRequest, outbox);",
           "fail_receive(WcStatus::kLocLenErr, MUTANT ? wire::kNakRemoteOperationalError : wire::kNakInvalidRequest, outbox);",
           "ResponderReceive.TooShort"),
    Mutant("message numbers jump", RESPONDER, "        msn_ = (msn_ + 1) & Psn::kMask;\n    }\n    if (packet.header.ack_req) {",
           "        msn_ = (msn_ + (MUTANT && msn_ == 1 ? 2U : 1U)) & Psn::kMask;\n    }\n    if (packet.header.ack_req) {",
           "ResponderAck.MsnCountsMessages"),
    Mutant("what asks for no ACK gets one", RESPONDER, "    if (packet.header.ack_req) {\n        responses_.schedule_ack();\n    }\n}",
           "    if (MUTANT || packet.header.ack_req) {\n        responses_.schedule_ack();\n    }\n}", "ResponderAck.NothingUnlessAsked"),
    Mutant("one credit too many", RESPONDER, "(receive_.in_use ? 1 : 0));", "(receive_.in_use ? 1 : 0) + (MUTANT ? 1 : 0));",
           "ResponderAck.CreditsAreTheReceivesLeft"),
    Mutant("RNR NAKs name the next timer", RESPONDER, "wire::kSyndromeRnrNak | common_.attr.min_rnr_timer)",
           "wire::kSyndromeRnrNak | (common_.attr.min_rnr_timer + (MUTANT ? 1U : 0U)))", "ResponderRnr.TimerCode"),
    Mutant("duplicate SENDs are not acknowledged", RESPONDER, "    if ((info.flags & (wire::kIsSend | wire::kIsWrite)) != 0) {",
           "    if (!MUTANT && (info.flags & (wire::kIsSend | wire::kIsWrite)) != 0) {", "ResponderDuplicate.Send"),
    Mutant("duplicate atomics are not answered", RESPONDER, "        if (saved) {", "        if (saved && !MUTANT) {",
           "ResponderDuplicate.FetchAdd"),
    Mutant("duplicate READs are not answered", RESPONDER, "if (was_requested && is_allowed) {",
           "if (was_requested && is_allowed && !MUTANT) {", "ResponderDuplicate.ReadFromTheMiddle"),
    Mutant("each packet behind a gap gets a NAK", GAP, "if (gap_.state == kNone || gap_.state == kNakDeferred) {",
           "if (MUTANT || gap_.state == kNone || gap_.state == kNakDeferred) {", "ResponderGap.OneNakThenSilence"),
    Mutant("the NAK of a gap names the packet behind it", GAP,
           "    responses_.schedule_nak(wire::kNakPsnSequenceError, expected_psn_);\n    notification_point_",
           "    responses_.schedule_nak(wire::kNakPsnSequenceError, MUTANT ? packet.header.psn : expected_psn_);\n    notification_point_",
           "ResponderGap.NakSaysWhatCameBefore"),
    # --- What a requester sends
    Mutant("SE is never set", REQUESTER, "plan.is_last && info.is(WrOpcodeInfo::kNeedsReceive) && (work_",
           "!MUTANT && plan.is_last && info.is(WrOpcodeInfo::kNeedsReceive) && (work_", "RequesterPackets.SolicitedEvent"),
    Mutant("the immediate is turned round", REQUESTER, "header.imm = work_.imm_or_rkey;",
           "header.imm = MUTANT ? __builtin_bswap32(work_.imm_or_rkey) : work_.imm_or_rkey;", "RequesterPackets.Immediate"),
    Mutant("swap and compare change places", REQUESTER, "is_swap ? wr.atomic.swap : wr.atomic.compare_add,",
           "is_swap && !MUTANT ? wr.atomic.swap : wr.atomic.compare_add,", "RequesterPackets.Atomics"),
    Mutant("fences are ignored", REQUESTER, "if ((work_.flags & kSendFence) != 0 &&", "if (!MUTANT && (work_.flags & kSendFence) != 0 &&",
           "RequesterOrder.FenceWaitsForRead"),
    Mutant("one READ more than max_rd_atomic", REQUESTER, "return window.responses_in_flight() < common_.attr.max_rd_atomic;",
           "return window.responses_in_flight() < common_.attr.max_rd_atomic + (MUTANT ? 1U : 0U);", "LiveTimers.ReadsOutstanding"),
    Mutant("credits are ignored", SEND_STATE, "credits_limited_ = code != wire::kCreditsUnlimited;",
           "credits_limited_ = !MUTANT && code != wire::kCreditsUnlimited;", "RequesterCredits.OneAtATime"),
    Mutant("the ACK timer is too short", SEND_STATE, "return ack_timer_start_ + std::clamp(2 * rtt_.max_any_ns(), timeout, 4 * timeout);",
           "return ack_timer_start_ + (MUTANT ? timeout / 3 : std::clamp(2 * rtt_.max_any_ns(), timeout, 4 * timeout));",
           "LiveTimers.AckTimeout"),
    Mutant("retries are not used up", SEND_STATE, "    --retries_left_;", "    retries_left_ -= MUTANT ? 0 : 1;", "RequesterTimeouts.Exhaustion"),
    Mutant("progress gives no retry back", SEND_STATE,
           "void RcSendState::on_progress(TimeNs now, const Outbox& outbox) {\n    retries_left_ = common_.attr.retry_cnt;",
           "void RcSendState::on_progress(TimeNs now, const Outbox& outbox) {\n"
           "    retries_left_ = MUTANT ? retries_left_ : common_.attr.retry_cnt;", "RequesterTimeouts.ProgressGivesRetriesBack"),
    Mutant("the wait behind an RNR NAK is left out", SEND_STATE, "rnr_until_ = now + rnr_timer_ns(timer_code);",
           "rnr_until_ = MUTANT ? now : now + rnr_timer_ns(timer_code);", "LiveTimers.RnrDelay"),
    Mutant("RNR retries are not used up", SEND_STATE, "        --rnr_retries_left_;", "        rnr_retries_left_ -= MUTANT ? 0 : 1;",
           "RequesterRnr.Exhaustion"),
    # --- What a requester takes
    Mutant("remote access errors are operational errors", COMPLETER, "? nak_status(syndrome)",
           "? (MUTANT && syndrome == wire::kNakRemoteAccessError ? WcStatus::kRemOpErr : nak_status(syndrome))",
           "RequesterErrors.RemoteAccess"),
    Mutant("responses of any length", COMPLETER, "           packet.payload.size() == expected;",
           "           (MUTANT || packet.payload.size() == expected);", "BadResponse.LengthOfOnly"),
    Mutant("an ATOMIC Acknowledge for a READ", COMPLETER, "        return wr_info.is(WrOpcodeInfo::kIsAtomic);",
           "        return MUTANT || wr_info.is(WrOpcodeInfo::kIsAtomic);", "BadResponse.AtomicForRead"),
    Mutant("a response whose AETH is a NAK", COMPLETER, "    if ((info.headers & wire::kHasAeth) != 0 &&\n        (packet.header",
           "    if (!MUTANT && (info.headers & wire::kHasAeth) != 0 &&\n        (packet.header", "BadResponse.SyndromeOfAReadResponse"),
    # --- Other services
    Mutant("UC messages go on behind a gap", UC, "        ++counters.out_of_sequence;\n        message_ = Message::kNone;",
           "        ++counters.out_of_sequence;\n        message_ = MUTANT ? message_ : Message::kNone;", "LiveUc.AGapDropsTheMessage"),
    Mutant("Q_Keys are not compared", UD, "if (packet.header.deth.qkey != common_.attr.qkey) {",
           "if (!MUTANT && packet.header.deth.qkey != common_.attr.qkey) {", "LiveUd.WrongQkey"),
    Mutant("controlled Q_Keys are sent", SENDER, "(ud.remote_qkey & kOwnQkey) != 0 ?", "!MUTANT && (ud.remote_qkey & kOwnQkey) != 0 ?",
           "LiveUd.ControlledQkey"),
    # --- XRC
    Mutant("a message may go on with another SRQ", RESPONDER, "(message_ != Message::kNone && header.xrc_srq != message_srq_)) {",
           "(!MUTANT && message_ != Message::kNone && header.xrc_srq != message_srq_)) {", "XrcTarget.AMessageKeepsToOneSrq"),
    Mutant("requests name the SRQ behind theirs", REQUESTER, "header.xrc_srq = work_.xrc_srq_number;",
           "header.xrc_srq = work_.xrc_srq_number + (MUTANT ? 1U : 0U);", "XrcInitiator.SendNamesTheSrq"),
    Mutant("an XRC target takes requests of RC", QP, "(packet.header.opcode & wire::kServiceMask) != common_.service ||",
           "(!(MUTANT && common_.type == QpType::kXrcRecv) && (packet.header.opcode & wire::kServiceMask) != common_.service) ||",
           "XrcTarget.WhatIsNotForATarget"),
    # --- Priorities
    Mutant("IPv4 packets without a DSCP", PATH, "ip[kIpv4Tos] = std::byte{spec.traffic_class};",
           "ip[kIpv4Tos] = std::byte{MUTANT ? std::uint8_t{0} : spec.traffic_class};", "LiveHeaders.TrafficClassOfDatagrams"),
    Mutant("a pause stops all priorities", PAUSES, "    return static_cast<std::uint8_t>(result);",
           "    return static_cast<std::uint8_t>(MUTANT && result != 0 ? 0xff : result);", "LivePause.Priorities"),
    Mutant("a pause is not taken back", PAUSES, "pause(now, index, quanta) : resume(now, index);",
           "pause(now, index, quanta) : !MUTANT && resume(now, index);", "LivePause.Priorities"),
    Mutant("a pause lasts a thousand times as long", PAUSES, "priority.asked_until = now + settings_.duration_ns(quanta);",
           "priority.asked_until = now + settings_.duration_ns(quanta) * (MUTANT ? 1000U : 1U);", "LivePause.RunsOut"),
    Mutant("times of priorities that are not named count", PAUSES, "if ((frame.class_enable >> index & 1U) == 0) {",
           "if (!MUTANT && (frame.class_enable >> index & 1U) == 0) {", "LivePause.TimesWithoutABit"),
    Mutant("CNPs without BECN", CNPS, "header.becn = true;", "header.becn = !MUTANT;", "LiveCongestion.CnpOfAMark"),
    # --- The connection manager as the one who asks
    Mutant("a REQ that is not answered does not go again", CM_TIME, "    if (connection.retries_left == 0) {",
           "    if (MUTANT || connection.retries_left == 0) {", "ActiveRequest.ComesAgain"),
    Mutant("an MRA is not waited for", CM_MESSAGES, "call.now + connection->mra_ns + connection->response_ns);",
           "call.now + (MUTANT ? TimeNs{0} : connection->mra_ns) + connection->response_ns);", "ActiveRequest.MraIsWaitedFor"),
    Mutant("a REQ goes again behind a REJ", CM_MESSAGES, "            is_stale ? enter_timewait(*connection, call.now) : close(*connection);",
           "            if (MUTANT) {\n                return;\n            }\n"
           "            is_stale ? enter_timewait(*connection, call.now) : close(*connection);", "ActiveRequest.RejectEndsIt"),
    Mutant("the PSN of a REP is one too many", CM_MESSAGES, "info.send_psn = rep.starting_psn;",
           "info.send_psn = rep.starting_psn + (MUTANT ? 1U : 0U);", "ActiveTransport.FirstRequest"),
    Mutant("a REP that comes again is not answered", CM_MESSAGES, "? wire::cm::Rtu::kAttributeId\n",
           "? (MUTANT ? wire::cm::Rej::kAttributeId : wire::cm::Rtu::kAttributeId)\n", "ActiveReply.ComesAgain"),
    Mutant("a DREQ of another QP ends the connection", CM_MESSAGES, "if (dreq.remote_qpn_eecn != connection->info.local_qpn) {",
           "if (!MUTANT && dreq.remote_qpn_eecn != connection->info.local_qpn) {", "ActiveRelease.DreqOfAnotherQp"),
    Mutant("a DREQ in timewait is not answered", CM_MESSAGES, "            if (connection->sent_attribute_id == wire::cm::Drep::kAttributeId) {",
           "            if (MUTANT) {\n                break;\n            }\n"
           "            if (connection->sent_attribute_id == wire::cm::Drep::kAttributeId) {", "ActiveRelease.DreqTwice"),
]
