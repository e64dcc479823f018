#include "rocks/log/log_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/bytes/coding.h"
#include "rocks/log/log_format.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

constexpr std::size_t kHeaderBytes = 7;

void WriteAll(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

constexpr std::size_t kSectorBytes = 512;

// Makes logs of two pieces. The first byte of the second piece is its only one in that sector, and
// so is its last byte.
struct TwoPieces {
  static constexpr std::size_t kFirstByte = kSectorBytes - 1;  // of the second piece
  static constexpr std::size_t kLastByte = 3 * kSectorBytes;

  static std::string Piece(const std::string& payload) {
    std::string header;
    const std::string type(1, kWholeRecord);
    AppendLittle(&header, PieceChecksum(type, payload));
    AppendLittle(&header, static_cast<std::uint16_t>(payload.size()));
    return header + type + payload;
  }

  // Tries payloads until the first byte of the second piece is zero, or is not zero.
  static std::string Make(bool is_first_zero, char last) {
    std::string log = Piece(std::string(kFirstByte - kHeaderBytes, 'a'));
    for (int i = 0;; ++i) {
      std::string payload = std::to_string(i);
      payload.resize(kLastByte - kFirstByte - kHeaderBytes, 'b');
      std::string piece = Piece(payload + last);
      if ((piece.front() == '\0') == is_first_zero) return log + piece;
    }
  }

  static LogStep StepAfterFirst(const std::string& bytes) {
    const TestDirectory directory;
    WriteAll(directory / "log", bytes);
    LogReader reader(directory / "log");
    EXPECT_EQ(reader.Next(), LogStep::kRecord);
    return reader.Next();
  }
};

TEST(LogReader, AZeroThatWasWrittenIsNoLostSector) {
  for (const bool is_first : {true, false}) {
    const std::string whole = TwoPieces::Make(is_first, is_first ? 'l' : '\0');
    ASSERT_EQ(whole.size(), TwoPieces::kLastByte + 1);
    EXPECT_EQ(TwoPieces::StepAfterFirst(whole), LogStep::kRecord);
    std::string damaged = whole;
    damaged[700] ^= 4;
    EXPECT_EQ(TwoPieces::StepAfterFirst(damaged), LogStep::kDamaged) << is_first;
  }
}

TEST(LogReader, AByteIsEnoughToMissASector) {
  const std::string whole = TwoPieces::Make(false, 'l');
  std::string first = whole, last = whole, both = whole;
  for (std::string* lost : {&first, &both}) (*lost)[TwoPieces::kFirstByte] = '\0';
  for (std::string* lost : {&last, &both}) (*lost)[TwoPieces::kLastByte] = '\0';
  for (const std::string& lost : {first, last, both}) {
    EXPECT_EQ(TwoPieces::StepAfterFirst(lost), LogStep::kLost);
  }
}

}  // namespace
}  // namespace topicdb::rocks
