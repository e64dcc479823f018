// Tests how plain pages are built, and their columns. page_test.cc tests what both forms of a page
// have in common.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "layout/columnar/format/expect_page.h"

namespace topicdb::columnar {
namespace {

constexpr std::uint32_t kIndexMax = std::numeric_limits<std::uint32_t>::max();

std::string Joined(PlainPageBuilder* builder) {
  std::string bytes;
  for (const std::string_view part : builder->Encode()) bytes.append(part);
  return bytes;
}

std::uint32_t RunsOf(const Rows& rows) { return ReadHeader(PlainPage(rows)).value().runs; }

template <typename Number>
void AppendColumn(const std::vector<Number>& column, std::string* out) {
  for (const Number number : column) AppendLittle(out, number);
}

// A plain page with three messages, "ab", "" and "c", of two topics. Tests change its columns and
// header.
struct Handmade {
  std::vector<std::uint64_t> times{5, 9, 7};
  std::vector<SerialRun> runs{{Serial{8}, 2, 4}, {Serial{9}, 1, 0}};
  std::vector<std::uint32_t> offsets{0, 2, 2, 3};
  std::vector<std::uint32_t> row_topics{0, 1, 0};
  std::vector<std::uint32_t> ends{1, 3};
  std::vector<std::uint32_t> streams{1, 2};
  PageHeader header = [] {
    PageHeader made;
    made.rows = 3;
    made.topics = 2;
    made.runs = 2;
    made.extent = {5, 9, Serial{8}, Serial{9}};
    made.topic_bytes = 3;
    made.value_bytes = 3;
    return made;
  }();

