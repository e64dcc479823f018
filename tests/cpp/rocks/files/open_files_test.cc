// Tests that few table files are open, however many there are, and that a read gives the file that
// was opened, or an error.

#include "rocks/files/open_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "test_directory.h"

namespace topicdb::rocks {
namespace {

using File = std::unique_ptr<rocksdb::FSRandomAccessFile>;

std::string Write(const std::string& path, const std::string& content) {
  std::ofstream(path) << content;
  return path;
}

std::size_t OpenOfProcess() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

File OpenOk(OpenFiles* files, const std::string& path, FilesOwner owner = FilesOwner::kReader) {
  File file;
  const rocksdb::IOStatus status = files->Open(path, owner, &file);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return file;
}

rocksdb::IOStatus Read(const File& file, std::string* text, std::uint64_t offset = 0) {
  std::string scratch(64, '\0');
  rocksdb::Slice result;
  rocksdb::IOStatus status = file->Read(offset, scratch.size(), {}, &result, scratch.data(), {});
  *text = result.ToString();
  return status;
}

std::string ReadOk(const File& file, std::uint64_t offset = 0) {
  std::string text;
  const rocksdb::IOStatus status = Read(file, &text, offset);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return text;
}

TEST(OpenFiles, FewAreOpenAndAllAreRead) {
  const TestDirectory directory;
  OpenFiles files(4);
  const std::size_t before = OpenOfProcess();
  std::vector<File> opened;
  for (int i = 0; i < 50; ++i) {
    const std::string path = Write(directory / std::to_string(i), "file " + std::to_string(i));
    opened.push_back(OpenOk(&files, path));
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(ReadOk(opened[i]), "file " + std::to_string(i));
      EXPECT_LE(files.open(), 4U);
      EXPECT_LE(OpenOfProcess(), before + 4);
    }
  }
  EXPECT_EQ(ReadOk(opened[7], 5), "7");
  opened.clear();
  EXPECT_EQ(files.open(), 0U);
  EXPECT_EQ(OpenOfProcess(), before);
}

TEST(OpenFiles, WhatIsReadStaysOpen) {
  const TestDirectory directory;
  OpenFiles files(2);
  const File busy = OpenOk(&files, Write(directory / "busy", "busy"));
  std::vector<File> others;
  for (int i = 0; i < 5; ++i) {
    others.push_back(OpenOk(&files, Write(directory / std::to_string(i), "x")));
    EXPECT_EQ(ReadOk(busy), "busy");
  }
  std::filesystem::remove(directory / "busy");
  EXPECT_EQ(ReadOk(busy), "busy") << "it is open still";
}

TEST(OpenFiles, OneThatIsGoneIsAnErrorThatSaysWhatToDo) {
  const TestDirectory directory;
  OpenFiles files(4);
  const File read = OpenOk(&files, Write(directory / "read", "x"), FilesOwner::kReader);
  const File written = OpenOk(&files, Write(directory / "written", "x"), FilesOwner::kWriter);
  EXPECT_EQ(files.CloseIdle(), 2U);
  EXPECT_EQ(files.open(), 0U);
  std::string text;
  for (const char* name : {"read", "written"}) std::filesystem::remove(directory / name);
  const rocksdb::IOStatus of_reader = Read(read, &text);
  EXPECT_TRUE(of_reader.IsPathNotFound()) << of_reader.ToString();
  EXPECT_NE(of_reader.ToString().find("refresh()"), std::string::npos);
  EXPECT_NE(of_reader.ToString().find(directory / "read"), std::string::npos);
  EXPECT_EQ(text, "");
  const rocksdb::IOStatus of_writer = Read(written, &text);
  EXPECT_TRUE(of_writer.IsPathNotFound());
  EXPECT_EQ(of_writer.ToString().find("refresh()"), std::string::npos);
}

TEST(OpenFiles, AnotherFileOfTheSameNameIsNotReadInItsPlace) {
  const TestDirectory directory;
  OpenFiles files(4);
  const File file = OpenOk(&files, Write(directory / "a", "old"));
  files.CloseIdle();
  EXPECT_EQ(ReadOk(file), "old") << "closed and opened again";
  files.CloseIdle();
  Write(directory / "b", "new");
  std::filesystem::rename(directory / "b", directory / "a");
  std::string text;
  EXPECT_TRUE(Read(file, &text).IsPathNotFound());
  EXPECT_EQ(text, "");
}

TEST(OpenFiles, OneThatWasNeverThereIsSimplyMissing) {
  const TestDirectory directory;
  OpenFiles files(4);
  File file;
  const rocksdb::IOStatus status = files.Open(directory / "none", FilesOwner::kReader, &file);
  EXPECT_TRUE(status.IsPathNotFound());
  EXPECT_EQ(status.ToString().find("refresh()"), std::string::npos) << status.ToString();
  EXPECT_EQ(file, nullptr);
}

TEST(OpenFiles, ManyThreads) {
  const TestDirectory directory;
  OpenFiles files(3);
  std::vector<File> opened;
  for (int i = 0; i < 8; ++i) {
    opened.push_back(OpenOk(&files, Write(directory / std::to_string(i), std::to_string(i))));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const int at = (i * (t + 1)) % 8;
        std::string text;
        if (!Read(opened[at], &text).ok() || text != std::to_string(at)) ++wrong;
        if (i % 100 == 0) files.CloseIdle();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(files.open(), 3U + threads.size());
}

}  // namespace
}  // namespace topicdb::rocks
