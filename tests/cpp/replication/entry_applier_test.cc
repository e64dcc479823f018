#include "replication/entry_applier.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "replication/batch_scan.h"
#include "replication/replicas.h"
#include "store/catalog/meta.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

const SlabFamily kFamily{RetentionClassId{}, Generation{1}, FamilyPart::kKeys};

// Makes entries as a leader does, by hand.
class EntryApplierTest : public testing::Test {
 protected:
  // Returns an entry that puts a key of kFamily. If it has serials, it is a commit.
  static std::string PutEntry(std::uint64_t epoch, std::uint64_t number, const std::string& key,
                              Serial previous = kNoSerial, Serial serial = kNoSerial) {
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(PutAs(7, key, &batch).ok());
    if (serial != kNoSerial) {
      EXPECT_TRUE(batch.Put(meta::CommitStateKey(), meta::Encode({serial, -1, serial})).ok());
    }
    Entry entry;
    entry.epoch = epoch;
    entry.number = number;
    entry.previous_serial = previous;
    entry.serial = serial;
    entry.families = {{7, kFamily}};
    entry.body = batch.Data();
    return Encode(entry);
  }
  static std::string LeadEntry() {
    Entry entry;
    entry.kind = EntryKind::kLead;
    return Encode(entry);
  }
  static std::string DropEntry(std::uint64_t epoch, std::uint64_t number) {
    Entry entry;
    entry.kind = EntryKind::kDrop;
    entry.epoch = epoch;
    entry.number = number;
    entry.dropped = {kFamily};
    return Encode(entry);
  }
  // Puts a key into the column family of this number.
  static rocksdb::Status PutAs(std::uint32_t id, const std::string& key,
                               rocksdb::WriteBatch* batch) {
    const NumberedFamily family(id);
    return batch->Put(const_cast<NumberedFamily*>(&family), key, "value");
  }

  void ApplyOk(const LogPlace& place, const std::string& bytes) {
    const Status status = replica_.Apply(place, bytes);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Returns the keys of kFamily, one after the other.
  std::string Keys() {
    std::string keys;
    for (rocksdb::ColumnFamilyHandle* family : replica_.families()) {
      if (family->GetName() != NameOf(kFamily)) continue;
      const std::unique_ptr<rocksdb::Iterator> rows(
          replica_.db()->NewIterator(rocksdb::ReadOptions(), family));
      for (rows->SeekToFirst(); rows->Valid(); rows->Next()) keys += rows->key().ToString();
    }
    return keys;
  }

  // A handle that has only a number, for batches that nobody writes.
  class NumberedFamily : public rocksdb::ColumnFamilyHandle {
   public:
    explicit NumberedFamily(std::uint32_t id) : id_(id) {}
    const std::string& GetName() const override { return name_; }
    std::uint32_t GetID() const override { return id_; }
    rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override {
      return rocksdb::Status::NotSupported();
    }
    const rocksdb::Comparator* GetComparator() const override {
      return rocksdb::BytewiseComparator();
    }

   private:
    const std::uint32_t id_;
    const std::string name_;
  };

  TestDirectory directory_;
  Copy replica_{directory_ / "replica"};
};

TEST_F(EntryApplierTest, AnEntryIsAppliedOnce) {
  ApplyOk({1, 4}, LeadEntry());
  ApplyOk({2, 4}, PutEntry(4, 1, "a"));
  EXPECT_EQ(replica_.applied(), (meta::Applied{2, 4, 4, 1}));
  ApplyOk({2, 4}, PutEntry(4, 2, "b"));  // the same place again: the replica has that entry
  EXPECT_EQ(Keys(), "a");
  ApplyOk({5, 4}, PutEntry(4, 2, "c"));  // the log has entries of its own in between
  EXPECT_EQ(Keys(), "ac");
  EXPECT_EQ(replica_.applied(), (meta::Applied{5, 4, 4, 2}));
}

TEST_F(EntryApplierTest, AnEntryOfAnEarlierLeaderDoesNothing) {
  ApplyOk({1, 1}, LeadEntry());
  ApplyOk({2, 1}, PutEntry(1, 1, "a"));
  ApplyOk({3, 2}, LeadEntry());
  ApplyOk({4, 2}, PutEntry(1, 2, "late"));
  EXPECT_EQ(Keys(), "a");
  EXPECT_EQ(replica_.applied(), (meta::Applied{4, 2, 2, 0}));
  ApplyOk({5, 2}, PutEntry(2, 1, "b"));
  EXPECT_EQ(Keys(), "ab");
}

TEST_F(EntryApplierTest, AnEntryThatIsInTheLogTwiceDoesNothingTheSecondTime) {
  ApplyOk({1, 1}, LeadEntry());
  ApplyOk({2, 1}, PutEntry(1, 1, "a"));
  ApplyOk({3, 1}, PutEntry(1, 2, "b"));
  ApplyOk({4, 1}, PutEntry(1, 1, "c"));
  ApplyOk({5, 1}, PutEntry(1, 2, "d"));
  EXPECT_EQ(Keys(), "ab");
  EXPECT_EQ(replica_.applied(), (meta::Applied{5, 1, 1, 2}));
}

TEST_F(EntryApplierTest, ACommitMustContinueTheLastOne) {
  ApplyOk({1, 1}, LeadEntry());
  ApplyOk({2, 1}, PutEntry(1, 1, "a", kNoSerial, Serial{3}));
  ApplyOk({3, 1}, PutEntry(1, 2, "b", Serial{2}, Serial{4}));
  EXPECT_EQ(Keys(), "a");
  ApplyOk({4, 1}, PutEntry(1, 2, "c", Serial{3}, Serial{4}));
  EXPECT_EQ(Keys(), "ac");
}

TEST_F(EntryApplierTest, ADroppedFamilyIsGoneAndMayBeMadeAgain) {
  ApplyOk({1, 1}, LeadEntry());
  ApplyOk({2, 1}, PutEntry(1, 1, "a"));
  ASSERT_TRUE(replica_.Has(NameOf(kFamily)));
  ApplyOk({3, 1}, DropEntry(1, 2));
  EXPECT_FALSE(replica_.Has(NameOf(kFamily)));
  ApplyOk({4, 1}, DropEntry(1, 3));  // there is none: nothing to do
  ApplyOk({5, 1}, PutEntry(1, 4, "b"));
  EXPECT_EQ(Keys(), "b");
}

// Otherwise a replica that starts again would make the family anew, without what it had in files.
TEST_F(EntryApplierTest, WhatCameBeforeADropIsInFilesWhenTheFamilyGoes) {
  ApplyOk({1, 1}, LeadEntry());
  ApplyOk({2, 1}, PutEntry(1, 1, "a"));
  ApplyOk({3, 1}, DropEntry(1, 2));
  std::filesystem::copy(directory_ / "replica", directory_ / "after a crash");
  EXPECT_EQ(Copy(directory_ / "after a crash").applied(), (meta::Applied{3, 1, 1, 2}));
}

TEST_F(EntryApplierTest, ADamagedEntryStopsTheReplicaAndChangesNothing) {
  ApplyOk({1, 1}, LeadEntry());
  std::string damaged = PutEntry(1, 1, "a");
  damaged[20] ^= 1;
  const Status status = replica_.Apply({2, 1}, damaged);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("the replica, entry 2"), std::string::npos) << status.message();
  EXPECT_EQ(replica_.applied(), (meta::Applied{1, 1, 1, 0}));
}

