#include "structure/structure_trie.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/hash.h"

namespace topicdb {

namespace {
constexpr std::size_t kTableSizeMin = 16;
constexpr std::size_t kLabelBytesMax = 0xffffffff;  // Node::label_begin has 32 bits
}  // namespace

StructureTrie::StructureTrie(std::vector<std::uint32_t> thresholds)
    : thresholds_(std::move(thresholds)), nodes_(2), table_(kTableSizeMin, kNoNode) {
  assert(!thresholds_.empty());
}

std::uint32_t StructureTrie::Threshold(std::size_t depth) const {
  return thresholds_[std::min(depth, thresholds_.size() - 1)];
}

std::size_t StructureTrie::memory_bytes() const {
  return nodes_.capacity() * sizeof(Node) + labels_.capacity() + table_.capacity() * sizeof(NodeId);
}

NodeId StructureTrie::FindWord(NodeId parent, std::string_view word) const {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t slot = Hash64(word, parent) & mask;; slot = (slot + 1) & mask) {
    const NodeId child = table_[slot];
    if (child == kNoNode) return kNoNode;
    if (nodes_[child].parent == parent && Label(nodes_[child]) == word) return child;
  }
}

void StructureTrie::InsertIntoTable(NodeId child) {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = Hash64(Label(nodes_[child]), nodes_[child].parent) & mask;
  while (table_[slot] != kNoNode) slot = (slot + 1) & mask;
  table_[slot] = child;
}

void StructureTrie::GrowTable() {
  table_.assign(table_.size() * 2, kNoNode);
  for (NodeId id = kRootNode + 1; id < nodes_.size(); ++id) {
    if (nodes_[id].kind == NodeKind::kWord) InsertIntoTable(id);
  }
}

void StructureTrie::Add(const NodeRecord& record) {
  assert(record.id == nodes_.size());
  Node node;
  node.parent = record.parent;
  node.kind = record.kind;
  node.all_vary = record.all_vary;
  node.label_begin = static_cast<std::uint32_t>(labels_.size());
  node.label_size = static_cast<std::uint16_t>(record.label.size());
  labels_ += record.label;
  Node& parent = nodes_[record.parent];
  switch (record.kind) {
    case NodeKind::kWord:
      node.next_sibling = std::exchange(parent.first_child, record.id);
      ++parent.word_children;
      break;
    case NodeKind::kPlus:
      parent.plus_child = record.id;
      break;
    case NodeKind::kEnd:
      parent.end_child = record.id;
      ++stream_count_;
      break;
  }
  nodes_.push_back(node);
  if (record.kind != NodeKind::kWord) return;
  ++word_count_;
  if (4 * word_count_ > 3 * table_.size()) {
    GrowTable();
  } else {
    InsertIntoTable(record.id);
  }
}

Status StructureTrie::Restore(const NodeRecord& record) {
  const auto fault = [&](const char* reason) {
    return Corruption("structure node " + std::to_string(record.id) + ": " + reason);
  };
  if (record.id == kRootNode) {
    if (nodes_.size() != kRootNode + 1) return fault("the root must come first");
    nodes_[kRootNode].all_vary = record.all_vary;
    return Status::Ok();
  }
  if (record.id != nodes_.size()) return fault("a node before it is missing");
  if (record.parent == kNoNode || record.parent >= record.id) return fault("its parent is missing");
  const Node& parent = nodes_[record.parent];
  if (parent.kind == NodeKind::kEnd) return fault("it stands below the end of a topic");
  if (labels_.size() + record.label.size() > kLabelBytesMax) return fault("too many words");
  const bool duplicate =
      (record.kind == NodeKind::kPlus && parent.plus_child != kNoNode) ||
      (record.kind == NodeKind::kEnd && parent.end_child != kNoNode) ||
      (record.kind == NodeKind::kWord && FindWord(record.parent, record.label) != kNoNode);
  if (duplicate) return fault("its parent has such a child already");
  Add(record);
  return Status::Ok();
}

void StructureTrie::Apply(const StructureEdit& edit) {
  assert(edit.base_last_ == last_node());
  nodes_[kRootNode].all_vary = edit.root_all_vary();
  for (const NodeRecord& record : edit.nodes()) Add(record);
}

bool StructureTrie::IsStream(NodeId id) const {
  return id < nodes_.size() && nodes_[id].kind == NodeKind::kEnd;
}