  std::string Bytes() const {
    std::string body;
    AppendColumn(times, &body);
    for (const SerialRun& run : runs) {
      AppendLittle(&body, run.serial.value());
      AppendLittle(&body, run.rows);
      AppendLittle(&body, run.first_index);
    }
    for (const auto* column : {&offsets, &row_topics, &ends, &streams}) {
      AppendColumn(*column, &body);
    }
    body += "tuv";
    body += "abc";
    PageHeader with_size = header;
    with_size.stored_bytes = static_cast<std::uint32_t>(body.size());
    std::string page;
    AppendHeader(with_size, &page);
    page += body + std::string(kCrcBytes, '\0');
    return WithChecksum(page);
  }
};

// Changes the handmade page, and expects that it is refused, and that the error says this of it.
template <typename Change>
void ExpectFault(const std::string& what, Change change) {
  Handmade page;
  change(&page);
  const Status status = Page::Decode(page.Bytes()).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
}

TEST(PlainPageBuilder, CountsWhatItIsGiven) {
  PlainPageBuilder builder;
  EXPECT_EQ(builder.rows(), 0U);
  EXPECT_EQ(builder.bytes(), 0U);
  builder.Reserve(100, 1'000);
  EXPECT_EQ(builder.rows(), 0U) << "room is no row";
  const std::uint32_t topic = builder.AddTopic(StreamId{1}, "t/u");
  EXPECT_EQ(topic, 0U);
  EXPECT_EQ(builder.AddTopic(StreamId{1}, "w"), 1U);
  builder.AddRow(topic, 9, Serial{4}, 0, "value");
  builder.AddRow(1, 2, Serial{6}, 0, "");
  EXPECT_EQ(builder.rows(), 2U);
  EXPECT_EQ(builder.bytes(), 3U + 1U + 5U);
  EXPECT_EQ(builder.extent(), (Extent{2, 9, Serial{4}, Serial{6}}));
}

TEST(PlainPageBuilder, ATopicOfSeveralRowsIsStoredOnceIfItIsAddedOnce) {
  PlainPageBuilder builder;
  const std::uint32_t topic = builder.AddTopic(StreamId{4}, "t/u");
  builder.AddRow(topic, 2, Serial{1}, 0, "x");
  builder.AddRow(topic, 1, Serial{1}, 1, "y");
  const std::string bytes = Joined(&builder);
  ExpectPage(bytes, {{4, "t/u", 2, 1, 0, "x"}, {4, "t/u", 1, 1, 1, "y"}});
  EXPECT_EQ(DecodeOk(bytes)->topics(), 1U);
}

TEST(PlainPageBuilder, MayBeUsedAgain) {
  PlainPageBuilder builder;
  for (const std::uint64_t serial : {5, 2}) {
    builder.Clear();
    builder.AddRow(builder.AddTopic(StreamId{1}, "t"), 7, Serial{serial}, 3, "v");
    ExpectPage(Joined(&builder), {{1, "t", 7, serial, 3, "v"}});
    EXPECT_EQ(builder.extent(), (Extent{7, 7, Serial{serial}, Serial{serial}}));
  }
}

TEST(PlainPageBuilder, EncodesAsOftenAsItIsAsked) {
  PlainPageBuilder builder;
  builder.AddRow(builder.AddTopic(StreamId{1}, "t"), 7, Serial{5}, 3, "v");
  const std::string first = Joined(&builder);
  EXPECT_EQ(Joined(&builder), first);
  builder.AddRow(0, 8, Serial{5}, 4, "w");
  ExpectPage(Joined(&builder), {{1, "t", 7, 5, 3, "v"}, {1, "t", 8, 5, 4, "w"}});
}

// The numbers of streams that are 256 apart displace each other while the builder looks for
// repetitions.
TEST(PlainPageBuilder, NamesEachStreamOnceAndSorted) {
  PlainPageBuilder builder;
  for (const std::uint32_t stream : {513U, 1U, 257U, 2U, 1U, 513U, 257U, 2U, kIndexMax}) {
    builder.AddTopic(StreamId{stream}, "t");
  }
  EXPECT_EQ(builder.Streams(), (std::vector<StreamId>{StreamId{1}, StreamId{2}, StreamId{257},
                                                      StreamId{513}, StreamId{kIndexMax}}));
}

TEST(PlainPage, RowsOfACommitWithSuccessiveIndexesShareARun) {
  EXPECT_EQ(RunsOf({{1, "t", 1, 5, 0, ""}, {1, "u", 9, 5, 1, ""}, {1, "t", 4, 5, 2, ""}}), 1U);
  EXPECT_EQ(RunsOf({{1, "t", 1, 5, 0, ""}, {1, "t", 2, 5, 2, ""}}), 2U) << "an index is left out";
  EXPECT_EQ(RunsOf({{1, "t", 1, 5, 0, ""}, {1, "t", 2, 6, 1, ""}}), 2U) << "another commit";
  EXPECT_EQ(RunsOf({{1, "t", 1, 5, 1, ""}, {1, "t", 2, 5, 0, ""}}), 2U) << "an index falls";
}

TEST(PlainPage, ItsColumnsAreThoseOfTheFormat) {
  const Rows rows{{1, "t", 5, 8, 4, "ab"}, {2, "uv", 9, 8, 5, ""}, {1, "t", 7, 9, 0, "c"}};
  ExpectPage(Handmade().Bytes(), rows);
  PlainPageBuilder builder;
  const std::uint32_t t = builder.AddTopic(StreamId{1}, "t");
  const std::uint32_t uv = builder.AddTopic(StreamId{2}, "uv");
  builder.AddRow(t, 5, Serial{8}, 4, "ab");
  builder.AddRow(uv, 9, Serial{8}, 5, "");
  builder.AddRow(t, 7, Serial{9}, 0, "c");
  EXPECT_EQ(Joined(&builder), Handmade().Bytes());
}

TEST(PlainPage, AColumnThatCannotBeRightIsCorruption) {
  const std::string what = "its columns are malformed";
  ExpectFault(what, [](Handmade* p) { p->row_topics[1] = 2; });
  ExpectFault(what, [](Handmade* p) { p->streams[1] = 0; });
  ExpectFault(what, [](Handmade* p) { p->ends = {4, 3}; });
  ExpectFault(what, [](Handmade* p) { p->ends = {1, 2}; });
  ExpectFault(what, [](Handmade* p) { p->offsets[0] = 1; });
  ExpectFault(what, [](Handmade* p) { p->offsets = {0, 3, 2, 3}; });
  ExpectFault(what, [](Handmade* p) { p->offsets = {0, 2, 2, 2}; });
  ExpectFault(what, [](Handmade* p) { p->times[0] = 4; });
  ExpectFault(what, [](Handmade* p) { p->times[1] = 10; });
  ExpectFault(what, [](Handmade* p) {
    p->times[0] = static_cast<std::uint64_t>(-1);
    p->header.extent.first_time = -1;
  });
}

TEST(PlainPage, SerialsThatCannotBeRightAreCorruption) {
  const std::string what = "its serials are malformed";
  ExpectFault(what, [](Handmade* p) { p->runs[0].rows = 0; });
  ExpectFault(what, [](Handmade* p) { p->runs[0].rows = 1; });
  ExpectFault(what, [](Handmade* p) { p->runs[1].rows = 2; });
  ExpectFault(what, [](Handmade* p) { p->runs[1].rows = kIndexMax; });
  ExpectFault(what, [](Handmade* p) { p->runs[1].serial = Serial{7}; });
  ExpectFault(what, [](Handmade* p) { p->runs[0].first_index = kIndexMax; });
  ExpectFault(what, [](Handmade* p) { p->header.extent.first_serial = Serial{7}; });
  ExpectFault(what, [](Handmade* p) { p->header.extent.last_serial = Serial{10}; });
  ExpectFault(what, [](Handmade* p) {
    p->runs[0].serial = kNoSerial;
    p->header.extent.first_serial = kNoSerial;
  });
}

TEST(PlainPage, AHeaderThatClaimsOtherColumnsIsCorruption) {
  const std::string what = "its columns do not fit its header";
  ExpectFault(what, [](Handmade* p) { p->header.rows = 2; });
  ExpectFault(what, [](Handmade* p) { p->header.topics = 1; });
  ExpectFault(what, [](Handmade* p) { p->header.runs = 1; });
  ExpectFault(what, [](Handmade* p) { p->header.topic_bytes = 2; });
  ExpectFault(what, [](Handmade* p) { p->header.value_bytes = kPageBytesMax; });
  ExpectFault(what, [](Handmade* p) {
    p->header.runs = 0;
    p->runs.clear();
  });
}

}  // namespace
}  // namespace topicdb::columnar
