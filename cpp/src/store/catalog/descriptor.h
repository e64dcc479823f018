// The file TOPICDB in a database's directory. It says what the directory is, which format it has,
// and the database's schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/times.h"

namespace topicdb {

// What the file TOPICDB says.
struct Descriptor {
  DatabaseId id{};
  WallTime created_at;
  Schema schema;
};

std::string EncodeDescriptor(const Descriptor& descriptor);
// Returns the descriptor that these bytes encode. Errors name `path`. Returns kCorruption for
// foreign or damaged bytes, and kSchema for a newer format.
Result<Descriptor> DecodeDescriptor(std::string_view bytes, const std::string& path);

// Returns a descriptor with a random id. Takes the defaults for what the request leaves open.
// Returns kSchema for values that no database can have.
Result<Descriptor> MakeDescriptor(const SchemaRequest& request);
// Returns kSchema, which names the option and both values, if the request disagrees with the stored
// schema.
Status CheckAgreement(const SchemaRequest& request, const Schema& stored, const std::string& path);

// Return kSchema for a layout, or for classes with one, that a database with timestamps of this
// width cannot have.
Status CheckLayout(LayoutKind layout, std::uint32_t timestamp_bytes);
Status CheckLayouts(const std::vector<RetentionClass>& classes, std::uint32_t timestamp_bytes);

}  // namespace topicdb
