// Part of reading the configuration file: [rnic.pfc].
#pragma once

#include "daemon/config/config.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// The port of an RNIC on a [[network]] holds one frame more for each worker.
inline constexpr std::uint32_t kMaxXoffFramesOnNetwork = 255;

/// A list of priorities as bits.
void read_priorities(TableReader& reader, const char* key, std::uint8_t& priorities);

/// The [rnic.pfc] table of an RNIC.
void read_pfc(TableReader& reader, RnicConfig& rnic);

/// After all other tables: what an RNIC on a [[network]] has from it, and RNICs that could never ask for a
/// pause.
void finish_pfc(Config& config);

}  // namespace urnic::daemon
