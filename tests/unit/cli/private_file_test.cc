#include "cli/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace {

namespace fs = std::filesystem;

class PrivateFileTest : public ::testing::Test {
  protected:
    PrivateFileTest() {
        std::ofstream(old_) << "old";
        fs::permissions(old_, fs::perms(0644));
    }
    ~PrivateFileTest() override { fs::remove_all(dir_); }

    static unsigned mode_of(const fs::path& file) {
        return static_cast<unsigned>(fs::symlink_status(file).permissions());
    }
    static std::string text_of(const fs::path& file) {
        std::ifstream stream(file);
        return {std::istreambuf_iterator<char>(stream), {}};
    }

    static fs::path fresh_folder() {
        std::string name = fs::temp_directory_path() / "urnic-private-file-XXXXXX";
        return ::mkdtemp(name.data());
    }

    fs::path dir_ = fresh_folder();
    fs::path old_ = dir_ / "old";
};

TEST_F(PrivateFileTest, AFreshFileIsForItsOwner) {
    EXPECT_TRUE(open_private_file(dir_ / "fresh", Replace::kContents));
    EXPECT_EQ(mode_of(dir_ / "fresh"), 0600U);
}

TEST_F(PrivateFileTest, AFileThatIsThereBecomesEmptyAndItsOwnersAlone) {
    EXPECT_TRUE(open_private_file(old_, Replace::kContents));
    EXPECT_EQ(mode_of(old_), 0600U);
    EXPECT_EQ(text_of(old_), "");
}

TEST_F(PrivateFileTest, ALinkUnderAGuessedNameIsNotFollowed) {
    fs::create_symlink(old_, dir_ / "guessed");
    EXPECT_TRUE(open_private_file(dir_ / "guessed", Replace::kFile));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(dir_ / "guessed")));
    EXPECT_EQ(text_of(old_), "old");
    EXPECT_EQ(mode_of(old_), 0644U);
}

TEST_F(PrivateFileTest, ADeviceStaysAsItIs) {
    const unsigned before = mode_of("/dev/null");
    EXPECT_TRUE(open_private_file("/dev/null", Replace::kContents));
    EXPECT_EQ(mode_of("/dev/null"), before);
}

TEST_F(PrivateFileTest, AFileOfAnotherUserIsRefused) {
    if (::geteuid() != 0) GTEST_SKIP() << "a second user needs root";
    ASSERT_EQ(::chown(old_.c_str(), 65534, 65534), 0);
    EXPECT_THROW((void)open_private_file(old_, Replace::kContents), LaunchError);
    EXPECT_EQ(text_of(old_), "old");
}

TEST_F(PrivateFileTest, AFolderThatIsNotThereIsSaid) {
    try {
        (void)open_private_file(dir_ / "none/file", Replace::kContents);
        FAIL() << "opened";
    } catch (const LaunchError& error) {
        EXPECT_NE(std::string(error.what()).find("none/file cannot be written: No such file"),
                  std::string::npos);
    }
}

}  // namespace
}  // namespace urnic::cli