NodeId StructureTrie::Find(std::string_view topic, std::vector<std::string_view>* varying) const {
  varying->clear();
  NodeId node = kRootNode;
  ForEachLevel(topic, [&](std::string_view level) {
    if (node == kNoNode) return;
    const NodeId word = FindWord(node, level);
    if (word == kNoNode) varying->push_back(level);
    node = word != kNoNode ? word : nodes_[node].plus_child;
  });
  return nodes_[node].end_child;  // that of no node is no node
}

Structure StructureTrie::StructureOf(NodeId stream) const {
  assert(IsStream(stream));
  Structure structure;
  for (NodeId id = nodes_[stream].parent; id != kRootNode; id = nodes_[id].parent) {
    const Node& node = nodes_[id];
    const auto kind =
        node.kind == NodeKind::kPlus ? Filter::LevelKind::kPlus : Filter::LevelKind::kWord;
    structure.levels.push_back({kind, std::string(Label(node))});
  }
  std::reverse(structure.levels.begin(), structure.levels.end());
  return structure;
}

// Walks the trie and the filter together. An explicit stack: a topic may have 65,535 levels.
void StructureTrie::Match(const Filter& filter, const std::function<void(NodeId)>& visit) const {
  const auto& wanted = filter.levels();
  struct Place {
    NodeId node;
    std::size_t depth;
  };
  std::vector<Place> stack{{kRootNode, 0}};
  while (!stack.empty()) {
    const Place place = stack.back();
    stack.pop_back();
    const Node& node = nodes_[place.node];
    const bool below_filter = place.depth >= wanted.size();
    if (below_filter && node.end_child != kNoNode) visit(node.end_child);
    if (below_filter && !filter.ends_in_hash()) continue;
    if (node.plus_child != kNoNode) stack.push_back({node.plus_child, place.depth + 1});
    if (!below_filter && wanted[place.depth].kind == Filter::LevelKind::kWord) {
      const NodeId child = FindWord(place.node, wanted[place.depth].word);
      if (child != kNoNode) stack.push_back({child, place.depth + 1});
      continue;
    }
    for (NodeId child = node.first_child; child != kNoNode; child = nodes_[child].next_sibling) {
      if (place.depth == 0 && IsDollarLevel(Label(nodes_[child]))) continue;
      stack.push_back({child, place.depth + 1});
    }
  }
}

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

NodeId StructureEdit::PlusOf(NodeId node) const {
  if (node <= base_last_ && base_.nodes_[node].plus_child != kNoNode) {
    return base_.nodes_[node].plus_child;
  }
  const Delta* delta = FindDelta(node);
  return delta == nullptr ? kNoNode : delta->plus_child;
}

NodeId StructureEdit::EndOf(NodeId node) const {
  if (node <= base_last_ && base_.nodes_[node].end_child != kNoNode) {
    return base_.nodes_[node].end_child;
  }
  const Delta* delta = FindDelta(node);
  return delta == nullptr ? kNoNode : delta->end_child;
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
  return id;
}

NodeId StructureEdit::Step(NodeId node, std::size_t depth, std::string_view word,
                           std::vector<std::string_view>* varying) {
  if (const NodeId child = FindWord(node, word); child != kNoNode) return child;
  if (const NodeId plus = PlusOf(node); plus != kNoNode) {
    varying->push_back(word);
    return plus;
  }
  const std::uint32_t threshold = AllVary(node) ? 0 : base_.Threshold(depth);
  if (threshold == 0) {
    varying->push_back(word);
    return AddPlus(node);
  }
  const NodeId child = AddWord(node, word);
  if (WordCountOf(node) >= threshold) AddPlus(node);  // for the words to come
  return child;
}

NodeId StructureEdit::Resolve(std::string_view topic, std::vector<std::string_view>* varying) {
  varying->clear();
  NodeId node = kRootNode;
  std::size_t depth = 0;
  ForEachLevel(topic, [&](std::string_view word) { node = Step(node, depth++, word, varying); });
  if (const NodeId end = EndOf(node); end != kNoNode) return end;
  const NodeId end = Add(node, NodeKind::kEnd, {});
  deltas_[node].end_child = end;
  return end;
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
  if (!hint.ends_in_hash()) return;
  if (node == kRootNode) {
    root_all_vary_ = true;
  } else if (node > base_last_) {
    records_[node - base_last_ - 1].all_vary = true;
  }
  // Paths of earlier hints below it, too: the order of hints does not matter. Parents come first.
  for (NodeRecord& record : records_) record.all_vary = record.all_vary || AllVary(record.parent);
}

void StructureEdit::SeedStructure(const Structure& structure) {
  NodeId node = kRootNode;
  for (const Filter::Level& level : structure.levels) node = SeedLevel(node, level);
}

}  // namespace topicdb
