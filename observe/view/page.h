// A log of events as one HTML file that needs nothing else.
#pragma once

#include <ostream>
#include <string>

#include "observe/view/event_log.h"

namespace urnic::view {

/// The log with its findings, as the page reads it: JSON in which no text is markup. `shortfall`: what is not
/// shown, in words.
void write_data(std::ostream& out, const EventLog& log, const std::string& source,
                const std::string& shortfall);

/// Everything of the log is data in it: nothing becomes markup or program, whatever its names are. `source`:
/// where the events come from.
void write_page(std::ostream& out, const EventLog& log, const std::string& source);

/// What diagnose() says of every connection, for a terminal; names have no control characters in it.
void write_text(std::ostream& out, const EventLog& log);

}  // namespace urnic::view
