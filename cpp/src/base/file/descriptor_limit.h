// How many files the process may have open at once (RLIMIT_NOFILE).
#pragma once

#include <cstdint>
#include <string>

namespace topicdb {

// The soft limit now.
std::uint64_t DescriptorLimit();

// Raises the soft limit as far as the hard one allows, up to `wanted`, and never lowers it. Returns
// what it is then.
std::uint64_t RaiseDescriptorLimit(std::uint64_t wanted);

// What to add to a message about an errno: the limit and what to do, if that is what was reached;
// else nothing.
std::string DescriptorHint(int error_number);
// The same for the text of an error, whoever wrote it.
std::string DescriptorHint(const std::string& message);

}  // namespace topicdb
