#include "base/file/file_copy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file/file.h"
#include "base/file/files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

std::string Content(const std::string& path) { return *ReadFile(path, 1 << 24); }

nlink_t Links(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 ? info.st_nlink : 0;
}

class FileCopy : public ::testing::Test {
 protected:
  std::string Make(const std::string& name, const std::string& content) {
    const std::string path = directory_ / name;
    const auto file = File::Create(path);
    EXPECT_TRUE(file.ok());
    EXPECT_TRUE((*file)->WriteAt(0, content).ok());
    return path;
  }
  TestDirectory directory_;
};

TEST_F(FileCopy, ALinkIsTheSameFile) {
  const std::string a = Make("a", "content");
  ASSERT_TRUE(*LinkFile(a, a + ".link"));
  EXPECT_EQ(Links(a), 2U);
  EXPECT_EQ(LinkFile(a, a + ".link").status().code(), Code::kStorage);  // the name is taken
}

TEST_F(FileCopy, ACopyHasTheFirstBytes) {
  const std::string a = Make("a", std::string(3'000'000, 'x') + "tail");
  ASSERT_TRUE(CopyFile(a, a + ".copy", 3'000'002, nullptr).ok());
  EXPECT_EQ(Content(a + ".copy"), std::string(3'000'000, 'x') + "ta");
  EXPECT_EQ(Links(a), 1U);
}

TEST_F(FileCopy, AFileThatIsTooShortIsDamage) {
  const std::string a = Make("a", "content");
  const Status status = CopyFile(a, a + ".copy", 8, nullptr);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(a + " has 7 bytes"), std::string::npos) << status.message();
}

TEST_F(FileCopy, ACopyCanBeInterrupted) {
  const std::string a = Make("a", std::string(3'000'000, 'x'));
  int asked = 0;
  const Status status = CopyFile(a, a + ".copy", 3'000'000, [&] { return ++asked == 2; });
  EXPECT_EQ(status.code(), Code::kInterrupted);
}

TEST_F(FileCopy, FilesAreComparedByLengthAndEnd) {
  const std::string body(100'000, 'x');
  const std::string a = Make("a", body + "1");
  EXPECT_TRUE(HaveSameEnd(a, Make("same", body + "1")));
  EXPECT_FALSE(HaveSameEnd(a, Make("other", body + "2")));
  EXPECT_FALSE(HaveSameEnd(a, Make("longer", "x" + body + "1")));
  EXPECT_FALSE(HaveSameEnd(a, directory_ / "none"));
}

TEST_F(FileCopy, DirectoriesAreExchanged) {
  const std::string a = directory_ / "a";
  const std::string b = directory_ / "b";
  ASSERT_TRUE(MakeDirectory(a).ok());
  ASSERT_TRUE(MakeDirectory(b).ok());
  Make("a/of_a", "");
  ASSERT_TRUE(Exchange(a, b).ok());
  EXPECT_EQ(*ListDirectory(b), std::vector<std::string>{"of_a"});
  EXPECT_TRUE(ListDirectory(a)->empty());
  EXPECT_EQ(Exchange(a, b + "none").code(), Code::kStorage);
}

}  // namespace
}  // namespace topicdb
