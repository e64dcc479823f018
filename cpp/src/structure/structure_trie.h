// The trie of learned topic structures of one slab.
//
// Each node is a level; the path from the root to an end node is a structure, and the end node's
// number is the id of its stream. Learning, base algorithm (as EMQX documents it for its Durable
// Storage): a level follows the edge of its word if there is one, else the '+' edge if there is
// one. Else the word gets an edge of its own, and once a node has as many of those as the threshold
// says, it gets a '+' edge that all later words share. Edges are only ever added, so a topic never
// changes its stream. The adaptive one adds to that (docs/structures.md):
//
// - What was learned below one word helps below its siblings: where the node that stands for them,
//   its *exemplar*, has a '+' edge, a new word makes one at once.
// - A budget of streams, and of nodes and words in proportion to it. From half of it on, new words
//   make '+' edges at once; when it is used up, topics that have no stream share the stream "#".
//
// '$…' levels are like any others here; the rule that keeps them from filters which begin with a
// wildcard is the filter's (RowFilter and Match).
//
// A trie grows by a StructureEdit: staged beside it, written with the commit that needs it, applied
// when that has succeeded.
//
// Thread safety: const methods may run together; Apply and Restore need exclusion (Slab has it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "structure/structure.h"
#include "topicdb/status.h"

namespace topicdb {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0;
inline constexpr NodeId kRootNode = 1;

// DO NOT CHANGE THESE VALUES: they are on disk.
enum class NodeKind : std::uint8_t {
  kWord = 1,
  kPlus = 2,
  kEnd = 3,  // the end of a topic; its id is the stream's
  kAny = 4,  // below the root only: the stream of all topics that found no other. Where there is
             // one, nothing more is learned
};

// How structures are learned while messages come.
struct Learning {
  std::vector<std::uint32_t> thresholds;  // by depth, the last one repeats. REQUIRES: not empty
  bool adaptive = false;                  // or the base algorithm, which knows no budget
  std::uint32_t streams_max = 0;          // the budget. REQUIRES: at least 2
};

// A node as it is stored. Parents have smaller ids than their children.
struct NodeRecord {
  NodeId id = kNoNode;
  NodeId parent = kNoNode;
  NodeKind kind = NodeKind::kWord;
  bool all_vary = false;  // from a hint "…/#": levels below are wildcards at once
  std::string label;      // the word, for kWord
};

class StructureEdit;

class StructureTrie {
 public:
  explicit StructureTrie(Learning learning);

  // Adds a stored node. To be called in the order of ids, the root first; kCorruption if the record
  // cannot follow those before.
  Status Restore(const NodeRecord& record);
  void Apply(const StructureEdit& edit);

  // Calls visit(stream) for each stream that may hold topics matching the filter.
  void Match(const Filter& filter, const std::function<void(NodeId)>& visit) const;
  // The stream that holds the topic, kNoNode if there is none yet. Fills `varying` as
  // StructureEdit::Resolve does.
  NodeId Find(std::string_view topic, std::vector<std::string_view>* varying) const;
  // Calls visit(stream) for every stream, by id.
  template <typename Visit>
  void ForEachStream(Visit visit) const {
    for (NodeId id = kRootNode + 1; id < nodes_.size(); ++id) {
      if (IsStream(id)) visit(id);
    }
  }
  bool IsStream(NodeId id) const;
  // REQUIRES: IsStream(stream)
  Structure StructureOf(NodeId stream) const;

  const Learning& learning() const { return learning_; }
  std::uint32_t Threshold(std::size_t depth) const;
  // Ids up to this one are in use.
  NodeId last_node() const { return static_cast<NodeId>(nodes_.size() - 1); }
  std::size_t stream_count() const { return stream_count_; }
  std::size_t label_bytes() const { return labels_.size(); }
  std::size_t memory_bytes() const;
  bool root_all_vary() const { return nodes_[kRootNode].all_vary; }

 private:
  friend class StructureEdit;

  struct Node {
    NodeId parent = kNoNode;
    NodeId first_child = kNoNode;  // of the words; they are linked by next_sibling
    NodeId next_sibling = kNoNode;
    NodeId plus_child = kNoNode;
    NodeId end_child = kNoNode;  // of the root: "#"
    NodeId exemplar = kNoNode;   // the child below which, or which, varied first
    std::uint32_t word_children = 0;
    std::uint32_t label_begin = 0;  // in labels_
    std::uint16_t label_size = 0;
    NodeKind kind = NodeKind::kWord;
    bool all_vary = false;
  };

