#include "structure/structure_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace topicdb {
namespace {

// Learns topics as a shard does: each with a commit of its own.
class Learner {
 public:
  explicit Learner(std::vector<std::uint32_t> thresholds)
      : trie_(Learning{std::move(thresholds)}) {}
  Learner(std::vector<std::uint32_t> thresholds, std::uint32_t streams_max)
      : trie_({std::move(thresholds), /*adaptive=*/true, streams_max}) {}

  StreamId Learn(std::string_view topic) {
    StructureEdit edit(trie_);
    const StreamId stream = edit.Resolve(topic, &varying_);
    records_.insert(records_.end(), edit.nodes().begin(), edit.nodes().end());
    trie_.Apply(edit);
    return stream;
  }
  std::string StructureFor(std::string_view topic) {
    return trie_.StructureOf(Learn(topic)).Text();
  }
  void Hint(std::string_view hint) {
    StructureEdit edit(trie_);
    edit.SeedHint(Filter::Parse(hint).value());
    records_.insert(records_.end(), edit.nodes().begin(), edit.nodes().end());
    trie_.Apply(edit);
  }
  std::set<std::string> Match(std::string_view filter) const {
    std::set<std::string> found;
    trie_.Match(Filter::Parse(filter).value(),
                [&](StreamId stream) { found.insert(trie_.StructureOf(stream).Text()); });
    return found;
  }

  StructureTrie trie_;
  std::vector<NodeRecord> records_;
  std::vector<std::string_view> varying_;
};

TEST(StructureTrie, AThresholdAllowsThatManyWords) {
  Learner learner({100, 2});
  EXPECT_EQ(learner.StructureFor("a/1"), "a/1");
  EXPECT_EQ(learner.StructureFor("a/2"), "a/2");
  EXPECT_EQ(learner.StructureFor("a/3"), "a/+");
  EXPECT_EQ(learner.varying_, std::vector<std::string_view>{"3"});
  EXPECT_EQ(learner.StructureFor("a/1"), "a/1");  // a topic keeps its stream
  EXPECT_EQ(learner.StructureFor("b/3"), "b/3");  // learning is per parent
}

TEST(StructureTrie, ThresholdZeroVariesAtOnce) {
  Learner learner({0});
  EXPECT_EQ(learner.StructureFor("a/b"), "+/+");
  EXPECT_EQ(learner.StructureFor("$c/d"), "+/+");
}

TEST(StructureTrie, HintsSeedWildcards) {
  Learner learner({100});
  learner.Hint("m/+/cpu");
  learner.Hint("deep/#");
  EXPECT_EQ(learner.StructureFor("m/h1/cpu"), "m/+/cpu");
  EXPECT_EQ(learner.StructureFor("m/h1/mem"), "m/+/mem");
  EXPECT_EQ(learner.StructureFor("deep"), "deep");
  EXPECT_EQ(learner.StructureFor("deep/a/b/c"), "deep/+/+/+");
}

TEST(StructureTrie, TheOrderOfHintsDoesNotMatter) {
  const std::vector<std::vector<const char*>> orders = {{"a/+/c", "a/b/d", "a/#"},
                                                        {"a/#", "a/b/d", "a/+/c"}};
  for (const auto& hints : orders) {
    Learner learner({100});
    StructureEdit edit(learner.trie_);
    for (const char* hint : hints) edit.SeedHint(Filter::Parse(hint).value());
    learner.trie_.Apply(edit);
    EXPECT_EQ(learner.StructureFor("a/x/y"), "a/+/+");
    EXPECT_EQ(learner.StructureFor("a/b/y"), "a/b/+");
  }
}

TEST(StructureTrie, AnEditThatIsThrownAwayLeavesNothing) {
  Learner learner({1});
  learner.Learn("a/b");
  const NodeId last = learner.trie_.last_node();
  {
    StructureEdit edit(learner.trie_);
    edit.Resolve("x/y", &learner.varying_);
    EXPECT_FALSE(edit.nodes().empty());
  }
  EXPECT_EQ(learner.trie_.last_node(), last);
  EXPECT_TRUE(learner.Match("x/y").empty());
}

TEST(StructureTrie, MatchFindsWhatMayHoldTheTopic) {
  Learner learner({100, 1});
  for (const char* topic : {"a/b", "a/c", "a/c/d", "$s/x", "a"}) learner.Learn(topic);
  EXPECT_EQ(learner.Match("a/c"), (std::set<std::string>{"a/+"}));
  EXPECT_EQ(learner.Match("a/b"), (std::set<std::string>{"a/b", "a/+"}));
  EXPECT_EQ(learner.Match("a/#"), (std::set<std::string>{"a", "a/b", "a/+", "a/+/d"}));
  EXPECT_TRUE(learner.Match("$t").empty());
}

TEST(StructureTrie, RecordsRestoreTheSameTrie) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    const auto threshold = [&] { return static_cast<std::uint32_t>(random() % 4); };
    Learner learner({threshold(), threshold(), 2});
    std::map<std::string, StreamId> streams;
    for (int i = 0; i < 300; ++i) {
      std::string topic = random() % 10 == 0 ? "$s" : "t";
      for (std::size_t level = random() % 4; level > 0; --level) {
        topic += "/" + std::string(random() % 2, '$') + std::to_string(random() % 5);
      }
      const StreamId stream = learner.Learn(topic);
      EXPECT_EQ(streams.emplace(topic, stream).first->second, stream) << topic;
    }
    StructureTrie restored(Learning{{1}});
    for (const NodeRecord& record : learner.records_) ASSERT_TRUE(restored.Restore(record).ok());
    ASSERT_EQ(restored.stream_count(), learner.trie_.stream_count());
    for (const auto& [topic, stream] : streams) {
      EXPECT_EQ(restored.StructureOf(stream).Text(), learner.trie_.StructureOf(stream).Text());
      // The topic, and the topic followed by /#, are filters that find its stream.
      for (const std::string& text : {topic, topic + "/#"}) {
        const Filter filter = Filter::Parse(text).value();
        std::set<StreamId> found;
        restored.Match(filter, [&](StreamId id) { found.insert(id); });
        EXPECT_TRUE(found.contains(stream)) << text;
        EXPECT_TRUE(RowFilter::Make(restored.StructureOf(stream), filter).has_value());
      }
    }
  }
}

