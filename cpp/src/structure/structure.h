// A learned topic pattern such as "metrics/+/cpu/+", and what follows from one for a filter.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/topic.h"

namespace topicdb {

// Levels of a stream's topics: words that all of them share, and '+' where they vary. Or no levels
// and `any`: topics of all sorts, "#".
struct Structure {
  std::vector<Filter::Level> levels;
  bool any = false;

  std::string Text() const;
  std::size_t VaryingCount() const;
};

// The words of a topic at the levels that vary; they point into `topic`. Of `any`, the whole topic
// is the one word.
// REQUIRES: the topic has this structure
void VaryingWords(const Structure& structure, std::string_view topic,
                  std::vector<std::string_view>* out);

// Puts topics together again from the words at the varying levels of one structure.
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

// What is left to check of a filter for the topics of one stream: words that must stand at some of
// the varying levels.
class RowFilter {
 public:
  struct Constraint {
    std::size_t varying_index;  // from 0
    std::string word;
  };

  // Absent if no topic of the structure can match.
  static std::optional<RowFilter> Make(const Structure& structure, const Filter& filter);

  const std::vector<Constraint>& constraints() const { return constraints_; }
  bool Matches(std::span<const std::string_view> words) const;

 private:
  std::vector<Constraint> constraints_;
  std::optional<Filter> whole_;  // of `any`: to be asked about the topic
  // The first level varies and the filter begins with a wildcard: "$…" topics do not match.
  bool excludes_dollar_ = false;
};

}  // namespace topicdb
