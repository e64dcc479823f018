#include "subscribe/log_page.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace topicdb {

std::size_t LogRows::RowAt(const CommitPlace& at) const {
  std::size_t first = 0;
  std::size_t last = size();
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (place(middle) < at) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

LogPage::LogPage(std::shared_ptr<const InterestSet> interests, LogSpan span)
    : interests_(std::move(interests)), span_(std::move(span)), bytes_(sizeof(LogPage)) {
  const LogRows& all = *span_.rows;
  if (all.size() == 0) return;
  bytes_ += all.batch->bytes() + all.size() * sizeof(CommitPlace);
  const auto& wanted = interests_->interests();
  std::vector<RowNumbers> rows;
  if (!interests_->is_uniform()) rows = FindByTree();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SharedLogRows chosen = Choose(rows.empty() ? Find(*wanted[i]) : rows[i]);
    if (chosen == nullptr) continue;
    if (chosen != span_.rows) bytes_ += chosen->batch->bytes();
    rows_.emplace(wanted[i]->number, std::move(chosen));
  }
}

std::vector<LogPage::RowNumbers> LogPage::FindByTree() const {
  const Batch& batch = *span_.rows->batch;
  const auto& interests = interests_->interests();
  std::vector<RowNumbers> rows(interests.size());
  std::unordered_map<std::string_view, std::vector<std::uint32_t>> known;  // interests by topic
  for (std::uint32_t row = 0; row < batch.size(); ++row) {
    const auto [wanted, is_new] = known.try_emplace(batch.topic(row));
    if (is_new) wanted->second = interests_->WhoWants(batch.topic(row));
    for (const std::uint32_t i : wanted->second) {
      if (batch.timestamp(row) >= interests[i]->timestamp_min) rows[i].push_back(row);
    }
  }
  return rows;
}

LogPage::RowNumbers LogPage::Find(const Interest& interest) const {
  const Batch& batch = *span_.rows->batch;
  const bool any_topic = interests_->WantsAllTopics(interest);
  RowNumbers rows;
  if (any_topic && interest.timestamp_min == interests_->timestamp_min()) {
    rows.resize(batch.size());
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
  for (std::uint32_t row = 0; row < batch.size(); ++row) {
    if (batch.timestamp(row) < interest.timestamp_min) continue;
    if (any_topic || interest.Wants(batch.topic(row))) rows.push_back(row);
  }
  return rows;
}

SharedLogRows LogPage::Choose(const RowNumbers& rows) const {
  if (rows.empty()) return nullptr;
  const LogRows& all = *span_.rows;
  if (rows.size() == all.size()) return span_.rows;
  auto batch = std::make_shared<Batch>(/*keeps_serials=*/true);
  auto chosen = std::make_shared<LogRows>();
  chosen->indexes.reserve(rows.size());
  std::size_t topic_bytes = 0;
  std::size_t value_bytes = 0;
  for (const std::uint32_t row : rows) {
    topic_bytes += all.batch->topic(row).size();
    value_bytes += all.batch->value(row).size();
  }
  batch->Reserve(rows.size(), topic_bytes, value_bytes);
  for (const std::uint32_t row : rows) {
    batch->Append(all.batch->message(row), all.batch->serial(row));
    chosen->indexes.push_back(all.indexes[row]);
  }
  chosen->batch = std::move(batch);
  return chosen;
}

SharedLogRows LogPage::RowsOf(const Interest& interest) {
  const auto found = rows_.find(interest.number);
  if (found != rows_.end()) return found->second;
  if (interests_->Has(interest)) return nullptr;
  const auto [asked, is_new] = asked_.try_emplace(interest.number);
  if (is_new) asked->second = Choose(Find(interest));
  return asked->second;
}

}  // namespace topicdb
