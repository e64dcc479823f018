#include "subscribe/filter_tree.h"

namespace topicdb {

namespace {

void AddAll(const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

}  // namespace

void FilterTree::Add(const Filter& filter, std::uint32_t number) {
  if (filter.is_everything()) {
    everything_.push_back(number);
    return;
  }
  Node* node = &root_;
  for (const Filter::Level& level : filter.levels()) {
    std::unique_ptr<Node>& next =
        level.kind == Filter::LevelKind::kPlus ? node->plus : node->words[level.word];
    if (next == nullptr) next = std::make_unique<Node>();
    node = next.get();
  }
  (filter.ends_in_hash() ? node->below : node->here).push_back(number);
}

void FilterTree::Match(std::string_view topic, std::vector<std::uint32_t>* numbers) const {
  AddAll(everything_, numbers);
  std::vector<const Node*> nodes{&root_};  // the nodes that fit the levels so far
  std::vector<const Node*> next;
  bool wildcards = !IsDollarLevel(topic);  // whether wildcards match the next level
  if (wildcards) AddAll(root_.below, numbers);
  ForEachLevel(topic, [&](std::string_view level) {
    next.clear();
    for (const Node* node : nodes) {
      if (wildcards && node->plus != nullptr) next.push_back(node->plus.get());
      const auto found = node->words.find(level);
      if (found != node->words.end()) next.push_back(found->second.get());
    }
    for (const Node* node : next) AddAll(node->below, numbers);
    nodes.swap(next);
    wildcards = true;
  });
  for (const Node* node : nodes) AddAll(node->here, numbers);
}

}  // namespace topicdb
