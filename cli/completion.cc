#include "cli/completion.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace urnic::cli {

namespace {

constexpr std::string_view kDevices =
    "$(ls \"${URNIC_RUN_DIR:-/run/urnic}/sysroot/sys/class/infiniband\" 2>/dev/null)";

bool mentions_any(const std::string& text, std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

/// What values an option or a positional word has.
enum class Values { kNone, kOther, kListed, kFiles, kDevices };

Values values_of_option(const OptionText& option) {
    if (!option.takes_value) return Values::kNone;
    if (!option.values.empty()) return Values::kListed;
    const std::string type = option.is_positional ? option.names[0] + option.type : option.type;
    if (mentions_any(type, {"FILE", "PATH", "DIR", "CAPTURE"})) return Values::kFiles;
    if (mentions_any(type, {"DEVICE"}) || option.names.back() == "--device") return Values::kDevices;
    return Values::kOther;
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += separator;
        text += word;
    }
    return text;
}

/// Visits a command and those below it; `path`: their names, " fault add".
template <typename Visit>
void each_command(const CommandText& command, const std::string& path, const Visit& visit) {
    visit(command, path);
    for (const CommandText& below : command.commands) each_command(below, path + " " + below.name, visit);
}

/// Commands that are programs of their own tell nothing of their options: files are what they mostly take.
bool is_opaque(const CommandText& command) {
    return command.commands.empty() && !command.takes_foreign_words && command.options.size() <= 1;
}

// ---- bash

std::string bash_reply(Values values, const std::vector<std::string>& listed) {
    switch (values) {
        case Values::kListed:
            return fmt::format("_urnic_words \"{}\"", joined(listed, " "));
        case Values::kFiles:
            return "_urnic_files";
        case Values::kDevices:
            return fmt::format("_urnic_words \"{}\"", kDevices);
        case Values::kNone:
        case Values::kOther:
            break;
    }
    return ":";
}

std::string bash_values(const CommandText& command, const std::string& path) {
    std::string text;
    for (const OptionText& option : command.options) {
        const Values values = values_of_option(option);
        if (option.is_positional || values == Values::kNone) continue;
        std::vector<std::string> patterns;
        for (const std::string& name : option.names) patterns.push_back(fmt::format("'{} {}'", path, name));
        text += fmt::format("        {})\n            {}\n            return\n            ;;\n",
                            joined(patterns, " | "), bash_reply(values, option.values));
    }
    return text;
}

std::string bash_words(const CommandText& command, const std::string& path) {
    std::vector<std::string> words;
    std::vector<std::string> options;
    bool has_files = is_opaque(command);
    for (const CommandText& below : command.commands) words.push_back(below.name);
    for (const OptionText& option : command.options) {
        if (!option.is_positional) {
            options.insert(options.end(), option.names.begin(), option.names.end());
            continue;
        }
        const Values values = values_of_option(option);
        if (values == Values::kListed) words.insert(words.end(), option.values.begin(), option.values.end());
        if (values == Values::kDevices) words.emplace_back(kDevices);
        has_files = has_files || values == Values::kFiles;
    }
    return fmt::format("        '{}')\n            _urnic_words \"{}\" \"{}\"\n{}            ;;\n", path,
                       joined(words, " "), joined(options, " "),
                       has_files ? "            [[ $cur == -* ]] || _urnic_files\n" : "");
}

/// Skips the options of a command whose further words are another command's.
std::string bash_foreign(const CommandText& command, const std::string& path) {
    std::vector<std::string> with_value;
    for (const OptionText& option : command.options) {
        if (!option.is_positional && option.takes_value) {
            with_value.insert(with_value.end(), option.names.begin(), option.names.end());
        }
    }
    with_value.emplace_back("no-option");
    return fmt::format(R"(    if [[ $path == '{}' ]]; then
        for ((i = depth + 1; i < COMP_CWORD; i++)); do
            case ${{COMP_WORDS[i]}} in
                --) _urnic_command $((i + 1)); return ;;
                {}) i=$((i + 1)) ;;
                -*) ;;
                *) _urnic_command "$i"; return ;;
            esac
        done
        if [[ $cur != -* && $i == "$COMP_CWORD" ]]; then _urnic_command "$COMP_CWORD"; return; fi
    fi
)",
                       path, joined(with_value, " | "));
}

