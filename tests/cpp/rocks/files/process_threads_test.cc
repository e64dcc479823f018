#include "rocks/files/process_threads.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "in_child.h"
#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

int MayWrite() { return CheckProcessMayWrite().ok() ? 0 : 1; }
int IsRefused() { return CheckProcessMayWrite().code() == Code::kForked ? 0 : 1; }

TEST(ProcessThreads, AChildMayWriteIfNobodyWroteAtTheFork) {
  MarkWriting();  // the handle is gone at once
  EXPECT_EQ(InChild(MayWrite), 0);
  const auto handle = MarkWriting();
  EXPECT_EQ(InChild(IsRefused), 0);
  EXPECT_EQ(MayWrite(), 0) << "it is no child";
}

TEST(ProcessThreads, AChildThatWritesIsAParentLikeOthers) {
  const int outcome = InChild([] {
    auto handle = MarkWriting();
    if (InChild(IsRefused) != 0) return 1;
    handle.reset();
    return InChild(MayWrite) == 0 ? 0 : 2;
  });
  EXPECT_EQ(outcome, 0);
}

TEST(ProcessThreads, WhatAChildHasInheritedIsNotCountedThere) {
  auto inherited = MarkWriting();
  const int outcome = InChild([&] {
    inherited.reset();
    return InChild(IsRefused);
  });
  EXPECT_EQ(outcome, 0) << "its child is a child of a process that wrote";
}

TEST(ProcessThreads, AHandleCountsFromOpeningToClosing) {
  const TestDirectory directory;
  const SharedResources resources = MakeSharedResources(1 << 20, 1 << 20);
  const Families families{
      {rocksdb::kDefaultColumnFamilyName, FamilyOptions(resources, FamilyUse::kKeys)}};
  const auto open = [&](auto how, bool read_only) {
    std::unique_ptr<rocksdb::DB> db;
    FamilyHandles handles;
    EXPECT_TRUE(
        how(MakeDbOptions(resources, read_only), directory / "db", families, &handles, &db).ok());
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
    }
    return db;
  };
  auto writer = open(&Open, false);
  EXPECT_EQ(InChild(IsRefused), 0);
  EXPECT_TRUE(writer->Close().ok());
  writer.reset();
  EXPECT_EQ(InChild(MayWrite), 0);
  const auto reader = open(&OpenForReadOnly, true);
  EXPECT_EQ(InChild(MayWrite), 0);
}

TEST(ProcessThreads, WithoutPoolJobsRunAllTheSame) {
  struct Job {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  } job;
  const auto run = [](void* argument) {
    auto& one = *static_cast<Job*>(argument);
    const std::lock_guard lock(one.mutex);
    one.done = true;
    one.changed.notify_all();
  };
  const auto env = WithoutPool(rocksdb::Env::Default());
  env->Schedule(run, &job, rocksdb::Env::Priority::LOW);
  std::unique_lock lock(job.mutex);
  job.changed.wait(lock, [&] { return job.done; });
}

}  // namespace
}  // namespace topicdb::rocks
