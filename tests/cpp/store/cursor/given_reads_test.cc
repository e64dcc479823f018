#include "store/cursor/given_reads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/tail.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

using Texts = std::vector<std::string>;

// A database of one shard, in which each topic of one level is a stream of its own.
class GivenReadsTest : public testing::Test {
 protected:
  explicit GivenReadsTest(std::vector<RetentionClass> classes = {}) {
    options_.schema.retention = std::move(classes);
    options_.maintenance_interval = 0us;
    database_ = Database::Open(directory_ / "db", options_).value();
  }
  void Append(const std::vector<MessageView>& messages) {
    const auto receipt = database_->Append(messages);
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
  }
  void Rotate(std::optional<LayoutKind> layout = std::nullopt) {
    ASSERT_TRUE(database_->upkeep().Rotate(std::nullopt, false, layout).ok());
  }
  void Drop(std::uint32_t generation) {
    ASSERT_TRUE(database_->upkeep().DropSlab(0, "#", Generation{generation}).ok());
  }

  // Reads so many messages of the stream of a topic, one by one, and returns the iterator behind
  // them.
  Iterator ReadOf(const std::string& topic, std::size_t count, const std::string& filter = "#",
                  Generation generation = Generation{1}) const {
    const auto streams = database_->Streams(Filter::Parse(topic).value(), {}, generation).value();
    EXPECT_FALSE(streams.empty()) << topic;
    Iterator at =
        database_->NewIterator(streams.front(), Filter::Parse(filter).value(), {}).value();
    for (std::size_t i = 0; i < count; ++i) {
      Page page = database_->Next(at, {1, 1'000}).value();
      EXPECT_EQ(page.batch->size(), 1U);
      at = std::move(page.iterator);
    }
    return at;
  }
  // Reads on to the end of the stream.
  Iterator ToTheEnd(Iterator at) const {
    while (true) {
      Page page = database_->Next(at, {100, 100'000}).value();
      at = std::move(page.iterator);
      if (page.batch->empty()) return at;
    }
  }
  Result<std::unique_ptr<Tail>> NewTail(const std::vector<Iterator>& given,
                                        const Texts& filters = {"#"},
                                        std::map<std::uint32_t, Serial> after = {}) const {
    TailOptions options;
    options.after = std::move(after);
    options.given = given;
    std::vector<Filter> parsed;
    for (const std::string& text : filters) parsed.push_back(Filter::Parse(text).value());
    return database_->NewTail(parsed, options);
  }
  // Returns the values that a tail gives without waiting.
  Texts Tailed(const std::vector<Iterator>& given, const Texts& filters = {"#"},
               std::map<std::uint32_t, Serial> after = {}) const {
    const auto tail = NewTail(given, filters, std::move(after));
    EXPECT_TRUE(tail.ok()) << tail.status().message();
    Texts values;
    while (tail.ok()) {
      const auto batch = (*tail)->Next({1'000, 1 << 20}, 0ms, nullptr);
      EXPECT_TRUE(batch.ok()) << batch.status().message();
      if (!batch.ok() || *batch == nullptr) break;
      for (std::size_t i = 0; i < (*batch)->size(); ++i) {
        values.emplace_back((*batch)->value(i));
      }
    }
    return values;
  }
  // Returns what the first read of a tail returns, which comes to an end without messages.
  Status FirstOf(const std::vector<Iterator>& given, const Texts& filters) const {
    const auto tail = NewTail(given, filters);
    EXPECT_TRUE(tail.ok()) << tail.status().message();
    return tail.ok() ? (*tail)->Next({1'000, 1 << 20}, 0ms, nullptr).status() : tail.status();
  }
  static std::string WhyNot(const Result<std::unique_ptr<Tail>>& tail, Code code) {
    EXPECT_EQ(tail.status().code(), code) << tail.status().message();
    return tail.status().message();
  }

  const TestDirectory directory_;
  OpenOptions options_;
  std::unique_ptr<Database> database_;
};

TEST_F(GivenReadsTest, AreLeftOutUpToTheirPositionsAndNothingElse) {
  Append({{"a", 1, "a1"}, {"b", 1, "b1"}, {"a", 3, "a3"}, {"a", 3, "a3 again"}});
  Append({{"a", 2, "a2"}, {"b", 2, "b2"}, {"a", 3, "a3 later"}, {"c", 9, "c9"}});
  EXPECT_EQ(Tailed({ReadOf("a", 0)}).size(), 8U);
  EXPECT_EQ(Tailed({ReadOf("a", 1)}),
            (Texts{"b1", "a3", "a3 again", "a2", "b2", "a3 later", "c9"}));
  EXPECT_EQ(Tailed({ReadOf("a", 3)}), (Texts{"b1", "a3 again", "b2", "a3 later", "c9"}))
      << "within a commit";
  EXPECT_EQ(Tailed({ReadOf("a", 4)}), (Texts{"b1", "b2", "a3 later", "c9"}));
  EXPECT_EQ(Tailed({ReadOf("a", 5), ReadOf("b", 1)}), (Texts{"b2", "c9"}));
  EXPECT_EQ(Tailed({ReadOf("a", 1), ReadOf("a", 4)}, {"a"}), (Texts{"a3 later"}))
      << "whichever is further";
}

TEST_F(GivenReadsTest, WhatCameBehindTheirBacksIsGiven) {
  Append({{"a", 5, "5"}, {"a", 6, "6"}});
  const Iterator within = ReadOf("a", 1);
  const Iterator at_the_end = ToTheEnd(ReadOf("a", 2));
  EXPECT_TRUE(at_the_end.exhausted);
  Append({{"a", 1, "late"}});
  EXPECT_EQ(Tailed({within}), (Texts{"6", "late"}));
  EXPECT_EQ(Tailed({at_the_end}), (Texts{"late"}));
  // A further step passes over what was there by then.
  EXPECT_TRUE(Tailed({ToTheEnd(at_the_end)}).empty());
}

TEST_F(GivenReadsTest, CommitsThatWereHiddenAreGiven) {
  Append({{"a", 1, "1"}});
  Append({{"a", 2, "2"}});
  Append({{"a", 3, "3"}});
  Append({{"a", 4, "4"}});
  for (Iterator at : {ReadOf("a", 3), ToTheEnd(ReadOf("a", 3))}) {
    at.hidden = {{Serial{2}, Serial{2}}};
    const Texts rest = at.exhausted ? Texts{"2"} : Texts{"2", "4"};
    EXPECT_EQ(Tailed({at}), rest);
    at.hidden = {{Serial{1}, Serial{2}}, {Serial{2}, Serial{2}}};
    EXPECT_EQ(Tailed({at}).front(), "1");
  }
}

TEST_F(GivenReadsTest, OnlyWhatTheirFiltersWantedWasGiven) {
  options_.schema.structures = {"x/+"};
  database_.reset();
  database_ = Database::Open(directory_ / "other", options_).value();
  Append({{"x/1", 1, "1"}, {"x/2", 2, "2"}, {"x/1", 3, "3"}, {"x/2", 4, "4"}});
  const Iterator at = ToTheEnd(ReadOf("x/1", 2, "x/1"));
  EXPECT_EQ(Tailed({at}), (Texts{"2", "4"}));
  Rotate();
  Append({{"x/1", 5, "5"}, {"x/2", 6, "6"}});
  const Iterator next = ReadOf("x/1", 1, "x/1", Generation{2});
  EXPECT_EQ(Tailed({next}), (Texts{"2", "4", "6"})) << "of older generations, too";
  EXPECT_EQ(Tailed({next}, {"x/1", "y"}), Texts{});
}

TEST_F(GivenReadsTest, OlderGenerationsCountAsGiven) {
  Append({{"a", 1, "1"}});
  Rotate();
  Append({{"a", 2, "2"}, {"b", 2, "3"}});
  Rotate();
  Append({{"a", 3, "4"}});
  EXPECT_EQ(Tailed({ReadOf("a", 1, "#", Generation{2})}), (Texts{"3", "4"}));
  EXPECT_EQ(Tailed({ReadOf("a", 1, "#", Generation{2}), ReadOf("a", 0)}), (Texts{"1", "3", "4"}))
      << "not those of which there is an iterator";
}

TEST_F(GivenReadsTest, OnesThatEndHaveNotGivenWhatComesThen) {
  Append({{"a", 1, "1"}, {"a", 2, "2"}, {"a", 3, "3"}});
  const Stream stream = database_->Streams(Filter::Everything(), {}).value().front();
  const Iterator at =
      ToTheEnd(database_->NewIterator(stream, Filter::Parse("#").value(), {2, 3}).value());
  EXPECT_EQ(Tailed({at}), (Texts{"3"})) << "and what was before the start was passed over";
}

TEST_F(GivenReadsTest, ATailGoesOnFromItsSerials) {
  Append({{"a", 1, "1"}, {"b", 1, "2"}});
  Append({{"a", 2, "3"}, {"b", 2, "4"}});
  const std::vector<Iterator> given{ReadOf("a", 2)};
  Append({{"a", 1, "5"}});
  EXPECT_EQ(Tailed(given), (Texts{"2", "4", "5"}));
  EXPECT_EQ(Tailed(given, {"#"}, {{0, Serial{1}}}), (Texts{"4", "5"}));
  EXPECT_EQ(Tailed(given, {"#"}, {{0, Serial{2}}}), (Texts{"5"}));
}

TEST_F(GivenReadsTest, OfEarlierVersionsHaveGivenWhatStandsBeforeThemNow) {
  Append({{"a", 1, "1"}, {"a", 2, "2"}});
  Iterator at = ReadOf("a", 1);
  at.seen = kNoSerial;
  at.structure = {};
  Append({{"a", 0, "late"}, {"a", 3, "3"}});
  EXPECT_EQ(Tailed({at}), (Texts{"2", "3"}));
}

TEST_F(GivenReadsTest, ATailIsRefusedIfTheyHadMoreToGiveOfWhatIsGone) {
  Append({{"a", 1, "1"}, {"a", 2, "2"}, {"b", 1, "3"}});
  const Iterator within = ReadOf("a", 1);
  const Iterator a = ToTheEnd(ReadOf("a", 2));
  const Iterator b = ToTheEnd(ReadOf("b", 1));
  Rotate();
  Append({{"a", 3, "4"}});
  Drop(1);
  EXPECT_EQ(Tailed({a, b}), (Texts{"4"})) << "everything was given";
  EXPECT_EQ(Tailed({a}, {"a"}), (Texts{"4"}));
  const std::string why = WhyNot(NewTail({within, b}), Code::kNotFound);
  EXPECT_NE(why.find("generation 1"), std::string::npos) << why;
  EXPECT_NE(why.find("up to 2 messages"), std::string::npos) << why;
  WhyNot(NewTail({a}), Code::kNotFound);  // of "b" nobody knows
  EXPECT_EQ(Tailed({within}, {"#"}, {{0, within.seen}}), (Texts{"4"})) << "it is behind all that";
}

TEST_F(GivenReadsTest, RefuseWhatCannotBe) {
  Append({{"a", 1, "1"}});
  const Iterator at = ReadOf("a", 1);
  Iterator wrong = at;
  wrong.database.fill(1);
  WhyNot(NewTail({wrong}), Code::kNotFound);
  wrong = at;
  wrong.slab.shard = 7;
  WhyNot(NewTail({wrong}), Code::kNotFound);
  wrong = at;
  wrong.stream = StreamId{99};
  WhyNot(NewTail({wrong}), Code::kNotFound);
  wrong = at;
  wrong.slab.retention_class = RetentionClassId{9};
  WhyNot(NewTail({wrong}), Code::kNotFound);
  wrong = at;
  wrong.seen = Serial{100};
  EXPECT_NE(WhyNot(NewTail({wrong}), Code::kInvalidArgument).find("refresh()"), std::string::npos);
}

TEST_F(GivenReadsTest, StandInAGenerationWithoutALogUntilTheyHaveReadItToItsEnd) {
  Append({{"a", 1, "1"}});
  Rotate(LayoutKind::kSkipstream);
  Append({{"a", 2, "2"}, {"b", 1, "3"}});
  const Iterator within = ReadOf("a", 0, "#", Generation{2});
  const Iterator early = ToTheEnd(within);
  WhyNot(NewTail({early}), Code::kSchema);  // what comes goes there
  Rotate(LayoutKind::kColumnar);
  Append({{"a", 3, "4"}});
  for (const Iterator& at : {within, early}) {
    const std::string why = WhyNot(NewTail({at}), Code::kSchema);
    EXPECT_NE(why.find("generation 2"), std::string::npos) << why;
    EXPECT_NE(why.find("keeps no commit log"), std::string::npos) << why;
  }
  const Iterator a = ToTheEnd(within);
  const Iterator b = ToTheEnd(ReadOf("b", 1, "#", Generation{2}));
  EXPECT_EQ(Tailed({a, b}), (Texts{"4"}));
  EXPECT_EQ(Tailed({a}, {"a"}), (Texts{"4"}));
  EXPECT_EQ(FirstOf({a}, {"#"}).code(), Code::kSchema) << "of \"b\" it is not in the log";
}

TEST_F(GivenReadsTest, HaveGivenOlderGenerationsWithoutALogToo) {
  Append({{"a", 1, "1"}});
  Rotate(LayoutKind::kSkipstream);
  Append({{"a", 2, "2"}, {"b", 1, "3"}});
  Rotate(LayoutKind::kColumnar);
  Append({{"a", 3, "4"}, {"a", 4, "5"}});
  EXPECT_EQ(Tailed({ReadOf("a", 1, "#", Generation{3})}), (Texts{"5"}));
  const Iterator of_a = ReadOf("a", 1, "a", Generation{3});
  EXPECT_EQ(Tailed({of_a}, {"a"}), (Texts{"5"}));
  EXPECT_EQ(FirstOf({of_a}, {"b", "a"}).code(), Code::kSchema);
}

class GivenReadsOfKeepLast : public GivenReadsTest {
 protected:
  GivenReadsOfKeepLast() : GivenReadsTest({{"#", 0us, 0, 1us, 1}}) {}
};

TEST_F(GivenReadsOfKeepLast, AreNotKnownOnceTheirGenerationIsMerged) {
  Append({{"a", 1, "1"}, {"b", 1, "2"}});
  const std::vector<Iterator> given{ReadOf("a", 1)};
  const auto tail = NewTail(given).value();
  ASSERT_TRUE(database_->upkeep().Maintain(WallTime(4'000'000'000s)).ok());
  const std::string why = WhyNot(NewTail(given), Code::kNotFound);
  EXPECT_NE(why.find("merged"), std::string::npos) << why;
  EXPECT_EQ(tail->Next({10, 1'000}, 0ms, nullptr).status().code(), Code::kNotFound)
      << "it had not come there";
  EXPECT_EQ(Tailed({}), (Texts{"1", "2"}));
}

}  // namespace
}  // namespace topicdb
