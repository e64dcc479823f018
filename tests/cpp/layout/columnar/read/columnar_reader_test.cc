#include "layout/columnar/read/columnar_reader.h"

#include <gtest/gtest.h>

#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

// Writes messages of one topic as one commit, so that they lie in one piece in their page.
void WriteTopic(ColumnarSlab* slab, const std::string& topic, std::size_t count,
                std::size_t value_size) {
  Rows rows;
  for (std::size_t i = 0; i < count; ++i) {
    std::string value = std::to_string(slab->rows().size() + i);
    value.resize(value_size, '.');
    rows.push_back({1, topic, static_cast<std::int64_t>(i), 0, 0, std::move(value)});
  }
  slab->Write(std::move(rows));
}

Batch ReadBatch(StreamReader* reader, const ReadLimits& limits) {
  Batch batch;
  const auto outcome = reader->Read(limits, &batch);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message();
  return batch;
}

TEST(ColumnarReader, GoesOnFromWhereItStopped) {
  ColumnarSlab slab;
  WriteTopic(&slab, "a", 30, 5);
  WriteTopic(&slab, "b", 30, 5);
  slab.Seal(SealScope::kFresh);
  WriteTopic(&slab, "a", 10, 5);
  const ReadRequest all = Request("#");
  for (const std::size_t rows_max : {1, 7}) {
    Rows rows;
    ReadRequest request = all;
    while (true) {  // each turn makes another reader
      const auto reader = slab.layout().NewReader(slab.Source(), request);
      const Batch batch = ReadBatch(reader.get(), {rows_max, 1 << 20, 1'000});
      if (batch.empty()) break;
      for (std::size_t row = 0; row < batch.size(); ++row) {
        rows.push_back({0, std::string(batch.topic(row)), batch.timestamp(row), 0, 0,
                        std::string(batch.value(row))});
      }
      request.position = reader->position();
    }
    EXPECT_EQ(rows, AsRead(slab.Expected(all)));
  }
}

TEST(ColumnarReader, ManyValuesThatLieTogetherAreLentByTheirPage) {
  ColumnarSlab slab;
  slab.limits.page_bytes_max = slab.limits.block_bytes_max = 1 << 20;
  WriteTopic(&slab, "a", 1'000, 300);
  for (const bool sealed : {false, true}) {
    if (sealed) slab.Seal(SealScope::kFresh);
    const auto reader = slab.layout().NewReader(slab.Source(), Request("#"));
    const Batch batch = ReadBatch(reader.get(), {900, 1 << 20, 10'000});
    EXPECT_EQ(batch.size(), 900U);
    EXPECT_EQ(batch.value_bytes().size(), 300'000U);  // the page's, not those of 900 values
    EXPECT_EQ(ReadAll(slab, Request("#"), {900, 1 << 20, 10'000}),
              AsRead(slab.Expected(Request("#"))));
  }
}

TEST(ColumnarReader, ABatchIsNoLargerThanItsLimit) {
  ColumnarSlab slab;
  slab.limits.page_bytes_max = slab.limits.block_bytes_max = 1 << 20;
  WriteTopic(&slab, std::string(2'000, 't'), 1'000, 300);
  slab.Seal(SealScope::kFresh);
  for (const std::size_t bytes_max : {100'000, 200'000, 1'000'000}) {
    const auto reader = slab.layout().NewReader(slab.Source(), Request("#"));
    const Batch batch = ReadBatch(reader.get(), {1'000, bytes_max, 10'000});
    EXPECT_GT(batch.size(), 1U);
    EXPECT_LE(batch.bytes(), bytes_max);
  }
}

TEST(ColumnarReader, AMessageLargerThanTheLimitComesAlone) {
  ColumnarSlab slab;
  WriteTopic(&slab, "a", 3, 500'000);
  const auto reader = slab.layout().NewReader(slab.Source(), Request("#"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ReadBatch(reader.get(), {10, 100, 1'000}).size(), 1U);
  EXPECT_TRUE(ReadBatch(reader.get(), {10, 100, 1'000}).empty());
}

TEST(ColumnarReader, AnEmptyRangeHoldsNothing) {
  ColumnarSlab slab;
  WriteTopic(&slab, "a", 3, 5);
  ReadRequest request = Request("#");
  request.range = {2, 2};
  EXPECT_TRUE(ReadAll(slab, request).empty());
  request.range = {2, 1};
  EXPECT_TRUE(ReadAll(slab, request).empty());
}

}  // namespace
}  // namespace topicdb::columnar