  std::string_view Label(const Node& node) const {
    return std::string_view(labels_).substr(node.label_begin, node.label_size);
  }
  NodeId FindWord(NodeId parent, std::string_view word) const;
  NodeId PlusOf(NodeId node) const { return nodes_[node].plus_child; }
  // The node that a topic's words lead to in a trie, or in one with its edit; kNoNode if they lead
  // nowhere. Fills `varying`.
  template <typename Graph>
  static NodeId Walk(const Graph& graph, std::string_view topic,
                     std::vector<std::string_view>* varying);
  NodeId any_stream() const { return nodes_[kRootNode].end_child; }  // the root has no other end
  void MarkExemplars(NodeId plus);
  void Add(const NodeRecord& record);
  void InsertIntoTable(NodeId child);
  void GrowTable();

  Learning learning_;
  std::vector<Node> nodes_;  // by id; [0] is no node
  std::string labels_;
  std::vector<NodeId> table_;  // open addressing: word nodes by (parent, word); a power of two
  std::size_t word_count_ = 0;
  std::size_t stream_count_ = 0;
};

// Additions to a trie that are not in it yet. Resolving topics through an edit sees both. Keeps a
// reference to the trie, which must not change meanwhile. Not thread-safe.
class StructureEdit {
 public:
  explicit StructureEdit(const StructureTrie& base);

  // The stream of a topic, learning what is new. Fills `varying` with the words at the levels that
  // vary (they point into `topic`).
  NodeId Resolve(std::string_view topic, std::vector<std::string_view>* varying);

  // Adds the path of a hint: '+' are wildcards from the start, a final '#' makes every level below
  // one.
  void SeedHint(const Filter& hint);
  // Adds the path of a structure that another generation learned, without its stream. Where a hint
  // says that a level varies, it does.
  void SeedStructure(const Structure& structure);

  // In the order of ids, to be stored with the commit.
  const std::vector<NodeRecord>& nodes() const { return records_; }
  bool root_all_vary() const { return root_all_vary_; }

 private:
  friend class StructureTrie;  // Apply checks that the base is still the one it was made for

  // What the edit adds to a node, old or new.
  struct Delta {
    NodeId plus_child = kNoNode;
    NodeId end_child = kNoNode;
    NodeId exemplar = kNoNode;
    std::uint32_t word_children = 0;
  };
  struct WordKey {
    NodeId parent;
    std::string word;
    bool operator==(const WordKey&) const = default;
  };
  struct WordKeyHash {
    std::size_t operator()(const WordKey& key) const;
  };

  NodeId FindWord(NodeId node, std::string_view word) const;
  // What the trie has as `in_base`, else what the edit adds as `in_edit`.
  NodeId LinkOf(NodeId node, NodeId StructureTrie::Node::* in_base, NodeId Delta::* in_edit) const;
  NodeId PlusOf(NodeId node) const;
  NodeId EndOf(NodeId node) const;
  NodeId ExemplarOf(NodeId node) const;
  NodeId ParentOf(NodeId node) const;
  bool IsFull() const;
  std::uint32_t ThresholdNow(std::size_t depth) const;
  std::uint32_t WordCountOf(NodeId node) const;
  bool AllVary(NodeId node) const;
  const Delta* FindDelta(NodeId node) const;

  NodeId Add(NodeId parent, NodeKind kind, std::string_view label);
  NodeId AddWord(NodeId parent, std::string_view word);
  NodeId AddPlus(NodeId parent);
  // The stream that holds the topic so far, kNoNode if there is none.
  NodeId Find(std::string_view topic, std::vector<std::string_view>* varying) const;
  NodeId Learn(std::string_view topic, std::vector<std::string_view>* varying);
  // The node that `word` leads to; learns if there is none. Adds to `varying` if it is a wildcard.
  // model: a node like this one, of which more may be known; or kNoNode.
  NodeId Step(NodeId node, NodeId model, std::size_t depth, std::string_view word,
              std::vector<std::string_view>* varying);
  // The model of `child`, to which `word` has led from `node`.
  NodeId ModelOf(NodeId node, NodeId model, NodeId child, std::string_view word) const;
  NodeId SeedLevel(NodeId node, const Filter::Level& level);

  const StructureTrie& base_;
  NodeId base_last_;
  std::vector<NodeRecord> records_;
  std::unordered_map<NodeId, Delta> deltas_;
  std::unordered_map<WordKey, NodeId, WordKeyHash> words_;
  bool root_all_vary_;
  std::uint32_t new_streams_ = 0;
  std::size_t new_label_bytes_ = 0;
  NodeId last_hint_ = kNoNode;  // nodes up to this one are of hints
};

template <typename Graph>
NodeId StructureTrie::Walk(const Graph& graph, std::string_view topic,
                           std::vector<std::string_view>* varying) {
  varying->clear();
  NodeId node = kRootNode;
  ForEachLevel(topic, [&](std::string_view level) {
    if (node == kNoNode) return;
    const NodeId word = graph.FindWord(node, level);
    if (word == kNoNode) varying->push_back(level);
    node = word != kNoNode ? word : graph.PlusOf(node);
  });
  return node;
}

}  // namespace topicdb
