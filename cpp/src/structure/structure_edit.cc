#include <algorithm>
#include <cassert>

#include "base/bytes/hash.h"
#include "structure/structure_trie.h"

namespace topicdb {

namespace {
// How many nodes, and bytes of words, the budget allows for each of its streams.
constexpr std::size_t kNodesPerStream = 32;
constexpr std::size_t kLabelBytesPerStream = 1'024;
// A level must have this many words before they are taken to be alike: two may be "cpu" and "mem".
constexpr std::uint32_t kSiblingsMin = 3;
}  // namespace

StructureEdit::StructureEdit(const StructureTrie& base)
    : base_(base), base_last_(base.last_node()), root_all_vary_(base.root_all_vary()) {}

std::size_t StructureEdit::WordKeyHash::operator()(const WordKey& key) const {
  return Hash64(key.word, key.parent);
}

const StructureEdit::Delta* StructureEdit::FindDelta(NodeId node) const {
  if (deltas_.empty()) return nullptr;  // the common case: nothing new
  const auto found = deltas_.find(node);
  return found == deltas_.end() ? nullptr : &found->second;
}

NodeId StructureEdit::FindWord(NodeId node, std::string_view word) const {
  if (node <= base_last_) {
    if (const NodeId child = base_.FindWord(node, word); child != kNoNode) return child;
  }
  if (words_.empty()) return kNoNode;
  const auto found = words_.find(WordKey{node, std::string(word)});
  return found == words_.end() ? kNoNode : found->second;
}

NodeId StructureEdit::LinkOf(NodeId node, NodeId StructureTrie::Node::* in_base,
                             NodeId Delta::* in_edit) const {
  if (node <= base_last_) {
    if (const NodeId link = base_.nodes_[node].*in_base; link != kNoNode) return link;
  }
  const Delta* delta = FindDelta(node);
  return delta == nullptr ? kNoNode : delta->*in_edit;
}

NodeId StructureEdit::PlusOf(NodeId node) const {
  return LinkOf(node, &StructureTrie::Node::plus_child, &Delta::plus_child);
}

NodeId StructureEdit::EndOf(NodeId node) const {
  return LinkOf(node, &StructureTrie::Node::end_child, &Delta::end_child);
}

NodeId StructureEdit::ExemplarOf(NodeId node) const {
  return LinkOf(node, &StructureTrie::Node::exemplar, &Delta::exemplar);
}

std::uint32_t StructureEdit::WordCountOf(NodeId node) const {
  const Delta* delta = FindDelta(node);
  return (node <= base_last_ ? base_.nodes_[node].word_children : 0) +
         (delta == nullptr ? 0 : delta->word_children);
}

bool StructureEdit::AllVary(NodeId node) const {
  if (node == kRootNode) return root_all_vary_;
  return node <= base_last_ ? base_.nodes_[node].all_vary
                            : records_[node - base_last_ - 1].all_vary;
}

NodeId StructureEdit::Add(NodeId parent, NodeKind kind, std::string_view label) {
  const auto id = static_cast<NodeId>(base_last_ + 1 + records_.size());
  records_.push_back({id, parent, kind, false, std::string(label)});
  new_label_bytes_ += label.size();
  return id;
}

NodeId StructureEdit::AddWord(NodeId parent, std::string_view word) {
  const NodeId id = Add(parent, NodeKind::kWord, word);
  records_.back().all_vary = AllVary(parent);
  words_.emplace(WordKey{parent, std::string(word)}, id);
  ++deltas_[parent].word_children;
  return id;
}

NodeId StructureEdit::AddPlus(NodeId parent) {
  const NodeId id = Add(parent, NodeKind::kPlus, {});
  records_.back().all_vary = AllVary(parent);
  deltas_[parent].plus_child = id;
  for (NodeId child = id; child != kRootNode; child = ParentOf(child)) {
    if (ExemplarOf(ParentOf(child)) != kNoNode) break;
    deltas_[ParentOf(child)].exemplar = child;
  }
  return id;
}

NodeId StructureEdit::ParentOf(NodeId node) const {
  return node <= base_last_ ? base_.nodes_[node].parent : records_[node - base_last_ - 1].parent;
}

bool StructureEdit::IsFull() const {
  const Learning& learning = base_.learning();
  if (!learning.adaptive) return false;
  const std::size_t nodes = base_last_ + records_.size();
  return base_.stream_count() + new_streams_ + 1 >= learning.streams_max ||
         nodes >= kNodesPerStream * learning.streams_max ||
         base_.label_bytes() + new_label_bytes_ >= kLabelBytesPerStream * learning.streams_max;
}

std::uint32_t StructureEdit::ThresholdNow(std::size_t depth) const {
  const Learning& learning = base_.learning();
  const bool is_half_full =
      learning.adaptive && 2 * (base_.stream_count() + new_streams_) >= learning.streams_max;
  return is_half_full ? 0 : base_.Threshold(depth);
}

NodeId StructureEdit::Step(NodeId node, NodeId model, std::size_t depth, std::string_view word,
                           std::vector<std::string_view>* varying) {
  if (const NodeId child = FindWord(node, word); child != kNoNode) return child;
  if (const NodeId plus = PlusOf(node); plus != kNoNode) {
    varying->push_back(word);
    return plus;
  }
  const bool varies = AllVary(node) || (model != kNoNode && PlusOf(model) != kNoNode);
  const std::uint32_t threshold = varies ? 0 : ThresholdNow(depth);
  if (threshold == 0) {
    varying->push_back(word);
    return AddPlus(node);
  }
  const NodeId child = AddWord(node, word);
  if (WordCountOf(node) >= threshold) AddPlus(node);  // for the words to come
  return child;
}

NodeId StructureEdit::ModelOf(NodeId node, NodeId model, NodeId child,
                              std::string_view word) const {
  const NodeId sibling = ExemplarOf(node);
  const bool one_of_many = child == PlusOf(node) || WordCountOf(node) >= kSiblingsMin;
  if (one_of_many && sibling != kNoNode && sibling != child) return sibling;
  if (model == kNoNode) return kNoNode;
  if (const NodeId same = FindWord(model, word); same != kNoNode) return same;
  const NodeId plus = PlusOf(model);
  return plus != kNoNode ? plus : ExemplarOf(model);
}

NodeId StructureEdit::Find(std::string_view topic, std::vector<std::string_view>* varying) const {
  const NodeId node = StructureTrie::Walk(*this, topic, varying);
  return node == kNoNode ? kNoNode : EndOf(node);
}

NodeId StructureEdit::Learn(std::string_view topic, std::vector<std::string_view>* varying) {
  varying->clear();
  NodeId node = kRootNode;
  NodeId model = kNoNode;
  std::size_t depth = 0;
  ForEachLevel(topic, [&](std::string_view word) {
    const NodeId child = Step(node, model, depth++, word, varying);
    model = base_.learning().adaptive ? ModelOf(node, model, child, word) : kNoNode;
    node = child;
  });
  if (const NodeId end = EndOf(node); end != kNoNode) return end;
  const NodeId end = Add(node, NodeKind::kEnd, {});
  deltas_[node].end_child = end;
  ++new_streams_;
  return end;
}

StreamId StructureEdit::Resolve(std::string_view topic, std::vector<std::string_view>* varying) {
  if (const NodeId end = Find(topic, varying); end != kNoNode) return StreamId{end};
  NodeId any = EndOf(kRootNode);
  if (any == kNoNode && !IsFull()) return StreamId{Learn(topic, varying)};
  if (any == kNoNode) {
    any = Add(kRootNode, NodeKind::kAny, {});
    deltas_[kRootNode].end_child = any;
    ++new_streams_;
  }
  varying->assign(1, topic);
  return StreamId{any};
}

NodeId StructureEdit::SeedLevel(NodeId node, const Filter::Level& level) {
  if (level.kind == Filter::LevelKind::kPlus) {
    const NodeId plus = PlusOf(node);
    return plus != kNoNode ? plus : AddPlus(node);
  }
  const NodeId child = FindWord(node, level.word);
  return child != kNoNode ? child : AddWord(node, level.word);
}

void StructureEdit::SeedHint(const Filter& hint) {
  NodeId node = kRootNode;
  for (const Filter::Level& level : hint.levels()) node = SeedLevel(node, level);
  last_hint_ = static_cast<NodeId>(base_last_ + records_.size());
  if (!hint.ends_in_hash()) return;
  if (node == kRootNode) {
    root_all_vary_ = true;
  } else if (node > base_last_) {
    records_[node - base_last_ - 1].all_vary = true;
  }
  // Marks the paths of earlier hints below it, too, so that the order of hints does not matter.
  // Parents come before their children.
  for (NodeRecord& record : records_) record.all_vary = record.all_vary || AllVary(record.parent);
}

void StructureEdit::SeedStructure(const Structure& structure) {
  NodeId node = kRootNode;
  for (const Filter::Level& level : structure.levels) {
    const NodeId plus = PlusOf(node);
    const bool hinted =
        plus != kNoNode && plus <= last_hint_ && FindWord(node, level.word) == kNoNode;
    node = hinted ? plus : SeedLevel(node, level);
  }
}

}  // namespace topicdb
