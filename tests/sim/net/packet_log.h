// What went over the links of a simulated network: a text file with a line a frame and a pcap file beside it.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/time.h"

namespace urnic::sim {

class PacketLog {
  public:
    /// Writes `base`.txt, and `base`.pcap with every frame as it was put on a link, lost ones included.
    /// Throws std::runtime_error when a file cannot be made.
    explicit PacketLog(const std::string& base);

    /// `link` as "A>switch"; `fate` is empty for a frame that arrives whole and in time.
    void frame(TimeNs now, const std::string& link, std::span<const std::byte> bytes, const char* fate);
    /// Something that is not a frame: a request, a completion.
    void note(TimeNs now, const std::string& text);
    void flush();

    [[nodiscard]] const std::string& text_path() const { return text_path_; }

  private:
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    using File = std::unique_ptr<std::FILE, Close>;
    static File open(const std::string& path);

    std::string text_path_;
    File text_;
    File pcap_;
};

}  // namespace urnic::sim
