// The file TOPICDB in a database's directory: what it is, which format, its schema.
#pragma once

#include <string>
#include <string_view>

#include "topicdb/types/iterator.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

struct Descriptor {
  DatabaseId id{};
  std::int64_t created_at_us = 0;
  Schema schema;
};

std::string EncodeDescriptor(const Descriptor& descriptor);
// `path` is for messages. kCorruption for foreign or damaged bytes, kSchema for a newer format.
Result<Descriptor> DecodeDescriptor(std::string_view bytes, const std::string& path);

// A new descriptor with a random id; defaults where the request is silent. kSchema for values that
// no database can have.
Result<Descriptor> MakeDescriptor(const SchemaRequest& request);
// kSchema, naming the option and both values, if the request disagrees with what is stored.
Status CheckAgreement(const SchemaRequest& request, const Schema& stored, const std::string& path);

}  // namespace topicdb
