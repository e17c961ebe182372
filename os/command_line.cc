#include "os/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace urnic {

namespace {

/// CLI11 does not know that the words of another program follow.
class FixedUsage : public CLI::Formatter {
  public:
    explicit FixedUsage(std::string usage) : usage_(std::move(usage)) {}
    std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override { return usage_; }

  private:
    std::string usage_;
};

/// CLI11 puts the values of IsMember behind the type: "TEXT:{up,down}".
std::vector<std::string> values_of(const std::string& type) {
    std::vector<std::string> values;
    const std::size_t begin = type.find(":{");
    const std::size_t end = type.find('}', begin == std::string::npos ? 0 : begin);
    if (begin == std::string::npos || end == std::string::npos) return values;
    for (std::size_t at = begin + 2; at < end;) {
        const std::size_t comma = std::min(type.find(',', at), end);
        values.push_back(type.substr(at, comma - at));
        at = comma + 1;
    }
    return values;
}

OptionText describe_option(const CLI::Option& option) {
    OptionText text;
    for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
    text.is_positional = text.names.empty();
    if (text.is_positional) text.names.push_back(option.get_name(true));
    text.takes_value = option.get_items_expected_max() > 0;
    text.repeats = option.get_items_expected_max() > 1;
    const std::string type = option.get_type_name();
    text.values = values_of(type);
    text.type = type.substr(0, type.find(':'));
    text.help = option.get_description();
    return text;
}

CommandText describe_command(const CLI::App& app) {
    CommandText text;
    text.name = app.get_name();
    text.help = app.get_description();
    text.takes_foreign_words = app.get_prefix_command();
    for (const CLI::Option* option : app.get_options()) text.options.push_back(describe_option(*option));
    for (const CLI::App* command : app.get_subcommands(nullptr))
        text.commands.push_back(describe_command(*command));
    return text;
}

}  // namespace

CommandLineOption CommandLineOption::required() const {
    option_->required();
    return *this;
}

CommandLineOption CommandLineOption::needs(const CommandLineOption& other) const {
    option_->needs(other.option_);
    return *this;
}

CommandLineOption CommandLineOption::excludes(const CommandLineOption& other) const {
    option_->excludes(other.option_);
    return *this;
}

CommandLineOption CommandLineOption::type_name(const std::string& name) const {
    option_->type_name(name);
    return *this;
}

CommandLineOption CommandLineOption::shows_default() const {
    option_->capture_default_str();
    return *this;
}

CommandLineOption CommandLineOption::one_value_a_mention() const {
    option_->allow_extra_args(false);
    return *this;
}

CommandLineOption CommandLineOption::one_value() const {
    option_->expected(1);
    return *this;
}

CommandLineOption CommandLineOption::non_negative() const {
    option_->check(CLI::NonNegativeNumber);
    return *this;
}

CommandLineOption CommandLineOption::positive() const {
    option_->check(CLI::PositiveNumber);
    return *this;
}

template <typename T>
CommandLineOption CommandLineOption::in_range(T least, T most) const {
    option_->check(CLI::Range(least, most));
    return *this;
}
template CommandLineOption CommandLineOption::in_range(int, int) const;
template CommandLineOption CommandLineOption::in_range(std::uint32_t, std::uint32_t) const;
template CommandLineOption CommandLineOption::in_range(std::uint64_t, std::uint64_t) const;
template CommandLineOption CommandLineOption::in_range(double, double) const;

CommandLineOption CommandLineOption::one_of(std::initializer_list<int> values) const {
    option_->check(CLI::IsMember(std::vector<int>(values)));
    return *this;
}

CommandLineOption CommandLineOption::one_of(std::initializer_list<std::string> values) const {
    option_->check(CLI::IsMember(std::vector<std::string>(values)));
    return *this;
}

template <typename T>
CommandLineOption Command::option(const std::string& name, T& value, const std::string& help) const {
    return CommandLineOption(app_->add_option(name, value, help));
}
template CommandLineOption Command::option(const std::string&, int&, const std::string&) const;
template CommandLineOption Command::option(const std::string&, std::uint16_t&, const std::string&) const;
template CommandLineOption Command::option(const std::string&, std::uint32_t&, const std::string&) const;
template CommandLineOption Command::option(const std::string&, std::uint64_t&, const std::string&) const;
template CommandLineOption Command::option(const std::string&, double&, const std::string&) const;
template CommandLineOption Command::option(const std::string&, std::string&, const std::string&) const;
template CommandLineOption Command::option(const std::string&, std::filesystem::path&,
                                           const std::string&) const;
template CommandLineOption Command::option(const std::string&, std::vector<std::uint32_t>&,
                                           const std::string&) const;
template CommandLineOption Command::option(const std::string&, std::vector<std::string>&,
                                           const std::string&) const;

CommandLineOption Command::flag(const std::string& name, bool& value, const std::string& help) const {
    return CommandLineOption(app_->add_flag(name, value, help));
}

Command Command::command(const std::string& name, const std::string& help) const {
    return Command(app_->add_subcommand(name, help));
}

void Command::requires_command() const { app_->require_subcommand(1); }

void Command::prints_version(const std::string& text) const { app_->set_version_flag("--version", text); }

void Command::footer(const std::string& text) const { app_->footer(text); }

void Command::usage(const std::string& text) const { app_->formatter(std::make_shared<FixedUsage>(text)); }

void Command::takes_foreign_words() const { app_->prefix_command(); }

CommandText Command::describe() const { return describe_command(*app_); }

bool Command::parsed() const { return app_->parsed(); }

std::vector<std::string> Command::remaining() const { return app_->remaining(); }

CommandLine::CommandLine(const std::string& about, const std::string& name)
    : Command(nullptr), owned_(std::make_unique<CLI::App>(about, name)) {
    app_ = owned_.get();
}

CommandLine::~CommandLine() = default;

std::optional<int> CommandLine::parse(int argc, char** argv) const {
    try {
        app_->parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app_->exit(error);
    }
    return std::nullopt;
}

int CommandLine::refuse_without(const std::string& what) const {
    return app_->exit(CLI::RequiredError(what));
}

}  // namespace urnic
