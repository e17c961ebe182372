// unity=off: curses has macros of ordinary names.
#include "cli/top_screen.h"

#include <curses.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace {

/// A key alone is not told from the beginning of an arrow's sequence before so long.
constexpr int kEscapeMs = 25;

int attributes(TopLine::Style style) {
    switch (style) {
        case TopLine::Style::kTitle:
            return static_cast<int>(A_BOLD);
        case TopLine::Style::kHead:
            return static_cast<int>(A_UNDERLINE);
        case TopLine::Style::kChosenHead:
            return static_cast<int>(A_REVERSE);
        case TopLine::Style::kPlain:
            break;
    }
    return static_cast<int>(A_NORMAL);
}

std::optional<TopPage::Key> key_of(int code) {
    using Key = TopPage::Key;
    switch (code) {
        case KEY_UP:
            return Key::kUp;
        case KEY_DOWN:
            return Key::kDown;
        case KEY_PPAGE:
            return Key::kPageUp;
        case KEY_NPAGE:
            return Key::kPageDown;
        case KEY_LEFT:
        case KEY_RIGHT:
        case '\t':
            return Key::kOtherTable;
        case 's':
            return Key::kSort;
        case 'r':
            return Key::kReverse;
        case 'p':
            return Key::kPause;
        case 'h':
        case '?':
            return Key::kHelp;
        default:
            return {};
    }
}

}  // namespace

TopScreen::TopScreen() {
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
        throw LaunchError(
            "urnic top needs a terminal as its standard input and output: run it in one, or use urnic status "
            "--watch");
    }
    screen_ = newterm(nullptr, stdout, stdin);
    if (screen_ == nullptr) {
        const char* const type = std::getenv("TERM");
        throw LaunchError(
            fmt::format("nothing is known of terminals of type '{}' (TERM), or they cannot move the cursor: "
                        "set TERM to the "
                        "type of this one, xterm for example, or use urnic status --watch",
                        type == nullptr ? "" : type));
    }
    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)set_escdelay(kEscapeMs);
    (void)curs_set(0);
}

TopScreen::~TopScreen() {
    (void)endwin();
    delscreen(screen_);
}

std::size_t TopScreen::width() const { return static_cast<std::size_t>(getmaxx(stdscr)); }

std::size_t TopScreen::height() const { return static_cast<std::size_t>(getmaxy(stdscr)); }

void TopScreen::show(const std::vector<TopLine>& lines) {
    (void)erase();
    int row = 0;
    for (const TopLine& line : lines) {
        (void)attrset(attributes(line.style));
        (void)mvaddnstr(row++, 0, line.text.data(), static_cast<int>(line.text.size()));
    }
    (void)attrset(static_cast<int>(A_NORMAL));
    (void)refresh();
}

TopScreen::Event TopScreen::wait(int timeout_ms) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    // A signal, which a new size is, ends it.
    const int ready = poll(&input, 1, timeout_ms);
    const int code = getch();
    if (code == KEY_RESIZE) return {Event::Kind::kResized};
    if (code == 'q') return {Event::Kind::kQuit};
    // The terminal has ended, or its input has.
    if (code == ERR && ready > 0) return {Event::Kind::kQuit};
    const std::optional<TopPage::Key> key = key_of(code);
    return key ? Event{Event::Kind::kKey, *key} : Event{};
}

}  // namespace urnic::cli
