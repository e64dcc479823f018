#include "layout/columnar/format/block_filter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes/hash.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kWords = 8;  // words of 32 bits in a line
constexpr std::size_t kLineBytes = kWords * sizeof(std::uint32_t);
constexpr std::size_t kBitsPerKey = 10;
constexpr std::size_t kLinesMax = (std::size_t{64} << 10) / kLineBytes;
constexpr std::array<std::uint32_t, kWords> kSalts{0x47b6137bU, 0x44974d91U, 0x8824ad5bU,
                                                   0xa2b7289dU, 0x705495c7U, 0x2df1424bU,
                                                   0x9efc4947U, 0x5c6bfb31U};

std::size_t LineOf(std::uint64_t hash, std::size_t lines) {
  return static_cast<std::size_t>(((hash >> 32) * lines) >> 32);
}

std::uint32_t Bit(std::uint64_t hash, std::size_t word) {
  return std::uint32_t{1} << ((static_cast<std::uint32_t>(hash) * kSalts[word]) >> 27);
}

}  // namespace

std::uint64_t StreamHash(StreamId stream) {
  const std::uint32_t number = stream.value();
  return Hash64({reinterpret_cast<const char*>(&number), sizeof(number)});
}

std::uint64_t WordHash(std::size_t depth, std::string_view word) { return Hash64(word, depth + 1); }

bool MayContain(std::string_view filter, std::uint64_t hash) {
  const std::size_t lines = filter.size() / kLineBytes;
  if (lines == 0 || filter.size() % kLineBytes != 0) return true;
  const char* line = filter.data() + LineOf(hash, lines) * kLineBytes;
  for (std::size_t word = 0; word < kWords; ++word) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, line + word * sizeof(bits), sizeof(bits));
    if ((bits & Bit(hash, word)) == 0) return false;
  }
  return true;
}

void FilterBuilder::AddWords(std::string_view topic) {
  std::size_t depth = 0;
  ForEachLevel(topic, [&](std::string_view word) {
    const std::uint64_t hash = WordHash(depth, word);
    if (last_words_.size() <= depth) last_words_.resize(depth + 1);
    if (last_words_[depth] != hash) Add(hash);
    last_words_[depth++] = hash;
  });
}

std::string FilterBuilder::Build() {
  std::sort(hashes_.begin(), hashes_.end());
  hashes_.erase(std::unique(hashes_.begin(), hashes_.end()), hashes_.end());
  const std::size_t bits = hashes_.size() * kBitsPerKey;
  const std::size_t lines =
      std::clamp<std::size_t>((bits + 8 * kLineBytes - 1) / (8 * kLineBytes), 1, kLinesMax);
  std::string filter(lines * kLineBytes, '\0');
  for (const std::uint64_t hash : hashes_) {
    char* line = filter.data() + LineOf(hash, lines) * kLineBytes;
    for (std::size_t word = 0; word < kWords; ++word) {
      std::uint32_t bits_of_word = 0;
      std::memcpy(&bits_of_word, line + word * sizeof(bits_of_word), sizeof(bits_of_word));
      bits_of_word |= Bit(hash, word);
      std::memcpy(line + word * sizeof(bits_of_word), &bits_of_word, sizeof(bits_of_word));
    }
  }
  hashes_.clear();
  last_words_.clear();
  return filter;
}

}  // namespace topicdb::columnar