TEST(StructureTrie, MalformedRecordsAreCorruption) {
  const auto restore = [](const NodeRecord& record) {
    StructureTrie trie(Learning{{1}});
    EXPECT_TRUE(trie.Restore({2, 1, NodeKind::kWord, false, "a"}).ok());
    EXPECT_TRUE(trie.Restore({3, 2, NodeKind::kEnd, false, ""}).ok());
    return trie.Restore(record).code();
  };
  EXPECT_EQ(restore({4, 1, NodeKind::kWord, false, "b"}), Code::kOk);
  EXPECT_EQ(restore({5, 1, NodeKind::kWord, false, "b"}), Code::kCorruption);  // 4 is missing
  EXPECT_EQ(restore({4, 4, NodeKind::kWord, false, "b"}), Code::kCorruption);  // its own parent
  EXPECT_EQ(restore({4, 0, NodeKind::kWord, false, "b"}), Code::kCorruption);
  EXPECT_EQ(restore({4, 3, NodeKind::kWord, false, "b"}), Code::kCorruption);  // below an end
  EXPECT_EQ(restore({4, 1, NodeKind::kWord, false, "a"}), Code::kCorruption);  // there already
  EXPECT_EQ(restore({4, 2, NodeKind::kEnd, false, ""}), Code::kCorruption);
  EXPECT_EQ(restore({1, 0, NodeKind::kWord, false, ""}), Code::kCorruption);  // the root is late
}