TEST_F(EntryApplierTest, ABatchMayOnlyWriteToFamiliesThatItNames) {
  ApplyOk({1, 1}, LeadEntry());
  rocksdb::WriteBatch batch;
  ASSERT_TRUE(PutAs(7, "a", &batch).ok());
  ASSERT_TRUE(PutAs(8, "b", &batch).ok());
  Entry entry;
  entry.epoch = 1;
  entry.number = 1;
  entry.families = {{7, kFamily}};
  entry.body = batch.Data();
  EXPECT_EQ(replica_.Apply({2, 1}, Encode(entry)).code(), Code::kCorruption);
  EXPECT_EQ(Keys(), "");
}

TEST_F(EntryApplierTest, ABatchThatMayNotBeAppliedTwiceIsRefused) {
  ApplyOk({1, 1}, LeadEntry());
  const auto refuses = [&](const rocksdb::WriteBatch& batch) {
    EXPECT_EQ(ScanBatch(batch).status().code(), Code::kCorruption);
    Entry entry;
    entry.epoch = 1;
    entry.number = 1;
    entry.body = batch.Data();
    EXPECT_EQ(replica_.Apply({2, 1}, Encode(entry)).code(), Code::kCorruption);
  };
  rocksdb::WriteBatch merge;
  ASSERT_TRUE(merge.Merge("key", "value").ok());
  refuses(merge);
  rocksdb::WriteBatch single;
  ASSERT_TRUE(single.SingleDelete("key").ok());
  refuses(single);
  refuses(rocksdb::WriteBatch(std::string(5, 'x')));
}

TEST_F(EntryApplierTest, ADigestIsTakenOfWhatCountsUpToItsEntry) {
  ApplyOk({1, 1}, LeadEntry());
  ApplyOk({2, 1}, PutEntry(1, 1, "a"));
  const Digests before = replica_.digests();
  std::vector<LogPlace> taken;
  const OpenedShard opened = replica_.opened();
  EntryApplier applier(opened, replica_.rocks().get(), {},
                       [&](const LogPlace& place) { taken.push_back(place); });
  Entry digest;
  digest.kind = EntryKind::kDigest;
  digest.epoch = 1;
  digest.number = 2;
  ASSERT_TRUE(applier.Apply({3, 1}, Encode(digest)).ok());
  EXPECT_EQ(taken, (std::vector<LogPlace>{{3, 1}}));
  EXPECT_EQ(replica_.applied(), (meta::Applied{3, 1, 1, 2}));
  ASSERT_TRUE(applier.Apply({4, 1}, Encode(digest)).ok());  // it is in the log twice
  digest.epoch = 7;                                         // of another leader
  ASSERT_TRUE(applier.Apply({5, 1}, Encode(digest)).ok());
  EXPECT_EQ(taken.size(), 1U);
  EXPECT_EQ(Keys(), "a");
}

}  // namespace
}  // namespace topicdb::replication
