#include "structure/structure_learner.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "structure/word_shape.h"
#include "topicdb/topic.h"

namespace topicdb {

namespace {

using WordId = std::uint32_t;
using Nodes = std::vector<std::uint32_t>;

constexpr std::size_t kLevelsMax = 128;
constexpr std::uint32_t kRoot = 0;
// How many levels below a node a signature describes.
constexpr std::size_t kSignatureDepth = 3;
// A signature looks at most at this many nodes of a level, which are enough to tell.
constexpr std::size_t kSignatureNodesMax = 256;
// Words are alike if their signatures are at least this similar.
constexpr double kAlikeMin = 0.5;
// A word that stands below fewer parents than this belongs to them alone, so it is likely to vary.
constexpr double kRecurrentMin = 2.5;

// How many words of a sort a level may keep. With more of them, they become a wildcard. Later
// attempts keep fewer, for small budgets.
struct Eagerness {
  std::size_t names_max;     // that are alike, and of which nothing else is known
  std::size_t keywords_max;  // that recur below many parents
  std::size_t outliers_max;  // that are unlike the rest
};
constexpr std::array<Eagerness, 5> kAttempts{
    {{16, 256, 64}, {8, 64, 16}, {4, 16, 4}, {1, 4, 1}, {0, 0, 0}}};

// The topics as a trie. LearnStructures makes one, and all attempts read it. Not changed after
// that, so thread-safe.
class Sample {
 public:
  explicit Sample(std::span<const std::string_view> topics) : nodes_(1) {
    for (const std::string_view topic : topics) Add(topic);
    for (const std::string_view word : words_) {
      shapes_.push_back(WordShape(word));
      has_digits_.push_back(word.find_first_of("0123456789") != std::string_view::npos);
    }
  }

  // A node of the trie: its words, and whether a topic ends there.
  struct Node {
    std::map<WordId, std::uint32_t> children;
    bool ends = false;
  };
  const Node& node(std::uint32_t id) const { return nodes_[id]; }
  std::string_view word(WordId id) const { return words_[id]; }
  const std::string& shape(WordId id) const { return shapes_[id]; }
  bool has_digits(WordId id) const { return has_digits_[id]; }

 private:
  void Add(std::string_view topic) {
    if (std::count(topic.begin(), topic.end(), '/') >= static_cast<std::ptrdiff_t>(kLevelsMax)) {
      return;
    }
    std::uint32_t node = kRoot;
    ForEachLevel(topic, [&](std::string_view level) {
      const auto word = ids_.emplace(level, words_.size());
      if (word.second) words_.push_back(level);
      const auto next = nodes_[node].children.emplace(word.first->second,
                                                      static_cast<std::uint32_t>(nodes_.size()));
      node = next.first->second;
      if (next.second) nodes_.emplace_back();
    });
    nodes_[node].ends = true;
  }

  std::vector<Node> nodes_;
  std::unordered_map<std::string_view, WordId> ids_;
  std::vector<std::string_view> words_;
  std::vector<std::string> shapes_;
  std::vector<bool> has_digits_;
};

// What is below some nodes, for a comparison: words and ends of topics, each with its depth below
// the nodes.
using Signature = std::set<std::pair<std::size_t, std::string>>;

// The level below a group of nodes that one path leads to: its words, and the nodes that each word
// leads to.
struct Level {
  struct Word {
    WordId id;
    Nodes nodes;  // one for each parent that has it
  };
  std::vector<Word> words;  // in the order of their texts
  std::size_t parents = 0;
  bool ends = false;
};

// One attempt to find structures, with one eagerness. Not thread-safe.
class Learner {
 public:
  Learner(const Sample& sample, const Eagerness& eagerness, std::size_t streams_max)
      : sample_(sample), eagerness_(eagerness), streams_max_(streams_max) {}

  // Finds the structures. Returns false if there are too many.
  bool Run() {
    Visit({kRoot});
    return found_.size() <= streams_max_;
  }
  std::vector<Structure> Take() { return std::move(found_); }

