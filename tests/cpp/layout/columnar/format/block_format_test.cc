#include "layout/columnar/format/block_format.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"

namespace topicdb::columnar {
namespace {

constexpr std::int64_t kTimeMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kMax32 = std::numeric_limits<std::uint32_t>::max();

// Makes a string of a literal that may contain zeros.
template <std::size_t size>
std::string Bytes(const char (&literal)[size]) {
  return {literal, size - 1};
}

std::string WithChecksum(std::string body) {
  AppendLittle(&body, Crc32(body));
  return body;
}

// Expects that Decode refuses a record with any bit flipped, cut off anywhere, or with a byte
// added.
template <typename Record>
void ExpectDamageIsNoticed(const std::string& bytes) {
  Record record;
  for (std::size_t i = 0; i < 8 * bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(Decode(flipped, &record)) << i;
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Decode(bytes.substr(0, size), &record)) << size;
  }
  EXPECT_FALSE(Decode(bytes + '\0', &record));
}

BlockEntry ExampleEntry() {
  BlockEntry entry;
  entry.codec = PageCodec::kLz4;
  entry.rows = 300;
  entry.pages = 2;
  entry.extent = {1, 130, Serial{5}, Serial{5}};
  entry.bytes = 20'000;
  entry.streams = "filter";
  return entry;
}

void ExpectRoundTrips(const BlockEntry& entry) {
  BlockEntry decoded;
  ASSERT_TRUE(Decode(Encode(entry), &decoded));
  EXPECT_EQ(decoded.codec, entry.codec);
  EXPECT_EQ(decoded.rows, entry.rows);
  EXPECT_EQ(decoded.pages, entry.pages);
  EXPECT_EQ(decoded.form, entry.form);
  EXPECT_EQ(decoded.value_bytes, entry.value_bytes);
  EXPECT_EQ(decoded.staged, entry.staged);
  EXPECT_EQ(decoded.extent, entry.extent);
  EXPECT_EQ(decoded.bytes, entry.bytes);
  EXPECT_EQ(decoded.streams, entry.streams);
  EXPECT_EQ(decoded.staged, entry.staged);
  EXPECT_EQ(decoded.level, entry.level);
}

Directory ExampleDirectory() {
  return {
      {10, {0, 5, Serial{1}, Serial{9}}, StreamId{1}, "a/b"},
      {1, {3, 3, Serial{2}, Serial{2}}, StreamId{1}, "a/bcd"},
      {kMax32, {0, kTimeMax, Serial{1}, kLastSerial}, StreamId{1}, "a"},
      {7, {kTimeMax, kTimeMax, kLastSerial, kLastSerial}, StreamId{kMax32}, std::string(300, '/')}};
}

TEST(BlockFormat, OnlyAnEntryWithALevelIsOfTheVersionThatHasOne) {
  BlockEntry entry = ExampleEntry();
  const std::string without = Encode(entry);
  EXPECT_EQ(without[0], 1);
  ExpectRoundTrips(entry);
  entry.level = 300;
  const std::string with = Encode(entry);
  EXPECT_EQ(with, WithChecksum("\3\3\xac\2" + without.substr(2, without.size() - 6)));
  ExpectRoundTrips(entry);
  ExpectDamageIsNoticed<BlockEntry>(with);
  EXPECT_FALSE(
      Decode(WithChecksum(Bytes("\3\3\0") + without.substr(2, without.size() - 6)), &entry));
}

TEST(BlockFormat, AnEntryOfPagesThatAreApartSaysHowManyBytesTheirValuesHave) {
  const std::string together = Encode(ExampleEntry());
  const std::string rest =
      together.substr(2, together.size() - 2 - 4 - std::string("filter").size());
  BlockEntry entry = ExampleEntry();
  entry.form = PageForm::kApart;
  entry.value_bytes = 300;
  const std::string bytes = Encode(entry);
  EXPECT_EQ(bytes, WithChecksum(Bytes("\4\3\0\0") + rest + "\xac\2" + "filter"));
  ExpectRoundTrips(entry);
  ExpectDamageIsNoticed<BlockEntry>(bytes);
  entry.level = 3;
  EXPECT_EQ(Encode(entry), WithChecksum(Bytes("\4\3\0\3") + rest + "\xac\2" + "filter"));
  ExpectRoundTrips(entry);
  entry.level = 0;
  entry.staged = true;
  EXPECT_EQ(Encode(entry), WithChecksum(Bytes("\4\3\1\0") + rest + "\xac\2" + "filter"));
  ExpectRoundTrips(entry);
  EXPECT_TRUE(HasValueRecords(entry));
  entry.value_bytes = 0;
  EXPECT_FALSE(HasValueRecords(entry));
  BlockEntry decoded;
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\4\3\2\0") + rest + "\xac\2" + "filter"), &decoded))
      << "an unknown flag";
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\5\3\0\0") + rest + "\xac\2" + "filter"), &decoded))
      << "an unknown version";
  entry.value_bytes = entry.bytes + 1;
  EXPECT_FALSE(Decode(Encode(entry), &decoded)) << "more bytes of values than of messages";
}

TEST(BlockFormat, KeysAreTheBytesThatTheFormatDraws) {
  constexpr BlockId kBlock{0x0102030405060708};
  EXPECT_EQ(RecordKey(RecordKind::kFreshEntry, kBlock), Bytes("\1\1\2\3\4\5\6\7\10"));
  EXPECT_EQ(RecordKey(RecordKind::kFreshPage, kBlock), Bytes("\2\1\2\3\4\5\6\7\10"));
  EXPECT_EQ(RecordKey(RecordKind::kSealedEntry, kBlock), Bytes("\3\1\2\3\4\5\6\7\10"));
  EXPECT_EQ(RecordKey(RecordKind::kDirectory, kBlock), Bytes("\4\1\2\3\4\5\6\7\10"));
  EXPECT_EQ(RecordKey(RecordKind::kWordFilter, BlockId{1}), Bytes("\6\0\0\0\0\0\0\0\1"));
  EXPECT_EQ(DeletedRowsKey(kBlock, 0x0a0b0c0d), Bytes("\5\1\2\3\4\5\6\7\10\12\13\14\15"));
  EXPECT_EQ(SealedPageKey(kBlock.value(), 0x0a0b0c0d), Bytes("\1\2\3\4\5\6\7\10\12\13\14\15"));
  EXPECT_EQ(SealedPageKey(kBlock.value(), ValuesOf(0x0a0b0c0d)),
            Bytes("\1\2\3\4\5\6\7\10\212\13\14\15"));
  EXPECT_EQ(KindPrefix(RecordKind::kDeletedRows), "\5");
}

TEST(BlockFormat, KeysTellTheirBlock) {
  for (const BlockId block : {BlockId{1}, BlockId{0x8000}, BlockId{~std::uint64_t{0}}}) {
    EXPECT_EQ(BlockOf(RecordKey(RecordKind::kSealedEntry, block)), block);
    EXPECT_EQ(BlockOf(DeletedRowsKey(block, kMax32)), block);
  }
  EXPECT_EQ(BlockOf(""), kNoBlock);
  EXPECT_EQ(BlockOf(Bytes("\1\0\0\0\0\0\0\1")), kNoBlock);
}

TEST(BlockFormat, RecordsAreTheBytesThatTheFormatDraws) {
  EXPECT_EQ(Encode(ExampleEntry()),
            WithChecksum(Bytes("\1\3\xac\2\2\1\x81\1\5\0\xa0\x9c\1") + "filter"));
  EXPECT_EQ(Encode(Directory{{10, {0, 5, Serial{1}, Serial{9}}, StreamId{1}, "a/b"},
                             {1, {3, 3, Serial{2}, Serial{2}}, StreamId{2}, "a/cd"}}),
            WithChecksum(Bytes("\1\2\12\0\5\1\10\1\0\3a/b") + Bytes("\1\3\0\2\0\2\2\2cd")));
  EXPECT_EQ(Encode(DeletedRows{0, 1, 300}), WithChecksum(Bytes("\1\0\1\xab\2")));
  EXPECT_EQ(EncodeFilter("bits"), WithChecksum("\1bits"));
}

TEST(BlockFormat, EntriesRoundTrip) {
  ExpectRoundTrips(ExampleEntry());
  BlockEntry entry;
  entry.rows = entry.pages = kMax32;
  entry.extent = {0, kTimeMax, Serial{1}, kLastSerial};
  entry.bytes = kMax64;
  ExpectRoundTrips(entry);
  entry.codec = PageCodec::kZstd;
  entry.rows = entry.pages = 1;
  entry.extent = {kTimeMax, kTimeMax, kLastSerial, kLastSerial};
  entry.streams = std::string(64, '\0');
  ExpectRoundTrips(entry);
}

TEST(BlockFormat, DirectoriesRoundTrip) {
  const Directory directory = ExampleDirectory();
  Directory decoded(9);
  ASSERT_TRUE(Decode(Encode(directory), &decoded));
  ASSERT_EQ(decoded.size(), directory.size());
  for (std::size_t page = 0; page < directory.size(); ++page) {
    EXPECT_EQ(decoded[page].rows, directory[page].rows);
    EXPECT_EQ(decoded[page].extent, directory[page].extent);
    EXPECT_EQ(decoded[page].first_stream, directory[page].first_stream);
    EXPECT_EQ(decoded[page].first_topic, directory[page].first_topic);
  }
}

TEST(BlockFormat, DeletedRowsRoundTrip) {
  DeletedRows many;
  for (std::uint32_t row = 0; row < kPageRowsMax; row += 1 + row % 200) many.push_back(row);
  for (const DeletedRows& rows :
       {DeletedRows{}, DeletedRows{0}, DeletedRows{0, 1, 2}, DeletedRows{kPageRowsMax - 1}, many}) {
    DeletedRows decoded{7};
    ASSERT_TRUE(Decode(Encode(rows), &decoded));
    EXPECT_EQ(decoded, rows);
  }
}

TEST(BlockFormat, FiltersRoundTrip) {
  for (const std::string& filter : {std::string(), std::string(64, '\xff'), Bytes("\0\1")}) {
    std::string decoded = "old";
    ASSERT_TRUE(DecodeFilter(EncodeFilter(filter), &decoded));
    EXPECT_EQ(decoded, filter);
  }
}

TEST(BlockFormat, DamageIsNoticed) {
  ExpectDamageIsNoticed<BlockEntry>(Encode(ExampleEntry()));
  ExpectDamageIsNoticed<Directory>(Encode(ExampleDirectory()));
  ExpectDamageIsNoticed<DeletedRows>(Encode(DeletedRows{0, 1, 300}));
  ExpectDamageIsNoticed<DeletedRows>(Encode(DeletedRows{}));
}

TEST(BlockFormat, DamagedFiltersAreNoticed) {
  const std::string bytes = EncodeFilter(std::string(32, '\x55'));
  std::string filter;
  for (std::size_t i = 0; i < 8 * bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(DecodeFilter(flipped, &filter)) << i;
    EXPECT_FALSE(DecodeFilter(bytes.substr(0, i / 8), &filter)) << i;
  }
}

TEST(BlockFormat, ImpossibleEntriesAreRefused) {
  const auto is_refused = [](auto change) {
    BlockEntry entry = ExampleEntry();
    change(&entry);
    BlockEntry decoded;
    return !Decode(Encode(entry), &decoded);
  };
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->codec = PageCodec{0}; }));
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->codec = PageCodec{4}; }));
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->rows = 0; }));
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->pages = 0; }));
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->rows = 1; }));  // fewer rows than pages
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->extent.first_serial = kNoSerial; }));
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->extent.last_serial = Serial{4}; }));
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->extent.first_time = -1; }));
  EXPECT_TRUE(is_refused([](BlockEntry* e) { e->extent.last_time = 0; }));
}

