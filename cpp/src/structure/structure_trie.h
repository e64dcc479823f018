// The trie of learned topic structures of one slab.
//
// Each node is a level. The path from the root to an end node is a structure, and the number of the
// end node (a NodeId) is the id of the structure's stream (a StreamId).
//
// The trie learns by the base algorithm that EMQX documents for its Durable Storage. A level of a
// topic follows the edge of its word, if there is one, and otherwise the '+' edge, if there is one.
// If there is neither, the word gets an edge of its own. Once a node has as many word edges as the
// threshold says, it gets a '+' edge that all later words share. Edges are never removed, so a
// topic never changes its stream.
//
// The adaptive algorithm adds (docs/internals/structures.md):
//
// - The trie uses below a word what it has learned below its siblings. One sibling, the *exemplar*,
//   stands for them. Where the exemplar has a '+' edge, a new word makes one at once.
// - Streams have a budget, and nodes and words have budgets in proportion to it. Once half of it is
//   used, new words make '+' edges at once. Once all of it is used, topics that have no stream yet
//   share the stream "#".
//
// The trie treats '$…' levels like any others. Filters that begin with a wildcard do not match
// them: RowFilter and Match apply that rule.
//
// A trie grows by a StructureEdit. The edit is staged beside the trie, written with the commit that
// needs it, and applied once the commit has succeeded.
//
// Thread safety: threads may call const methods at the same time. Apply and Restore need exclusion,
// which Slab provides.
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
#include "topicdb/types/numbers.h"

namespace topicdb {

// The number of a node of any kind. Nodes count up from the root.
using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0;
inline constexpr NodeId kRootNode = 1;

// DO NOT CHANGE THESE VALUES: they are on disk.
enum class NodeKind : std::uint8_t {
  kWord = 1,
  kPlus = 2,
  kEnd = 3,  // the end of a topic; its id is that of the stream
  kAny = 4,  // only below the root: the stream of all topics that found no other; once there is
             // such a node, the trie learns nothing more
};

// How a trie learns structures while messages come.
struct Learning {
  std::vector<std::uint32_t> thresholds;  // by depth; the last one repeats. REQUIRES: not empty
  bool adaptive = false;                  // if false, the base algorithm, which has no budget
  std::uint32_t streams_max = 0;          // the budget of streams. REQUIRES: at least 2
};

// A node as it is stored. Parents have smaller ids than their children.
struct NodeRecord {
  NodeId id = kNoNode;
  NodeId parent = kNoNode;
  NodeKind kind = NodeKind::kWord;
  bool all_vary = false;  // from a hint "…/#": all levels below are wildcards at once
  std::string label;      // the word, for kWord
};

class StructureEdit;

// The learned structures of one slab, which owns the trie. Not thread-safe, but threads may call
// const methods at the same time; see above.
class StructureTrie {
 public:
  explicit StructureTrie(Learning learning);

  // Adds a stored node. The caller must add nodes in the order of their ids, the root first.
  // Returns kCorruption if the record cannot follow the records before.
  Status Restore(const NodeRecord& record);
  // Adds the nodes of an edit. REQUIRES: the trie has not changed since the edit was made
  void Apply(const StructureEdit& edit);

  // Calls visit(stream) for each stream that may hold topics that match the filter.
  void Match(const Filter& filter, const std::function<void(StreamId)>& visit) const;
  // Returns the stream that holds the topic, or kNoStream if there is none yet. Fills `varying` as
  // StructureEdit::Resolve does.
  StreamId Find(std::string_view topic, std::vector<std::string_view>* varying) const;
  // Calls visit(stream) for every stream, by id.
  template <typename Visit>
  void ForEachStream(Visit visit) const {
    for (NodeId id = kRootNode + 1; id < nodes_.size(); ++id) {
      if (IsStream(StreamId{id})) visit(StreamId{id});
    }
  }
  bool IsStream(StreamId id) const;
  // REQUIRES: IsStream(stream)
  Structure StructureOf(StreamId stream) const;

  const Learning& learning() const { return learning_; }
  // Returns with how many words a node of this depth gets a '+' edge.
  std::uint32_t Threshold(std::size_t depth) const;
  // Returns the largest id in use.
  NodeId last_node() const { return static_cast<NodeId>(nodes_.size() - 1); }
  std::size_t stream_count() const { return stream_count_; }
  std::size_t label_bytes() const { return labels_.size(); }
  // Returns how much memory the trie has allocated.
  std::size_t memory_bytes() const;
  // Returns whether a hint "#" makes every level a wildcard.
  bool root_all_vary() const { return nodes_[kRootNode].all_vary; }

 private:
  friend class StructureEdit;

  // A node in memory.
  struct Node {
    NodeId parent = kNoNode;
    NodeId first_child = kNoNode;  // the first word below; next_sibling links the words
    NodeId next_sibling = kNoNode;
    NodeId plus_child = kNoNode;
    NodeId end_child = kNoNode;  // of the root: "#"
    NodeId exemplar = kNoNode;   // the first child that was a '+' edge or got one below it
    std::uint32_t word_children = 0;
    std::uint32_t label_begin = 0;  // in labels_
    std::uint16_t label_size = 0;
    NodeKind kind = NodeKind::kWord;
    bool all_vary = false;
  };

