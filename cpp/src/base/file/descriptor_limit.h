// How many files the process may have open at once (RLIMIT_NOFILE).
#pragma once

#include <cstdint>
#include <string>

namespace topicdb {

// Returns the present soft limit.
std::uint64_t DescriptorLimit();

// Raises the soft limit to `wanted`, as far as the hard limit allows. Never lowers it. Returns the
// limit that there is then.
std::uint64_t RaiseDescriptorLimit(std::uint64_t wanted);

// Returns what to add to a message about an errno. If the limit was reached, that is the limit and
// what to do; otherwise nothing.
std::string DescriptorHint(int error_number);
// Returns the same, but finds the errno in the text of an error, whoever wrote it.
std::string DescriptorHint(const std::string& message);

}  // namespace topicdb
