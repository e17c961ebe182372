// A whole terminal, by curses.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cli/top_page.h"

struct screen;  // curses' SCREEN

namespace urnic::cli {

/// Takes the terminal of standard input and output; the destructor gives it back as it was.
class TopScreen {
  public:
    /// Throws LaunchError when they are no terminal, or nothing is known of its type.
    TopScreen();
    TopScreen(const TopScreen&) = delete;
    TopScreen& operator=(const TopScreen&) = delete;
    ~TopScreen();

    [[nodiscard]] std::size_t width() const;
    [[nodiscard]] std::size_t height() const;
    void show(const std::vector<TopLine>& lines);

    struct Event {
        enum class Kind { kTimeout, kKey, kResized, kQuit };
        Kind kind = Kind::kTimeout;
        TopPage::Key key = TopPage::Key::kHelp;
    };
    /// Waits for a key, a new size or the end of the time. The end of the terminal is kQuit.
    [[nodiscard]] Event wait(int timeout_ms);

  private:
    ::screen* screen_;
};

}  // namespace urnic::cli
