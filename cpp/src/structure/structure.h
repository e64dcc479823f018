// Structures: learned topic patterns such as "metrics/+/cpu/+", and how a filter applies to one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/topic.h"

namespace topicdb {

// The pattern of a stream's topics. Its levels are words that all topics share, and '+' where the
// topics vary. With `any`, it has no levels and stands for topics of all sorts: "#".
struct Structure {
  std::vector<Filter::Level> levels;
  bool any = false;

  // Returns the structure as a topic filter, such as "metrics/+/cpu" or "#".
  std::string Text() const;
  // Returns how many levels vary, or 1 for `any`: the whole topic is its one varying word then.
  std::size_t VaryingCount() const;
};

// Fills `out` with the words of a topic at the varying levels. They point into `topic`. If the
// structure is `any`, the only word is the whole topic.
// REQUIRES: the topic has this structure
void VaryingWords(const Structure& structure, std::string_view topic,
                  std::vector<std::string_view>* out);

// Builds topics of one structure from the words at its varying levels. Readers own it. Immutable,
// so thread-safe.
class TopicBuilder {
 public:
  explicit TopicBuilder(const Structure& structure);

  // Calls append(text) with the parts of the topic in order.
  // REQUIRES: words.size() == the structure's VaryingCount()
  template <typename Append>
  void Build(std::span<const std::string_view> words, Append append) const {
    append(std::string_view(pieces_[0]));
    for (std::size_t i = 0; i < words.size(); ++i) {
      append(words[i]);
      append(std::string_view(pieces_[i + 1]));
    }
  }

 private:
  std::vector<std::string> pieces_;  // text before, between and after the varying words
};

// Checks the topics of one stream for a filter, by their words at varying levels. All else of the
// filter was checked once, when it was made for the stream's structure. Immutable, so thread-safe.
class RowFilter {
 public:
  // The word that must stand at a varying level.
  struct Constraint {
    std::size_t varying_index;  // from 0
    std::string word;
  };

  // Makes the rest of the filter for a structure. Returns nothing if no topic of the structure can
  // match.
  static std::optional<RowFilter> Make(const Structure& structure, const Filter& filter);

  // Returns the words that must stand at varying levels.
  const std::vector<Constraint>& constraints() const { return constraints_; }
  // Returns whether every topic of the structure matches.
  bool MatchesAll() const;
  // Returns whether a topic with these words at the varying levels matches.
  bool Matches(std::span<const std::string_view> words) const;

 private:
  std::vector<Constraint> constraints_;
  std::optional<Filter> whole_;  // for `any`: the filter itself, which is asked about the topic
  // If true, the first level varies and the filter begins with a wildcard: "$…" topics do not
  // match.
  bool excludes_dollar_ = false;
};

}  // namespace topicdb
