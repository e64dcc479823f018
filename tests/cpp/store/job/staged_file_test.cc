#include "store/job/staged_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes/checked_record.h"
#include "base/file/files.h"
#include "every_damage.h"
#include "test_directory.h"

namespace topicdb {
namespace {

StagedBlock ExampleBlock() {
  StagedBlock block;
  block.pages = kStagedPagesMin + 7;
  block.rows = 3;
  block.bytes = 40;
  block.first_time = 5;
  block.last_time = 9;
  block.topics = {{1, "a/b"}, {1, "a/bc"}, {4, "a"}, {9, "z"}};
  block.entry = "entry";
  block.directory = "directory";
  block.word_filter = std::string("\0words", 6);
  return block;
}

StagedPart ExamplePart() {
  StagedPart part;
  part.shard = 3;
  part.retention_class = RetentionClassId{2};
  part.pages_file = "x.pages";
  part.pages_file_bytes = 6;
  AppendStagedBlock(ExampleBlock(), &part);
  return part;
}

StagedFile ExampleFile() {
  StagedFile file;
  file.database = {9, 8, 7};
  file.parts = {ExamplePart(), ExamplePart()};
  file.parts[1].shard = 4;
  return file;
}

void ExpectEqual(const StagedBlock& found, const StagedBlock& expected) {
  EXPECT_EQ(found.pages, expected.pages);
  EXPECT_EQ(found.assigns_times, expected.assigns_times);
  EXPECT_EQ(found.rows, expected.rows);
  EXPECT_EQ(found.bytes, expected.bytes);
  EXPECT_EQ(found.first_time, expected.first_time);
  EXPECT_EQ(found.last_time, expected.last_time);
  EXPECT_EQ(found.entry, expected.entry);
  EXPECT_EQ(found.directory, expected.directory);
  EXPECT_EQ(found.word_filter, expected.word_filter);
  ASSERT_EQ(found.topics.size(), expected.topics.size());
  for (std::size_t i = 0; i < found.topics.size(); ++i) {
    EXPECT_EQ(found.topics[i].group, expected.topics[i].group);
    EXPECT_EQ(found.topics[i].text, expected.topics[i].text);
  }
}

void ExpectEqual(const StagedPart& found, const StagedPart& expected) {
  EXPECT_EQ(found.shard, expected.shard);
  EXPECT_EQ(found.retention_class, expected.retention_class);
  EXPECT_EQ(found.pages_file, expected.pages_file);
  EXPECT_EQ(found.pages_file_bytes, expected.pages_file_bytes);
  EXPECT_EQ(found.messages, expected.messages);
  EXPECT_EQ(found.bytes, expected.bytes);
  EXPECT_EQ(found.block_count, expected.block_count);
  EXPECT_EQ(found.blocks, expected.blocks);
}

Status VisitAll(const StagedPart& part) {
  return ForEachStagedBlock(part, [](const StagedBlock&) { return Status::Ok(); });
}

TEST(StagedPart, GivesBackTheBlocksThatWereAdded) {
  StagedPart part = ExamplePart();
  StagedBlock second = ExampleBlock();
  second.assigns_times = true;
  second.first_time = 0;
  second.topics = {{1, "another"}};
  AppendStagedBlock(second, &part);
  EXPECT_EQ(part.block_count, 2U);
  EXPECT_EQ(part.messages, 6U);
  EXPECT_EQ(part.bytes, 80U);
  std::vector<StagedBlock> found;
  ASSERT_TRUE(ForEachStagedBlock(part, [&](const StagedBlock& block) {
                found.push_back(block);
                return Status::Ok();
              }).ok());
  ASSERT_EQ(found.size(), 2U);
  ExpectEqual(found[0], ExampleBlock());
  ExpectEqual(found[1], second);
}

TEST(StagedPart, AnErrorOfAVisitEndsTheVisits) {
  StagedPart part = ExamplePart();
  AppendStagedBlock(ExampleBlock(), &part);
  int visits = 0;
  const Status status = ForEachStagedBlock(part, [&](const StagedBlock&) {
    ++visits;
    return StorageFault("a test");
  });
  EXPECT_EQ(status.code(), Code::kStorage);
  EXPECT_EQ(visits, 1);
}

TEST(StagedPart, ABlockThatCannotBeRightIsCorruption) {
  const auto code = [](auto change) {
    StagedBlock block = ExampleBlock();
    change(&block);
    StagedPart part;
    AppendStagedBlock(block, &part);
    return VisitAll(part).code();
  };
  EXPECT_EQ(code([](StagedBlock*) {}), Code::kOk);
  EXPECT_EQ(code([](StagedBlock* b) { b->pages = kStagedPagesMin - 1; }), Code::kCorruption);
  EXPECT_EQ(code([](StagedBlock* b) { b->rows = 0; }), Code::kCorruption);
  EXPECT_EQ(code([](StagedBlock* b) { b->first_time = -1; }), Code::kCorruption);
  EXPECT_EQ(code([](StagedBlock* b) { b->last_time = 4; }), Code::kCorruption);
  EXPECT_EQ(code([](StagedBlock* b) { b->topics.clear(); }), Code::kCorruption);
  EXPECT_EQ(code([](StagedBlock* b) { b->topics[0].group = 0; }), Code::kCorruption);
}

TEST(StagedPart, OtherBlocksThanItCountsAreCorruption) {
  StagedPart part = ExamplePart();
  ++part.block_count;
  EXPECT_EQ(VisitAll(part).code(), Code::kCorruption);
  part.block_count = 0;
  EXPECT_EQ(VisitAll(part).code(), Code::kCorruption);
  part = ExamplePart();
  for (std::size_t size = 0; size < part.blocks.size(); ++size) {
    StagedPart cut = part;
    cut.blocks.resize(size);
    EXPECT_EQ(VisitAll(cut).code(), Code::kCorruption) << size;
  }
}

TEST(StagedFile, RoundTrips) {
  const StagedFile file = ExampleFile();
  const auto decoded = DecodeStagedFile(EncodeStagedFile(file), "x.staged");
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->database, file.database);
  ASSERT_EQ(decoded->parts.size(), 2U);
  ExpectEqual(decoded->parts[0], file.parts[0]);
  ExpectEqual(decoded->parts[1], file.parts[1]);
  EXPECT_TRUE(DecodeStagedFile(EncodeStagedFile({}), "x").value().parts.empty());
}

TEST(StagedFile, EveryDamageIsAnErrorThatNamesTheFile) {
  ForEachDamage(EncodeStagedFile(ExampleFile()), [](const std::string& damaged) {
    const auto decoded = DecodeStagedFile(damaged, "/db/jobs/j/x.staged");
    EXPECT_EQ(decoded.status().code(), Code::kCorruption);
    EXPECT_TRUE(decoded.status().message().starts_with("/db/jobs/j/x.staged "))
        << decoded.status().message();
  });
}

TEST(StagedFile, OfANewerVersionIsNoDamage) {
  std::string bytes = EncodeStagedFile(ExampleFile());
  bytes.resize(bytes.size() - 4);
  bytes[8] = 2;  // behind the magic
  const auto decoded = DecodeStagedFile(CloseRecord(bytes), "x.staged");
  EXPECT_EQ(decoded.status().code(), Code::kSchema);
  EXPECT_NE(decoded.status().message().find("version 2"), std::string::npos)
      << decoded.status().message();
}

TEST(StagedFile, APartThatCannotBeRightIsCorruption) {
  const auto code = [](auto change) {
    StagedFile file = ExampleFile();
    change(&file.parts[1]);
    return DecodeStagedFile(EncodeStagedFile(file), "x").status().code();
  };
  EXPECT_EQ(code([](StagedPart*) {}), Code::kOk);
  EXPECT_EQ(code([](StagedPart* p) { p->pages_file = ""; }), Code::kCorruption);
  EXPECT_EQ(code([](StagedPart* p) { p->pages_file = "../x.pages"; }), Code::kCorruption);
  EXPECT_EQ(code([](StagedPart* p) { p->block_count = 0; }), Code::kCorruption);
  EXPECT_EQ(code([](StagedPart* p) { p->block_count = 1'000'000; }), Code::kCorruption);
}

// The directory of a job, with a staged file and its pages.
class StagedFiles : public ::testing::Test {
 protected:
  StagedFiles() {
    Write("x.pages", "pages!");
    Write("x.staged", EncodeStagedFile(ExampleFile()));
  }
  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(path_ + "/" + name, content).ok());
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "";
};

