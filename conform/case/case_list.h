// All cases: scripts that any engine can play.
#pragma once

#include <memory>
#include <vector>

#include "conform/case/script.h"

namespace urnic::conform {

struct Case {
    const char* suite;
    const char* name;
    const char* clause;  // of the IBA specification, volume 1, "A17..." for the RoCEv2 annex
    const char* what;    // the requirement in a sentence
    std::unique_ptr<Script> (*make)();
};

/// In the order of their registration.
std::vector<Case>& case_list();
/// The return value makes it an initializer.
bool add_case(const Case& entry);

}  // namespace urnic::conform

/// A case of a class that adds steps of its own to Script. `clause` is what it checks, `what` says it in a
/// sentence.
#define CONFORM_CASE_IN(suite, name, clause, what)                                                           \
    struct suite##_##name final : suite {                                                                    \
        void body() override;                                                                                \
    };                                                                                                       \
    [[maybe_unused]] const bool suite##_##name##_listed = ::urnic::conform::add_case(                        \
        {#suite, #name, clause, what,                                                                        \
         []() -> std::unique_ptr<::urnic::conform::Script> { return std::make_unique<suite##_##name>(); }}); \
    void suite##_##name::body()

/// A case with the steps of Script; `suite` groups cases that go together.
// NOLINTBEGIN(bugprone-macro-parentheses): the name of a type
#define CONFORM_CASE(suite, name, clause, what) \
    using suite = ::urnic::conform::Script;     \
    CONFORM_CASE_IN(suite, name, clause, what)
// NOLINTEND(bugprone-macro-parentheses)
