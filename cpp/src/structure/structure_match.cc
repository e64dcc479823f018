#include "structure/structure.h"

namespace topicdb {

using LevelKind = Filter::LevelKind;

std::string Structure::Text() const {
  if (any) return "#";
  std::string text;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (i > 0) text += '/';
    text += levels[i].kind == LevelKind::kPlus ? "+" : levels[i].word;
  }
  return text;
}

std::size_t Structure::VaryingCount() const {
  std::size_t count = any ? 1 : 0;
  for (const auto& level : levels) count += level.kind == LevelKind::kPlus ? 1 : 0;
  return count;
}

void VaryingWords(const Structure& structure, std::string_view topic,
                  std::vector<std::string_view>* out) {
  out->clear();
  if (structure.any) return out->push_back(topic);
  std::size_t depth = 0;
  ForEachLevel(topic, [&](std::string_view word) {
    if (structure.levels[depth++].kind == LevelKind::kPlus) out->push_back(word);
  });
}

TopicBuilder::TopicBuilder(const Structure& structure) : pieces_(structure.any ? 2 : 1) {
  for (std::size_t i = 0; i < structure.levels.size(); ++i) {
    if (i > 0) pieces_.back() += '/';
    if (structure.levels[i].kind == LevelKind::kPlus) {
      pieces_.emplace_back();
    } else {
      pieces_.back() += structure.levels[i].word;
    }
  }
}

std::optional<RowFilter> RowFilter::Make(const Structure& structure, const Filter& filter) {
  const auto& wanted = filter.levels();
  const auto& levels = structure.levels;
  RowFilter result;
  if (structure.any) {
    result.whole_ = filter;
    return result;
  }
  if (filter.is_everything()) return result;
  if (levels.size() < wanted.size()) return std::nullopt;
  if (levels.size() > wanted.size() && !filter.ends_in_hash()) return std::nullopt;

  std::size_t varying_index = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const bool varies = levels[i].kind == LevelKind::kPlus;
    if (i == 0 && filter.begins_with_wildcard()) {
      if (varies) result.excludes_dollar_ = true;
      if (!varies && IsDollarLevel(levels[0].word)) return std::nullopt;
    }
    if (i < wanted.size() && wanted[i].kind == LevelKind::kWord) {
      if (!varies && levels[i].word != wanted[i].word) return std::nullopt;
      if (varies) result.constraints_.push_back({varying_index, wanted[i].word});
    }
    if (varies) ++varying_index;
  }
  return result;
}

bool RowFilter::MatchesAll() const {
  return constraints_.empty() && !excludes_dollar_ &&
         (!whole_.has_value() || whole_->is_everything());
}

bool RowFilter::Matches(std::span<const std::string_view> words) const {
  if (whole_.has_value()) return whole_->Matches(words[0]);
  if (excludes_dollar_ && IsDollarLevel(words[0])) return false;
  for (const Constraint& constraint : constraints_) {
    if (words[constraint.varying_index] != constraint.word) return false;
  }
  return true;
}

}  // namespace topicdb
