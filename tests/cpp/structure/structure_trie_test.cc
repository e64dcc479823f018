#include "structure/structure_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace topicdb {
namespace {

// Learns topics one commit each, as a shard does.
class Learner {
 public:
  explicit Learner(std::vector<std::uint32_t> thresholds) : trie_(std::move(thresholds)) {}

  NodeId Learn(std::string_view topic) {
    StructureEdit edit(trie_);
    const NodeId stream = edit.Resolve(topic, &varying_);
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
                [&](NodeId stream) { found.insert(trie_.StructureOf(stream).Text()); });
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
    std::map<std::string, NodeId> streams;
    for (int i = 0; i < 300; ++i) {
      std::string topic = random() % 10 == 0 ? "$s" : "t";
      for (std::size_t level = random() % 4; level > 0; --level) {
        topic += "/" + std::string(random() % 2, '$') + std::to_string(random() % 5);
      }
      const NodeId stream = learner.Learn(topic);
      EXPECT_EQ(streams.emplace(topic, stream).first->second, stream) << topic;
    }
    StructureTrie restored({1});
    for (const NodeRecord& record : learner.records_) ASSERT_TRUE(restored.Restore(record).ok());
    ASSERT_EQ(restored.stream_count(), learner.trie_.stream_count());
    for (const auto& [topic, stream] : streams) {
      EXPECT_EQ(restored.StructureOf(stream).Text(), learner.trie_.StructureOf(stream).Text());
      // The topic is found by itself, and by each filter made of it.
      for (const std::string& text : {topic, topic + "/#"}) {
        const Filter filter = Filter::Parse(text).value();
        std::set<NodeId> found;
        restored.Match(filter, [&](NodeId id) { found.insert(id); });
        EXPECT_TRUE(found.contains(stream)) << text;
        EXPECT_TRUE(RowFilter::Make(restored.StructureOf(stream), filter).has_value());
      }
    }
  }
}

TEST(StructureTrie, MalformedRecordsAreCorruption) {
  const auto restore = [](const NodeRecord& record) {
    StructureTrie trie({1});
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
  EXPECT_EQ(restore({1, 0, NodeKind::kWord, false, ""}), Code::kCorruption);  // the root, late
}

TEST(StructureTrie, TopicsOfManyLevelsDoNotOverflowTheStack) {
  Learner learner({1});
  const std::string topic(65'535, '/');
  learner.Learn(topic);
  EXPECT_EQ(learner.Match("#").size(), 1U);
  EXPECT_EQ(learner.Match(topic).size(), 1U);
}

TEST(RowFilter, DollarRuleAppliesToTheFirstLevelOnly) {
  const Structure structure{{{Filter::LevelKind::kPlus, ""}, {Filter::LevelKind::kPlus, ""}}};
  const auto matches = [&](std::string_view filter, std::vector<std::string_view> words) {
    return RowFilter::Make(structure, Filter::Parse(filter).value())->Matches(words);
  };
  EXPECT_FALSE(matches("#", {"$s", "x"}));
  EXPECT_TRUE(matches("#", {"s", "$x"}));
  EXPECT_TRUE(matches("$s/+", {"$s", "$x"}));
  EXPECT_FALSE(matches("+/x", {"s", "y"}));
}

TEST(TopicBuilder, PutsWordsBack) {
  const Structure structure{{{Filter::LevelKind::kPlus, ""},
                             {Filter::LevelKind::kWord, ""},
                             {Filter::LevelKind::kPlus, ""}}};
  const std::vector<std::string_view> words{"a", ""};
  std::string topic;
  TopicBuilder(structure).Build(words, [&](std::string_view part) { topic += part; });
  EXPECT_EQ(topic, "a//");
}

}  // namespace
}  // namespace topicdb