TEST(BlockFormat, ImpossibleRecordsWithARightChecksumAreRefused) {
  Directory directory;
  const std::string page = Bytes("\12\0\5\1\10\1\0\3a/b");
  EXPECT_TRUE(Decode(WithChecksum("\1\1" + page), &directory));
  EXPECT_FALSE(Decode(WithChecksum("\2\1" + page), &directory));  // an unknown version
  EXPECT_FALSE(Decode(WithChecksum("\1\2" + page), &directory));  // a page is missing
  EXPECT_FALSE(Decode(WithChecksum("\1\1" + page + "x"), &directory));
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\1\1\0\0\5\1\10\1\0\3a/b")), &directory));  // no rows
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\1\1\12\0\5\1\10\0\0\3a/b")), &directory));
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\1\1\12\0\5\1\10\1\1\3a/b")), &directory));
  EXPECT_FALSE(Decode(WithChecksum("\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1" + page), &directory));

  DeletedRows rows;
  EXPECT_TRUE(Decode(WithChecksum(Bytes("\1\0\1")), &rows));
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\1\1\0")), &rows));          // the same row twice
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\1\1\x80")), &rows));        // a number that is cut off
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\1\x80\x80\x40")), &rows));  // a row beyond any page
  EXPECT_FALSE(Decode(WithChecksum("\1\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"), &rows));
}

