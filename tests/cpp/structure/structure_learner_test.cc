#include "structure/structure_learner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

namespace topicdb {
namespace {

using Texts = std::set<std::string>;

Texts Learn(const std::vector<std::string>& topics, std::size_t streams_max = 2'048) {
  const std::vector<std::string_view> views(topics.begin(), topics.end());
  Texts texts;
  for (const Structure& structure : LearnStructures(views, streams_max)) {
    texts.insert(structure.Text());
  }
  return texts;
}

// Makes `count` topics of each pattern. Puts a random number below `count` in the place of each {}.
std::vector<std::string> Expand(const std::vector<std::string>& patterns, int count) {
  std::vector<std::string> topics;
  std::mt19937 random(1);
  for (const std::string& pattern : patterns) {
    for (int i = 0; i < count; ++i) {
      std::string topic = pattern;
      for (std::size_t at = topic.find("{}"); at != std::string::npos; at = topic.find("{}")) {
        topic.replace(at, 2, std::to_string(random() % static_cast<unsigned>(count)));
      }
      topics.push_back(topic);
    }
  }
  return topics;
}

TEST(StructureLearner, NumberedLevelsVaryAndKeywordsStay) {
  const std::vector<std::string> patterns{"tele/dev{}/STATE", "tele/dev{}/LWT", "stat/dev{}/RESULT",
                                          "m/{}/cpu/socket/{}/core/{}"};
  EXPECT_EQ(Learn(Expand(patterns, 50)),
            (Texts{"tele/+/STATE", "tele/+/LWT", "stat/+/RESULT", "m/+/cpu/socket/+/core/+"}));
}

TEST(StructureLearner, NamesThatAreFollowedByTheSameVary) {
  std::vector<std::string> topics;
  for (const char* room : {"kitchen", "hall", "attic"}) {
    for (const char* what : {"temperature", "humidity", "light"}) {
      topics.push_back(std::string("home/") + room + "/" + what);
    }
  }
  EXPECT_EQ(Learn(topics), (Texts{"home/+/temperature", "home/+/humidity", "home/+/light"}));
}

TEST(StructureLearner, ManyNamesVary) {
  std::vector<std::string> topics;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) topics.push_back(std::string("user/") + a + b + "/mail");
  }
  EXPECT_EQ(Learn(topics), (Texts{"user/+/mail"}));
}

TEST(StructureLearner, TheOrderOfTopicsIsOfNoMatter) {
  std::vector<std::string> topics = Expand({"a/{}/b/{}", "a/{}/c", "{}/d/e", "$SYS/{}"}, 40);
  const Texts expected = Learn(topics);
  std::mt19937 random(5);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(topics.begin(), topics.end(), random);
    EXPECT_EQ(Learn(topics), expected);
  }
  EXPECT_TRUE(Learn({}).empty());
}

TEST(StructureLearner, TheBudgetIsKeptAndAllTopicsAreCovered) {
  std::mt19937 random(7);
  std::vector<std::string> topics;
  for (int i = 0; i < 3'000; ++i) {
    std::string topic(1, static_cast<char>('a' + random() % 26));
    for (std::size_t level = random() % 8; level > 0; --level) {
      topic += std::string("/") + static_cast<char>('a' + random() % 26) + "x";
    }
    topics.push_back(topic);
  }
  for (const std::size_t streams_max : {8, 50, 2'000}) {
    const Texts structures = Learn(topics, streams_max);
    EXPECT_LE(structures.size(), streams_max);
    ASSERT_FALSE(structures.empty());
    for (const std::string& topic : topics) {
      EXPECT_TRUE(std::any_of(structures.begin(), structures.end(), [&](const auto& text) {
        return Filter::Parse(text).value().Matches(topic);
      })) << topic;
    }
  }
  EXPECT_TRUE(Learn(topics, 7).empty()) << "there are eight depths";
}

TEST(StructureLearner, TopicsOfVeryManyLevelsAreLeftOut) {
  EXPECT_EQ(Learn({"a/b", std::string(1'000, '/')}), (Texts{"a/b"}));
}

}  // namespace
}  // namespace topicdb
