// What `urnic top` shows: tables of RNICs and QPs with their rates, as lines of plain ASCII for a terminal of
// any size.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace urnic::cli {

/// Two answers of one daemon.
struct TopSample {
    const nlohmann::ordered_json& now;
    /// Null: there is none yet, and no rate.
    const nlohmann::ordered_json& earlier;
    double seconds = 0;  // between them
};

struct TopLine {
    enum class Style { kPlain, kTitle, kHead, kChosenHead };
    std::string text;
    Style style = Style::kPlain;
};

/// What somebody looks at, which keys change.
class TopPage {
  public:
    /// `device`: the RNIC that is shown with its QPs; empty: all are.
    explicit TopPage(std::string device = "") : device_(std::move(device)) {}
    /// Throws LaunchError when the daemon has no such RNIC.
    void check_device(const nlohmann::ordered_json& status) const;

    enum class Key {
        kUp,
        kDown,
        kPageUp,
        kPageDown,
        kOtherTable,
        kSort,     // by the next column
        kReverse,  // the other way round
        kPause,
        kHelp
    };

    void press(Key key);
    [[nodiscard]] bool is_paused() const { return is_paused_; }

    /// At most `height` lines of at most `width` characters, of printable ASCII whatever programs call
    /// themselves. Throws LaunchError when the daemon's answer is not that of this release.
    [[nodiscard]] std::vector<TopLine> lines(const TopSample& sample, std::size_t width, std::size_t height);

  private:
    enum Table : std::size_t { kRnics, kQps, kNumTables };
    /// How a table is looked at.
    struct Look {
        std::size_t sorted_by = 0;
        bool is_reversed = false;
        std::size_t first = 0;  // row that is shown
        std::size_t page = 1;   // rows that were shown last
    };

    [[nodiscard]] std::vector<TopLine> page(const TopSample& sample, std::size_t height);
    void add_table(std::vector<TopLine>& to, Table table, const TopSample& sample, std::size_t rows);

    std::string device_;
    std::array<Look, kNumTables> looks_{};
    Table chosen_ = kRnics;
    bool is_paused_ = false;
    bool is_help_ = false;
};

}  // namespace urnic::cli
