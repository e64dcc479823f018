// XXH3 (xxHash 0.8: its output is fixed for good, so it may be stored).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include <xxhash.h>

namespace topicdb {

// Returns the 64-bit hash of the bytes with this seed.
inline std::uint64_t Hash64(std::string_view bytes, std::uint64_t seed = 0) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

// Computes the 128-bit hash of bytes that are added piece by piece, in its canonical form. Not
// thread-safe.
class Hasher128 {
 public:
  Hasher128() { XXH3_128bits_reset(state_.get()); }

  void Add(std::string_view bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  // Returns the hash of the bytes that were added so far. More may be added after that.
  std::array<std::uint8_t, 16> Finish() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    std::array<std::uint8_t, 16> digest{};
    std::copy(std::begin(canonical.digest), std::end(canonical.digest), digest.begin());
    return digest;
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

}  // namespace topicdb