 private:
  // Finds the structures that begin with path_ and continue with what is below these nodes.
  void Visit(const Nodes& group) {
    if (found_.size() > streams_max_) return;
    const Level level = LevelOf(group);
    if (level.ends) found_.push_back({path_});
    const std::vector<bool> varies = Varying(level);
    Nodes merged;
    for (std::size_t i = 0; i < level.words.size(); ++i) {
      const Level::Word& word = level.words[i];
      if (varies[i]) {
        merged.insert(merged.end(), word.nodes.begin(), word.nodes.end());
        continue;
      }
      path_.push_back({Filter::LevelKind::kWord, std::string(sample_.word(word.id))});
      Visit(word.nodes);
      path_.pop_back();
    }
    if (merged.empty()) return;
    path_.push_back({Filter::LevelKind::kPlus, {}});
    Visit(merged);
    path_.pop_back();
  }

  Level LevelOf(const Nodes& group) const {
    std::map<WordId, Nodes> words;
    Level level;
    for (const std::uint32_t id : group) {
      const Sample::Node& node = sample_.node(id);
      level.ends = level.ends || node.ends;
      level.parents += node.children.empty() ? 0 : 1;
      for (const auto& [word, child] : node.children) words[word].push_back(child);
    }
    for (auto& [word, nodes] : words) level.words.push_back({word, std::move(nodes)});
    std::sort(level.words.begin(), level.words.end(), [&](const auto& a, const auto& b) {
      return sample_.word(a.id) < sample_.word(b.id);
    });
    return level;
  }

  // Returns which words of a level become its wildcard. A single one of several words never does,
  // since that would gain nothing. The only word of a level does in the last attempt.
  std::vector<bool> Varying(const Level& level) const {
    std::vector<bool> varies = Numbered(level);
    std::vector<std::size_t> names;
    for (std::size_t i = 0; i < varies.size(); ++i) {
      if (!varies[i]) names.push_back(i);
    }
    if (!names.empty()) JudgeNames(level, names, &varies);
    if (std::count(varies.begin(), varies.end(), true) == 1 && level.words.size() > 1) {
      varies.assign(varies.size(), false);
    }
    if (level.words.size() == 1) varies[0] = varies[0] || eagerness_.names_max == 0;
    return varies;
  }

  // Returns which words have digits and share their shape with another word.
  std::vector<bool> Numbered(const Level& level) const {
    std::map<std::string_view, std::size_t> families;
    for (const Level::Word& word : level.words) {
      ++families[sample_.shape(word.id)];
    }
    std::vector<bool> varies;
    for (const Level::Word& word : level.words) {
      varies.push_back(sample_.has_digits(word.id) && families[sample_.shape(word.id)] > 1);
    }
    return varies;
  }

  // Decides about the words that are not numbered.
  void JudgeNames(const Level& level, std::vector<std::size_t> names,
                  std::vector<bool>* varies) const {
    JudgeAmongNumbered(level, &names, varies);
    std::vector<std::size_t> recurrent;
    std::vector<std::size_t> rare;
    const double often = RecurrentMin(level);
    for (const std::size_t i : names) {
      (static_cast<double>(level.words[i].nodes.size()) >= often ? recurrent : rare).push_back(i);
    }
    // Rare words stand below one or two of many parents each, so they are these parents' own,
    // unless JudgeAlike finds otherwise.
    JudgeAlike(level, rare, level.parents > 1 ? 1 : eagerness_.names_max, varies);
    JudgeAlike(level, recurrent, level.parents > 1 ? eagerness_.keywords_max : eagerness_.names_max,
               varies);
  }

  // Returns below how many parents a word must stand to count as recurrent.
  static double RecurrentMin(const Level& level) {
    if (level.parents < 2) return 1;
    const auto parents = static_cast<double>(level.parents);
    return std::min(kRecurrentMin, 0.75 * parents);
  }

  // Words that are alike in what is below them become the wildcard if there are more than `few` of
  // them, or if several structures begin with them. Words that are like no other become it if there
  // are too many.
  void JudgeAlike(const Level& level, const std::vector<std::size_t>& names, std::size_t few,
                  std::vector<bool>* varies) const {
    std::vector<Signature> signatures;
    for (const std::size_t i : names) signatures.push_back(SignatureOf(level.words[i].nodes));
    std::vector<bool> judged(names.size());
    std::vector<std::size_t> alone;
    for (std::size_t first = 0; first < names.size(); ++first) {
      if (judged[first]) continue;
      std::vector<std::size_t> alike;
      for (std::size_t i = first; i < names.size(); ++i) {
        if (judged[i] || Similarity(signatures[first], signatures[i]) < kAlikeMin) continue;
        judged[i] = true;
        alike.push_back(names[i]);
      }
      if (alike.size() == 1) {
        alone.push_back(alike[0]);
      } else if (alike.size() > few || HaveSeveral(level, alike)) {
        for (const std::size_t i : alike) (*varies)[i] = true;
      }
    }
    if (alone.size() <= std::min(eagerness_.outliers_max, std::max<std::size_t>(few, 4))) return;
    for (const std::size_t i : alone) (*varies)[i] = true;
  }

