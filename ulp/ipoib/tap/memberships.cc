#include "ulp/ipoib/tap/memberships.h"

#include <arpa/inet.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace urnic::ipoib {

std::vector<std::uint32_t> parse_igmp(const std::string& text, const std::string& interface) {
    std::vector<std::uint32_t> groups;
    std::istringstream lines(text);
    bool is_ours = false;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string first;
        std::string second;
        words >> first >> second;
        if (!line.empty() && line.front() != '\t' && line.front() != ' ') {
            // "2    eth0      :     1      V3"; the first line of the file names the columns.
            is_ours = second == interface || second == interface + ":";
            continue;
        }
        std::uint32_t group = 0;
        const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), group, 16);
        if (is_ours && error == std::errc() && end == first.data() + first.size()) {
            // The kernel prints the address as it lies in memory.
            groups.push_back(ntohl(group));
        }
    }
    return groups;
}

std::vector<Ipv6Address> parse_igmp6(const std::string& text, const std::string& interface) {
    std::vector<Ipv6Address> groups;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string index;
        std::string name;
        std::string address;
        words >> index >> name >> address;
        Ipv6Address group{};
        bool is_good = name == interface && address.size() == 2 * group.size();
        for (std::size_t i = 0; is_good && i < group.size(); ++i) {
            std::uint8_t octet = 0;
            const char* digits = address.data() + 2 * i;
            const auto [end, error] = std::from_chars(digits, digits + 2, octet, 16);
            is_good = error == std::errc() && end == digits + 2;
            group[i] = static_cast<std::byte>(octet);
        }
        if (is_good) {
            groups.push_back(group);
        }
    }
    return groups;
}

std::string read_proc_file(const char* path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace urnic::ipoib