  std::string_view Label(const Node& node) const {
    return std::string_view(labels_).substr(node.label_begin, node.label_size);
  }
  // Return the node below `parent` that the word or the '+' edge leads to, or kNoNode.
  NodeId FindWord(NodeId parent, std::string_view word) const;
  NodeId PlusOf(NodeId node) const { return nodes_[node].plus_child; }
  // Returns the node that the topic's words lead to, or kNoNode if they lead nowhere. `graph` is a
  // trie, or an edit together with its trie. Fills `varying`.
  template <typename Graph>
  static NodeId Walk(const Graph& graph, std::string_view topic,
                     std::vector<std::string_view>* varying);
  NodeId any_stream() const { return nodes_[kRootNode].end_child; }  // the root has no other end
  // Makes the path to a new '+' edge the exemplar of each node on it that has none.
  void MarkExemplars(NodeId plus);
  // Adds a node. REQUIRES: its id is the next one, and its parent has no such child
  void Add(const NodeRecord& record);
  void InsertIntoTable(NodeId child);
  void GrowTable();

  Learning learning_;
  std::vector<Node> nodes_;  // by id; nodes_[0] is no node
  std::string labels_;
  // Word nodes by (parent, word): a hash table with open addressing. Its size is a power of two.
  std::vector<NodeId> table_;
  std::size_t word_count_ = 0;
  std::size_t stream_count_ = 0;
};

// Additions to a trie that are not in the trie yet. An edit resolves topics as if its additions
// were in the trie. The code that prepares a write makes an edit for it, and owns the edit. It
// keeps a reference to the trie, which must not change meanwhile. Not thread-safe.
class StructureEdit {
 public:
  explicit StructureEdit(const StructureTrie& base);

  // Returns the stream of a topic, and learns the topic if it is new. Fills `varying` with the
  // words at the varying levels, which point into `topic`.
  StreamId Resolve(std::string_view topic, std::vector<std::string_view>* varying);

  // Adds the path of a hint. Each '+' is a wildcard from the start. A final '#' makes every level
  // below it a wildcard.
  void SeedHint(const Filter& hint);
  // Adds the path of a structure that another generation learned, without its stream. A level
  // varies if a hint says so, even if the structure has a word there.
  void SeedStructure(const Structure& structure);

  // Returns the added nodes in the order of their ids. They must be stored with the commit.
  const std::vector<NodeRecord>& nodes() const { return records_; }
  bool root_all_vary() const { return root_all_vary_; }

 private:
  friend class StructureTrie;  // Apply checks that the base is still the one it was made for

  // What the edit adds to a node, of the trie or of the edit.
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

  // These look at the trie and at the additions together.
  NodeId FindWord(NodeId node, std::string_view word) const;
  // Returns the node that the trie has as `in_base`. If it has none, returns the one that the edit
  // adds as `in_edit`.
  NodeId LinkOf(NodeId node, NodeId StructureTrie::Node::* in_base, NodeId Delta::* in_edit) const;
  NodeId PlusOf(NodeId node) const;
  NodeId EndOf(NodeId node) const;
  NodeId ExemplarOf(NodeId node) const;
  NodeId ParentOf(NodeId node) const;
  // Returns whether a budget is used up, so that no new stream may be learned.
  bool IsFull() const;
  // Returns the threshold of a depth, or 0 once half of the budget is used.
  std::uint32_t ThresholdNow(std::size_t depth) const;
  // Returns how many word edges a node has.
  std::uint32_t WordCountOf(NodeId node) const;
  bool AllVary(NodeId node) const;
  // Returns what the edit adds to a node, or null if it adds nothing.
  const Delta* FindDelta(NodeId node) const;

  // Add a node below `parent`, and return its id. AddPlus also marks exemplars.
  NodeId Add(NodeId parent, NodeKind kind, std::string_view label);
  NodeId AddWord(NodeId parent, std::string_view word);
  NodeId AddPlus(NodeId parent);
  // Returns the end node of the stream that holds the topic so far, or kNoNode if there is none.
  NodeId Find(std::string_view topic, std::vector<std::string_view>* varying) const;
  // Adds the path of a topic, and returns the end node of its stream.
  NodeId Learn(std::string_view topic, std::vector<std::string_view>* varying);
  // Returns the node that `word` leads to from `node`, and adds a node if there is none. If that is
  // a wildcard, adds the word to `varying`. `model` is a node like `node`, of which the trie may
  // know more, or kNoNode.
  NodeId Step(NodeId node, NodeId model, std::size_t depth, std::string_view word,
              std::vector<std::string_view>* varying);
  // Returns the model of `child`, to which `word` has led from `node`. `model` is that of `node`.
  NodeId ModelOf(NodeId node, NodeId model, NodeId child, std::string_view word) const;
  // Returns the node that a level leads to from `node`, and adds it if there is none.
  NodeId SeedLevel(NodeId node, const Filter::Level& level);

  const StructureTrie& base_;
  NodeId base_last_;
  std::vector<NodeRecord> records_;
  std::unordered_map<NodeId, Delta> deltas_;
  std::unordered_map<WordKey, NodeId, WordKeyHash> words_;
  bool root_all_vary_;
  std::uint32_t new_streams_ = 0;
  std::size_t new_label_bytes_ = 0;
  NodeId last_hint_ = kNoNode;  // nodes up to this one come from hints
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