  // Decides about names that stand beside numbered words, and removes those from `names` that join
  // them. A name does if more than half of what is below it is also below the numbered words. That
  // says something only if there is more than one thing below it, or if it has digits itself.
  void JudgeAmongNumbered(const Level& level, std::vector<std::size_t>* names,
                          std::vector<bool>* varies) const {
    Nodes numbered;
    for (std::size_t i = 0; i < varies->size(); ++i) {
      if (!(*varies)[i]) continue;
      const Nodes& nodes = level.words[i].nodes;
      numbered.insert(numbered.end(), nodes.begin(), nodes.end());
    }
    if (numbered.empty()) return;
    const Signature usual = SignatureOf(numbered);
    std::erase_if(*names, [&](std::size_t i) {
      const Signature own = SignatureOf(level.words[i].nodes);
      const bool says_something = own.size() > 1 || sample_.has_digits(level.words[i].id);
      const bool is_alike = says_something && 2 * SharedOf(own, usual) > own.size();
      if (is_alike) (*varies)[i] = true;
      return is_alike;
    });
  }

  // Returns whether more than one structure begins with these words if they are taken together.
  bool HaveSeveral(const Level& level, const std::vector<std::size_t>& words) const {
    Nodes merged;
    for (const std::size_t i : words) {
      const Nodes& nodes = level.words[i].nodes;
      merged.insert(merged.end(), nodes.begin(), nodes.end());
    }
    Learner below(sample_, eagerness_, 1);
    below.Visit(merged);
    return below.found_.size() > 1;
  }

  // Describes what is below the nodes. Leaves out words that stand only once below several nodes:
  // they vary there, and say nothing.
  Signature SignatureOf(Nodes nodes) const {
    Signature signature;
    for (std::size_t depth = 1; depth <= kSignatureDepth && !nodes.empty(); ++depth) {
      if (nodes.size() > kSignatureNodesMax) nodes.resize(kSignatureNodesMax);
      Nodes below;
      std::map<WordId, std::size_t> counts;
      for (const std::uint32_t id : nodes) {
        const Sample::Node& node = sample_.node(id);
        if (node.ends) signature.emplace(depth, "/");  // no level has a slash
        for (const auto& [word, child] : node.children) {
          ++counts[word];
          below.push_back(child);
        }
      }
      for (const auto& [word, count] : counts) {
        if (sample_.has_digits(word)) {
          signature.emplace(depth, "0");
        } else if (count > 1 || nodes.size() == 1) {
          signature.emplace(depth, sample_.word(word));
        }
      }
      nodes = std::move(below);
    }
    return signature;
  }

  // Returns how much of `a` is in `b`, too.
  static std::size_t SharedOf(const Signature& a, const Signature& b) {
    return static_cast<std::size_t>(
        std::count_if(a.begin(), a.end(), [&](const auto& item) { return b.contains(item); }));
  }

  // Returns Jaccard's index of the two.
  static double Similarity(const Signature& a, const Signature& b) {
    const std::size_t shared = SharedOf(a, b);
    const std::size_t all = a.size() + b.size() - shared;
    return all == 0 ? 1 : static_cast<double>(shared) / static_cast<double>(all);
  }

  const Sample& sample_;
  const Eagerness eagerness_;
  const std::size_t streams_max_;
  std::vector<Filter::Level> path_;
  std::vector<Structure> found_;
};

}  // namespace

std::vector<Structure> LearnStructures(std::span<const std::string_view> topics,
                                       std::size_t streams_max) {
  std::vector<std::string_view> sorted(topics.begin(), topics.end());
  std::sort(sorted.begin(), sorted.end());
  const Sample sample(sorted);
  for (const Eagerness& eagerness : kAttempts) {
    Learner learner(sample, eagerness, streams_max);
    if (learner.Run()) return learner.Take();
  }
  return {};  // the topics have more depths than there are streams
}

}  // namespace topicdb
