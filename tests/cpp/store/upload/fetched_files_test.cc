#include "store/upload/fetched_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "store/upload/uploaded.h"
#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

// A closed database of two shards for each layout, and what its uploads are read as.
class UploadTest : public ::testing::TestWithParam<LayoutKind> {
 protected:
  UploadTest() {
    OpenOptions options;
    options.schema.shards = 2;
    options.schema.layout = GetParam();
    options.schema.retention = std::vector<RetentionClass>{{"t/1/#"}};
    const auto database = Database::Open(path_, options).value();
    std::vector<std::string> topics;
    for (int i = 0; i < 200; ++i) topics.push_back("t/" + std::to_string(i % 7) + "/x");
    for (int sealed = 0; sealed < 2; ++sealed) {
      std::vector<MessageView> messages;
      for (int i = 0; i < 200; ++i) messages.push_back({topics[i], 1'000 * sealed + i, "value"});
      EXPECT_TRUE(database->Append(messages).ok());
      if (sealed > 0) continue;  // it stays in the log
      EXPECT_TRUE(database->Flush().ok());
    }
  }

  // Returns the messages, or the first error.
  static Result<std::size_t> Count(const Database& database, const std::string& filter = "#") {
    TOPICDB_ASSIGN_OR_RETURN(const Filter parsed, Filter::Parse(filter));
    TOPICDB_ASSIGN_OR_RETURN(const auto scan, database.NewScan(parsed, {}));
    std::size_t messages = 0;
    while (true) {
      TOPICDB_ASSIGN_OR_RETURN(const auto batch, scan->Next({1'000, 1 << 20}));
      if (batch == nullptr) return messages;
      messages += batch->size();
    }
  }
  static Result<std::size_t> CountUploaded(const Upload& upload) {
    TOPICDB_ASSIGN_OR_RETURN(const auto database, Database::OpenUpload(upload, {}));
    return Count(*database);
  }
  // Returns files of the database whose names end so.
  std::vector<std::string> Files(const std::string& end) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      const std::string path = fs::relative(entry.path(), path_).string();
      if (path.ends_with(end)) found.push_back(path);
    }
    return found;
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
};

INSTANTIATE_TEST_SUITE_P(Layouts, UploadTest,
                         ::testing::Values(LayoutKind::kColumnar, LayoutKind::kSkipstream),
                         [](const auto& tested) { return std::string(NameOf(tested.param)); });

TEST_P(UploadTest, IsReadLikeTheDatabase) {
  const Upload upload = UploadOf(path_);
  const auto database = Database::OpenUpload(upload, {});
  ASSERT_TRUE(database.ok()) << database.status().message();
  EXPECT_EQ(*Count(**database), 400U);
  EXPECT_EQ(*Count(**database, "t/1/#"), 58U);
  EXPECT_EQ((*database)->path(), upload.url);
  EXPECT_EQ((*database)->schema().retention.front().filter, "t/1/#");
  EXPECT_TRUE((*database)->Refresh().ok());
  EXPECT_EQ((*database)->Append({}).status().code(), Code::kReadOnly);
  const auto slices = (*database)->Slices({Filter::Everything()}, {});
  ASSERT_TRUE(slices.ok());
  EXPECT_FALSE(slices->empty());
}

TEST_P(UploadTest, OneShardFetchesOnlyItsFiles) {
  OpenOptions options;
  options.only_shards = {1};
  const Upload upload = UploadOf(path_);
  for (const std::string& file : Files("")) {
    if (file.starts_with("shards/0000/")) fs::remove(path_ + "/" + file);
  }
  const auto database = Database::OpenUpload(upload, options);
  ASSERT_TRUE(database.ok()) << database.status().message();
  EXPECT_GT(*Count(**database), 0U);
  options.only_shards = {2};
  EXPECT_EQ(Database::OpenUpload(upload, options).status().code(), Code::kInvalidArgument);
}

TEST_P(UploadTest, LeavesNothingInTheTemporaryDirectory) {
  const std::string temporary = directory_ / "tmp";
  fs::create_directory(temporary);
  setenv("TMPDIR", temporary.c_str(), 1);
  {
    const auto database = Database::OpenUpload(UploadOf(path_), {});
    ASSERT_TRUE(database.ok()) << database.status().message();
    EXPECT_FALSE(fs::is_empty(temporary));
  }
  fs::remove(path_ + "/TOPICDB");
  Upload broken = UploadOf(path_);
  EXPECT_FALSE(Database::OpenUpload(broken, {}).ok());
  unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(temporary));
}

TEST_P(UploadTest, EachMissingObjectIsNamed) {
  for (const std::string end : {"TOPICDB", "CURRENT", ".log", ".sst"}) {
    for (const std::string& file : Files(end)) {
      const Upload upload = UploadOf(path_);
      fs::rename(path_ + "/" + file, path_ + ".aside");
      Upload elsewhere = upload;  // another name, so that the cache of the process has nothing
      elsewhere.url += "/" + file;
      const auto counted = CountUploaded(elsewhere);
      EXPECT_EQ(counted.status().code(), Code::kCorruption) << file;
      EXPECT_NE(counted.status().message().find(file + " is missing"), std::string::npos)
          << counted.status().message();
      EXPECT_NE(counted.status().message().find(elsewhere.url), std::string::npos)
          << counted.status().message();
      fs::rename(path_ + ".aside", path_ + "/" + file);
    }
  }
}

TEST_P(UploadTest, ChangedBytesAreDamage) {
  for (const std::string end : {"TOPICDB", "CURRENT", ".log", ".sst"}) {
    for (const std::string& file : Files(end)) {
      const Upload upload = UploadOf(path_);
      const std::string content = ContentOf(path_ + "/" + file);
      std::string changed = content;
      for (char& byte : changed) byte = static_cast<char>(byte ^ 0x10);
      std::ofstream(path_ + "/" + file, std::ios::binary) << changed;
      Upload elsewhere = upload;
      elsewhere.url += "/changed/" + file;
      if (!content.empty()) {
        const Status damage = CountUploaded(elsewhere).status();
        EXPECT_EQ(damage.code(), Code::kCorruption) << file;
        const bool is_compared =
            damage.message().find("is not that of manifests/1") < damage.message().size();
        EXPECT_EQ(is_compared, end != ".sst") << damage.message();
      }
      std::ofstream(path_ + "/" + file, std::ios::binary) << content.substr(0, content.size() / 2);
      elsewhere.url += "/short";
      if (content.size() > 1) {
        EXPECT_EQ(CountUploaded(elsewhere).status().code(), Code::kCorruption) << file;
      }
      std::ofstream(path_ + "/" + file, std::ios::binary) << content;
    }
  }
}

TEST_P(UploadTest, AStoreThatFailsIsAStorageError) {
  Upload upload = UploadOf(path_);
  upload.url += "/fails";
  const auto objects = std::make_shared<FolderObjects>(path_);
  upload.objects = objects;
  objects->failure = StorageFault("no route to host");
  EXPECT_EQ(CountUploaded(upload).status().code(), Code::kStorage);
  objects->failure = Status();
  const auto database = Database::OpenUpload(upload, {});
  ASSERT_TRUE(database.ok()) << database.status().message();
  EXPECT_EQ(*Count(**database), 400U);
}

}  // namespace
}  // namespace topicdb