Placement ExamplePlacement() {
  return {kStagedPagesMin + 9,
          Serial{300},
          1'000,
          {{1, StreamId{7}, {}},
           {4, StreamId{8}, {{"a/b", StreamId{9}}, {"a/c", StreamId{7}}}},
           {300, StreamId{9}, {}}}};
}

TEST(BlockFormat, AStagedBlocksEntryIsTheSameButForItsVersion) {
  BlockEntry entry = ExampleEntry();
  entry.staged = true;
  ExpectRoundTrips(entry);
  const std::string bytes = Encode(entry);
  EXPECT_EQ(bytes.front(), 2);
  ExpectDamageIsNoticed<BlockEntry>(bytes);
  BlockEntry decoded;
  ASSERT_TRUE(Decode(bytes, &decoded));
  EXPECT_TRUE(decoded.staged);
  ASSERT_TRUE(Decode(Encode(ExampleEntry()), &decoded));
  EXPECT_FALSE(decoded.staged);
}

TEST(BlockFormat, Placements) {
  const Placement placement = ExamplePlacement();
  const std::string bytes = Encode(placement);
  EXPECT_EQ(bytes, WithChecksum(Bytes("\1\11\0\0\0\0\0\0\200\254\2\350\7\3"
                                      "\1\7\0"
                                      "\3\10\2\3a/b\11\3a/c\7"
                                      "\250\2\11\0")));
  ExpectDamageIsNoticed<Placement>(bytes);
  Placement decoded;
  ASSERT_TRUE(Decode(bytes, &decoded));
  EXPECT_EQ(Encode(decoded), bytes);
  EXPECT_EQ(decoded.StreamOf(1, "x"), StreamId{7});
  EXPECT_EQ(decoded.StreamOf(4, "a/a"), StreamId{8});
  EXPECT_EQ(decoded.StreamOf(4, "a/b"), StreamId{9});
  EXPECT_EQ(decoded.StreamOf(4, "a/c"), StreamId{7});
  EXPECT_EQ(decoded.StreamOf(2, "x"), kNoStream);
  EXPECT_EQ(decoded.GroupsOf({StreamId{7}}), (std::vector<std::uint32_t>{1, 4}));
  EXPECT_EQ(decoded.GroupsOf({StreamId{9}}), (std::vector<std::uint32_t>{4, 300}));
  EXPECT_EQ(decoded.GroupsOf({StreamId{6}}), std::vector<std::uint32_t>());
  // The second step is 2^64 - 1, so that group 2 would follow group 3.
  EXPECT_FALSE(Decode(WithChecksum(Bytes("\1\11\0\0\0\0\0\0\200\254\2\350\7\2"
                                         "\3\7\0"
                                         "\377\377\377\377\377\377\377\377\377\1\10\0")),
                      &decoded));
  for (const auto& spoil : std::vector<void (*)(Placement*)>{
           [](Placement* p) { p->pages = 5; }, [](Placement* p) { p->serial = kNoSerial; },
           [](Placement* p) { p->groups.clear(); }, [](Placement* p) { p->groups[1].group = 1; },
           [](Placement* p) { p->groups[0].stream = kNoStream; },
           [](Placement* p) { std::swap(p->groups[1].others[0], p->groups[1].others[1]); },
           [](Placement* p) { p->time_shift = -1; }}) {
    Placement spoilt = placement;
    spoil(&spoilt);
    EXPECT_FALSE(Decode(Encode(spoilt), &decoded));
  }
}

}  // namespace
}  // namespace topicdb::columnar