TEST_F(StagedFiles, AreLoadedAndChecked) {
  const auto loaded = LoadStagedFile(path_, "x.staged");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->parts.size(), 2U);
  EXPECT_TRUE(CheckPagesFile(path_, loaded->parts[0]).ok());
  EXPECT_TRUE(CheckStagedFile(path_, "x.staged").ok());
}

TEST_F(StagedFiles, OneThatIsMissingIsNotFound) {
  EXPECT_EQ(LoadStagedFile(path_, "y.staged").status().code(), Code::kNotFound);
  EXPECT_EQ(CheckStagedFile(path_, "y.staged").code(), Code::kNotFound);
}

TEST_F(StagedFiles, PagesThatAreMissingOrCutOffAreCorruption) {
  for (const char* content : {"pages", "pages!!", ""}) {
    Write("x.pages", content);
    const Status status = CheckStagedFile(path_, "x.staged");
    EXPECT_EQ(status.code(), Code::kCorruption) << content;
    EXPECT_NE(status.message().find("x.pages is missing or cut off"), std::string::npos)
        << status.message();
  }
  ASSERT_TRUE(RemoveFile(path_ + "/x.pages").ok());
  EXPECT_EQ(CheckPagesFile(path_, ExamplePart()).code(), Code::kCorruption);
}

TEST_F(StagedFiles, OneThatIsDamagedIsCorruption) {
  Write("x.staged", "damaged");
  EXPECT_EQ(LoadStagedFile(path_, "x.staged").status().code(), Code::kCorruption);
  EXPECT_EQ(CheckStagedFile(path_, "x.staged").code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb
