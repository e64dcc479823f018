// The note that a replica of a shard is damaged. Only this file and damage_note.cc know the bytes,
// which docs/internals/format.md draws.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topicdb/status.h"

namespace topicdb::replication {

// Says that a copy of a shard is damaged, in the file `NNNN.damaged` beside the directory of the
// shard. It is there until another copy has taken its place, and this one is in the quarantine. A
// value.
struct DamageNote {
  std::string copy;  // the name of its directory
  // Whether the damaged copy is in the quarantine already, and an empty one has its name.
  bool is_aside = false;
  std::string why;
  bool operator==(const DamageNote&) const = default;
};

std::string Encode(const DamageNote& note);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a later version.
Result<DamageNote> DecodeDamageNote(std::string_view bytes);

// Returns the note of the shard in a directory, or nothing if it has none.
Result<std::optional<DamageNote>> LoadDamageNote(const std::string& shard_directory);
// Makes the note, durably, in the place of one that is there.
Status StoreDamageNote(const std::string& shard_directory, const DamageNote& note);

// Moves a damaged copy of a shard, which nobody has open, to the quarantine of its database.
Status MoveAside(const std::string& shard_directory, const std::string& copy);
// Does what is left to do once nobody has the copy of this name open any more, and another one has
// taken its place: it is moved aside, and the note goes. Does nothing without a note of this copy.
Status FinishDamage(const std::string& shard_directory, const std::string& copy);

}  // namespace topicdb::replication