TEST(StructureTrie, TopicsOfManyLevelsDoNotOverflowTheStack) {
  Learner learner({1});
  const std::string topic(65'535, '/');
  learner.Learn(topic);
  EXPECT_EQ(learner.Match("#").size(), 1U);
  EXPECT_EQ(learner.Match(topic).size(), 1U);
}

TEST(AdaptiveLearning, WhatVariesBelowOneWordVariesBelowItsSiblings) {
  Learner learner({100, 3}, 1'000);
  for (int i = 0; i < 5; ++i) learner.Learn("a/x1/" + std::to_string(i));
  EXPECT_EQ(learner.StructureFor("a/x2/7"), "a/x2/7");  // two siblings say nothing
  EXPECT_EQ(learner.StructureFor("a/x3/7"), "a/x3/+");  // the third one varies at once
  EXPECT_EQ(learner.StructureFor("a/x3/7/deeper/8"), "a/x3/+/deeper/8");
  EXPECT_EQ(learner.StructureFor("a/x1/0"), "a/x1/0") << "a topic keeps its stream";
  Learner base({100, 3});
  for (int i = 0; i < 5; ++i) base.Learn("a/x1/" + std::to_string(i));
  EXPECT_EQ(base.StructureFor("a/x2/7"), "a/x2/7");
}

TEST(AdaptiveLearning, ADeepTreeAddsUpAndDoesNotMultiply) {
  Learner learner({100, 10}, 100'000);
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string topic = "t";
    for (int level = 0; level < 6; ++level) topic += "/" + std::to_string(random() % 100);
    learner.Learn(topic);
  }
  EXPECT_LT(learner.trie_.stream_count(), 2'000U);
}

TEST(AdaptiveLearning, WhateverComesTheBudgetIsKeptAndTopicsStay) {
  for (const std::uint32_t streams_max : {16U, 100U}) {
    std::mt19937 random(streams_max);
    Learner learner({100, 10}, streams_max);
    std::map<std::string, StreamId> streams;
    for (int i = 0; i < 5'000; ++i) {
      std::string topic = std::to_string(random());
      for (std::size_t level = random() % 150; level > 0; --level) {
        topic += "/" + std::to_string(random() % 3);
      }
      if (random() % 4 == 0 && !streams.empty()) topic = streams.begin()->first;
      const StreamId stream = learner.Learn(topic);
      EXPECT_EQ(streams.emplace(topic, stream).first->second, stream) << topic;
    }
    EXPECT_LE(learner.trie_.stream_count(), streams_max);
    StructureTrie restored({{100, 10}, true, 2 * streams_max});  // a larger budget moves no topic
    for (const NodeRecord& record : learner.records_) ASSERT_TRUE(restored.Restore(record).ok());
    StructureEdit edit(restored);
    std::vector<std::string_view> varying;
    std::size_t shared = 0;
    for (const auto& [topic, stream] : streams) {
      EXPECT_EQ(edit.Resolve(topic, &varying), stream);
      EXPECT_EQ(restored.Find(topic, &varying), stream);
      const Structure structure = restored.StructureOf(stream);
      shared += structure.any ? 1 : 0;
      // The structure and the varying words give the topic again, and a filter finds its stream.
      std::string text;
      TopicBuilder(structure).Build(varying, [&](std::string_view part) { text += part; });
      EXPECT_EQ(text, topic);
      std::vector<std::string_view> words;
      VaryingWords(structure, topic, &words);
      EXPECT_EQ(words, varying);
      const Filter filter = Filter::Parse(topic).value();
      bool found = false;
      restored.Match(filter, [&](StreamId id) { found = found || id == stream; });
      EXPECT_TRUE(found);
      EXPECT_TRUE(RowFilter::Make(structure, filter).value().Matches(varying));
      const auto longer = RowFilter::Make(structure, Filter::Parse(topic + "/x").value());
      EXPECT_FALSE(longer.has_value() && longer->Matches(varying)) << topic;
    }
    EXPECT_GT(shared, 0U);
    EXPECT_TRUE(edit.nodes().empty());
  }
}

TEST(AdaptiveLearning, LongTopicsDoNotTakeTheMemory) {
  Learner learner({100, 10}, 64);
  for (int i = 0; i < 300; ++i) {
    std::string topic = std::to_string(i);
    for (int level = 0; level < 1'000; ++level) topic += "/w" + std::to_string(i);
    learner.Learn(topic);
  }
  EXPECT_LE(learner.trie_.stream_count(), 64U);
  EXPECT_LT(learner.trie_.memory_bytes(), 2'000'000U);
}

TEST(AdaptiveLearning, HintsComeBeforeWhatWasLearned) {
  StructureTrie trie({{100, 10}, true, 100});
  StructureEdit edit(trie);
  edit.SeedHint(Filter::Parse("site/+/pump/+").value());
  const auto word = [](const char* text) { return Filter::Level{Filter::LevelKind::kWord, text}; };
  edit.SeedStructure({{word("site"), word("7"), word("valve")}});
  std::vector<std::string_view> varying;
  const StreamId pump = edit.Resolve("site/7/pump/1", &varying);
  EXPECT_EQ(varying, (std::vector<std::string_view>{"7", "1"}));
  edit.Resolve("site/7/valve", &varying);
  EXPECT_EQ(varying, (std::vector<std::string_view>{"7"}));
  trie.Apply(edit);
  EXPECT_EQ(trie.StructureOf(pump).Text(), "site/+/pump/+");
}

}  // namespace
}  // namespace topicdb
