#include "cli/completion_command.h"

#include <fmt/core.h>

#include "cli/completion.h"

namespace urnic::cli {

namespace {

constexpr const char* kCompletionFooter =
    R"(The Debian package has both. Otherwise:
  urnic completion bash >~/.local/share/bash-completion/completions/urnic
  urnic completion zsh >~/.zfunc/_urnic        with fpath+=~/.zfunc before compinit in ~/.zshrc)";

}  // namespace

CompletionCommand::CompletionCommand(const Command& app) : app_(app) {
    completion_ = app.command("completion", "Prints what completes command lines of urnic in bash or zsh.");
    completion_.footer(kCompletionFooter);
    completion_.option("SHELL", shell_, "bash or zsh").one_of({"bash", "zsh"}).required();
}

void CompletionCommand::run() const {
    const CommandText program = app_.describe();
    fmt::print("{}", shell_ == "bash" ? bash_completion(program) : zsh_completion(program));
}

}  // namespace urnic::cli
