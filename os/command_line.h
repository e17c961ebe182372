// The command line of a program: options, positional words and commands, read by CLI11.
//
// CLI11 is all headers, which every source that includes them compiles anew: 5 s for GCC, 12 s for
// clang-tidy. Only os/command_line.cc does.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace urnic {

/// An option, a flag or a positional word of a command. Owned by its command line.
class CommandLineOption {
  public:
    explicit CommandLineOption(CLI::Option* option) : option_(option) {}

    /// What a command line must have, alone or beside another option, and must not have beside another.
    CommandLineOption required() const;
    CommandLineOption needs(const CommandLineOption& other) const;
    CommandLineOption excludes(const CommandLineOption& other) const;
    /// What the help calls the value: "FILE.toml".
    CommandLineOption type_name(const std::string& name) const;
    /// The help shows the value that the variable has now.
    CommandLineOption shows_default() const;
    /// A mention has one value, and there may be several mentions.
    CommandLineOption one_value_a_mention() const;
    /// One value in all.
    CommandLineOption one_value() const;
    CommandLineOption non_negative() const;
    CommandLineOption positive() const;
    /// `T`: int, std::uint32_t, std::uint64_t, double.
    template <typename T>
    CommandLineOption in_range(T least, T most) const;
    CommandLineOption one_of(std::initializer_list<int> values) const;
    CommandLineOption one_of(std::initializer_list<std::string> values) const;

  private:
    CLI::Option* option_;
};

/// What completion of a shell needs of a command line.
struct OptionText {
    std::vector<std::string> names;  // "-c", "--count"; "FILE" for a positional word
    bool is_positional = false;
    bool takes_value = false;
    bool repeats = false;             // has any number of values
    std::string type;                 // "FILE.toml", "TEXT"
    std::vector<std::string> values;  // those that it may have, if it may not have others
    std::string help;
};
struct CommandText {
    std::string name;
    std::string help;
    std::vector<OptionText> options;
    std::vector<CommandText> commands;
    bool takes_foreign_words = false;
};

/// A program, or a command of one such as `urnic status`. Owned by its command line; without one it is only
/// to be assigned to.
class Command {
  public:
    explicit Command(CLI::App* app = nullptr) : app_(app) {}

    /// Parsing writes to `value`. `name`: "--size", "-c,--count", or "FILE" for a positional word. `T`: int,
    /// std::uint16_t, std::uint32_t, std::uint64_t, double, std::string, std::filesystem::path, or a
    /// std::vector of std::uint32_t or std::string.
    template <typename T>
    CommandLineOption option(const std::string& name, T& value, const std::string& help = "") const;
    CommandLineOption flag(const std::string& name, bool& value, const std::string& help) const;
    Command command(const std::string& name, const std::string& help) const;

    void requires_command() const;
    /// `--version` prints `text`.
    void prints_version(const std::string& text) const;
    /// The last part of the help.
    void footer(const std::string& text) const;
    /// The help's line about usage.
    void usage(const std::string& text) const;
    /// The first word that is no option of it and everything behind belong to another program: remaining().
    void takes_foreign_words() const;

    [[nodiscard]] CommandText describe() const;
    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const;
    [[nodiscard]] std::vector<std::string> remaining() const;

  protected:
    CLI::App* app_;
};

/// The program itself.
class CommandLine : public Command {
  public:
    /// An empty name: argv[0].
    explicit CommandLine(const std::string& about, const std::string& name = "");
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;
    ~CommandLine();

    /// Returns the exit status of a program that is to end now, because its help was asked for and printed
    /// (0), or its command line is wrong and the reason was printed; nothing if it is to continue.
    [[nodiscard]] std::optional<int> parse(int argc, char** argv) const;
    /// Prints that `what` is required, and returns the exit status of a wrong command line.
    [[nodiscard]] int refuse_without(const std::string& what) const;

  private:
    std::unique_ptr<CLI::App> owned_;
};

}  // namespace urnic
