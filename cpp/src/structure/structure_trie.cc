#include "structure/structure_trie.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/bytes/hash.h"

namespace topicdb {

namespace {
constexpr std::size_t kTableSizeMin = 16;
constexpr std::size_t kLabelBytesMax = 0xffffffff;  // Node::label_begin has 32 bits

bool IsEnd(NodeKind kind) { return kind == NodeKind::kEnd || kind == NodeKind::kAny; }
}  // namespace

StructureTrie::StructureTrie(Learning learning)
    : learning_(std::move(learning)), nodes_(2), table_(kTableSizeMin, kNoNode) {
  assert(!learning_.thresholds.empty());
}

std::uint32_t StructureTrie::Threshold(std::size_t depth) const {
  return learning_.thresholds[std::min(depth, learning_.thresholds.size() - 1)];
}

std::size_t StructureTrie::memory_bytes() const {
  return nodes_.capacity() * sizeof(Node) + labels_.capacity() + table_.capacity() * sizeof(NodeId);
}

NodeId StructureTrie::FindWord(NodeId parent, std::string_view word) const {
  // Most nodes have no word or one, and need no table.
  const NodeId first = nodes_[parent].first_child;
  if (first == kNoNode) return kNoNode;
  if (nodes_[first].next_sibling == kNoNode) return Label(nodes_[first]) == word ? first : kNoNode;
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
    case NodeKind::kAny:
      parent.end_child = record.id;
      ++stream_count_;
      break;
  }
  nodes_.push_back(node);
  if (record.kind == NodeKind::kPlus) MarkExemplars(record.id);
  if (record.kind != NodeKind::kWord) return;
  ++word_count_;
  if (2 * word_count_ > table_.size()) {  // words that vary are not there, so runs must be short
    GrowTable();
  } else {
    InsertIntoTable(record.id);
  }
}

void StructureTrie::MarkExemplars(NodeId plus) {
  for (NodeId child = plus; child != kRootNode; child = nodes_[child].parent) {
    Node& parent = nodes_[nodes_[child].parent];
    if (parent.exemplar != kNoNode) return;
    parent.exemplar = child;
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
  if (IsEnd(parent.kind)) return fault("it stands below the end of a topic");
  if ((record.kind == NodeKind::kAny) != (record.parent == kRootNode && IsEnd(record.kind))) {
    return fault("it stands where such a node cannot");
  }
  if (labels_.size() + record.label.size() > kLabelBytesMax) return fault("too many words");
  const bool duplicate =
      (record.kind == NodeKind::kPlus && parent.plus_child != kNoNode) ||
      (IsEnd(record.kind) && parent.end_child != kNoNode) ||
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

bool StructureTrie::IsStream(StreamId id) const {
  return id.value() < nodes_.size() && IsEnd(nodes_[id.value()].kind);
}

StreamId StructureTrie::Find(std::string_view topic, std::vector<std::string_view>* varying) const {
  const NodeId node = Walk(*this, topic, varying);
  const NodeId end = nodes_[node].end_child;  // kNoNode has none
  if (end != kNoNode || any_stream() == kNoNode) return StreamId{end};
  varying->assign(1, topic);
  return StreamId{any_stream()};
}

Structure StructureTrie::StructureOf(StreamId stream) const {
  assert(IsStream(stream));
  const Node& end = nodes_[stream.value()];
  Structure structure;
  structure.any = end.kind == NodeKind::kAny;
  for (NodeId id = end.parent; id != kRootNode; id = nodes_[id].parent) {
    const Node& node = nodes_[id];
    const auto kind =
        node.kind == NodeKind::kPlus ? Filter::LevelKind::kPlus : Filter::LevelKind::kWord;
    structure.levels.push_back({kind, std::string(Label(node))});
  }
  std::reverse(structure.levels.begin(), structure.levels.end());
  return structure;
}

// Walks the trie and the filter together, with a stack of its own instead of recursion, since a
// topic may have 65,535 levels.
void StructureTrie::Match(const Filter& filter, const std::function<void(StreamId)>& visit) const {
  const auto& wanted = filter.levels();
  struct Place {
    NodeId node;
    std::size_t depth;
  };
  const bool goes_on = filter.ends_in_hash() || filter.is_everything();
  if (any_stream() != kNoNode) visit(StreamId{any_stream()});
  std::vector<Place> stack{{kRootNode, 0}};
  while (!stack.empty()) {
    const Place place = stack.back();
    stack.pop_back();
    const Node& node = nodes_[place.node];
    const bool below_filter = place.depth >= wanted.size();
    if (place.depth > 0 && below_filter && node.end_child != kNoNode) {
      visit(StreamId{node.end_child});
    }
    if (below_filter && !goes_on) continue;
    if (node.plus_child != kNoNode) stack.push_back({node.plus_child, place.depth + 1});
    if (!below_filter && wanted[place.depth].kind == Filter::LevelKind::kWord) {
      const NodeId child = FindWord(place.node, wanted[place.depth].word);
      if (child != kNoNode) stack.push_back({child, place.depth + 1});
      continue;
    }
    for (NodeId child = node.first_child; child != kNoNode; child = nodes_[child].next_sibling) {
      const bool is_hidden = place.depth == 0 && !filter.is_everything();
      if (is_hidden && IsDollarLevel(Label(nodes_[child]))) continue;
      stack.push_back({child, place.depth + 1});
    }
  }
}

}  // namespace topicdb