constexpr const char* kBashHelpers = R"(# Completion for urnic, printed by: urnic completion bash
_urnic_words() {
    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$2" -- "$cur")); else COMPREPLY=($(compgen -W "$1" -- "$cur")); fi
}
_urnic_files() {
    local IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$cur"))
    compopt -o filenames 2>/dev/null
}
# The words from the given one on are a command of their own.
_urnic_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif [[ $1 == "$COMP_CWORD" ]]; then
        COMPREPLY=($(compgen -c -- "$cur"))
    else
        _urnic_files
    fi
}
)";

// ---- zsh

/// In single quotes, with what _arguments and _describe take for their own escaped.
std::string zsh_text(const std::string& text, std::string_view own) {
    std::string quoted;
    for (const char letter : text) {
        if (letter == '\n') break;
        if (own.find(letter) != std::string_view::npos) quoted += '\\';
        quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    }
    return quoted;
}

std::string zsh_action(const OptionText& option) {
    switch (values_of_option(option)) {
        case Values::kListed:
            return "(" + joined(option.values, " ") + ")";
        case Values::kFiles:
            return "_files";
        case Values::kDevices:
            return "_urnic_devices";
        case Values::kNone:
        case Values::kOther:
            break;
    }
    return " ";
}

std::string zsh_function(const std::string& path) {
    std::string name = "_urnic" + path;
    std::replace(name.begin(), name.end(), ' ', '_');
    return name;
}

std::string zsh_commands(const CommandText& command, const std::string& path) {
    std::string list;
    std::string cases;
    for (const CommandText& below : command.commands) {
        list += fmt::format(" '{}:{}'", below.name, zsh_text(below.help, ":\\"));
        cases +=
            fmt::format("                {}) {} ;;\n", below.name, zsh_function(path + " " + below.name));
    }
    return fmt::format(R"(    case $state in
        command)
            local -a commands=({})
            _describe command commands
            ;;
        argument)
            case $words[1] in
{}            esac
            ;;
    esac
)",
                       list, cases);
}

std::string zsh_command(const CommandText& command, const std::string& path) {
    std::string text =
        fmt::format("{}() {{\n    local curcontext=$curcontext state line\n    _arguments -C{}",
                    zsh_function(path), command.takes_foreign_words ? " -S" : " -s");
    int position = 0;
    for (const OptionText& option : command.options) {
        const std::string help = zsh_text(option.help, "[]:\\");
        const std::string message = zsh_text(option.type.empty() ? option.names[0] : option.type, ":\\");
        if (option.is_positional) {
            text += fmt::format(" \\\n        '{}:{}:{}'",
                                option.repeats ? std::string("*") : std::to_string(++position),
                                zsh_text(option.names[0], ":\\"), zsh_action(option));
            continue;
        }
        for (const std::string& name : option.names) {
            text += fmt::format(" \\\n        '{}[{}]", name, help);
            text += option.takes_value ? fmt::format(":{}:{}'", message, zsh_action(option)) : "'";
        }
    }
    if (command.takes_foreign_words) {
        text += " \\\n        '(-)1:command:_command_names -e' \\\n        '*::arguments:_normal'";
    } else if (is_opaque(command)) {
        text += " \\\n        '*:file:_files'";
    }
    if (command.commands.empty()) return text + "\n}\n";
    text += " \\\n        '1:command:->command' \\\n        '*::argument:->argument'\n";
    return text + zsh_commands(command, path) + "}\n";
}

}  // namespace

std::string bash_completion(const CommandText& program) {
    std::string paths;
    std::string values;
    std::string words;
    std::string foreign;
    each_command(program, "", [&](const CommandText& command, const std::string& path) {
        if (!path.empty()) paths += fmt::format("{}'{}'", paths.empty() ? "            " : " | ", path);
        values += bash_values(command, path);
        words += bash_words(command, path);
        if (command.takes_foreign_words) foreign += bash_foreign(command, path);
    });
    return kBashHelpers + fmt::format(R"(_urnic() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} path= depth=0 i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$path ${{COMP_WORDS[i]}}" in
{}) path="$path ${{COMP_WORDS[i]}}"; depth=$i ;;
        esac
    done
{}    case "$path $previous" in
{}    esac
    case $path in
{}    esac
}}
complete -F _urnic urnic
)",
                                      paths, foreign, values, words);
}

std::string zsh_completion(const CommandText& program) {
    std::string text = fmt::format(
        "#compdef urnic\n# Completion for urnic, printed by: urnic completion zsh\n"
        "_urnic_devices() {{\n    local -a devices=(${{(f)\"{}\"}})\n    _describe device devices\n}}\n",
        kDevices);
    each_command(program, "", [&](const CommandText& command, const std::string& path) {
        text += zsh_command(command, path);
    });
    return text + "_urnic \"$@\"\n";
}

}  // namespace urnic::cli
