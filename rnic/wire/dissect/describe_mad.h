// Management datagrams as layers of text.
#pragma once

#include <span>
#include <vector>

#include "rnic/wire/dissect/describe.h"

namespace urnic::wire {

/// Appends the layers of a MAD: the common header or the whole of a directed route SMP, what the class has in
/// front of its data (M_Key; RMPP and SA header), and the attribute's own, of a table each whole record. What
/// was not captured is left out.
void add_mad(std::span<const std::byte> payload, std::vector<Layer>& layers);

}  // namespace urnic::wire
