// How many files the process may have open at once (RLIMIT_NOFILE).
#pragma once

#include <cstdint>
#include <string>

namespace topicdb {

// Returns the present soft limit, or 0 if the system does not tell it.
std::uint64_t DescriptorLimit();

// Raises the soft limit to `wanted`, as far as the hard limit allows. Never lowers it. Returns the
// limit that there is then.
std::uint64_t RaiseDescriptorLimit(std::uint64_t wanted);

// Returns a text to add to a message about an errno. If a limit of open files was reached, the text
// names the limit and says what to do. Otherwise it is empty.
std::string DescriptorHint(int error_number);
// Returns the same, but finds the errno in the text of an error, whoever wrote it.
std::string DescriptorHint(const std::string& message);

}  // namespace topicdb
