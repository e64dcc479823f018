// A libFuzzer target for the decoders of pages and of the records of blocks. Whatever the bytes
// are, the decoders refuse them, or give what is safe to use. scripts/fuzz.sh runs it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page_examples.h"
#include "layout/columnar/format/page_format.h"
#include "layout/columnar/format/topic_list.h"
#include "layout/columnar/format/touch_page.h"
#include "page_input.h"

namespace topicdb::columnar {
namespace {

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "page_fuzzer: %s\n", what);
  std::abort();
}

std::string WithChecksum(std::string_view bytes) {
  std::string record(bytes.substr(0, bytes.size() - std::min(bytes.size(), kCrcBytes)));
  AppendLittle(&record, Crc32(record));
  return record;
}

void CheckPage(const StoredPage& stored) {
  for (const PageParts parts : {PageParts::kAll, PageParts::kKeys}) {
    const auto page = Page::Decode(stored, parts);
    if (!page.ok()) {
      if (page.status().code() != Code::kCorruption) Fail("a page is refused with another code");
      continue;
    }
    if (const char* fault = FaultOf(**page); fault != nullptr) Fail(fault);
  }
}

void CheckPage(std::string bytes) { CheckPage(StoredPage{std::move(bytes)}); }

void CheckValues(std::string_view input) {
  static const StoredPage example = ApartPage(ExampleRows(), PageCodec::kLz4);
  constexpr std::size_t kKeysChecksumAt = 16;
  std::string values(input);
  std::string checksum;
  AppendLittle(&checksum, ChecksumOf(example.keys));
  if (values.size() > kKeysChecksumAt) {
    values.replace(kKeysChecksumAt, checksum.size(), checksum);
  }
  CheckPage(StoredPage{example.keys, WithChecksum(values)});
}

// Compresses the body, since mutations hardly ever make compressed bytes that decompress.
void CheckPackedBody(std::string_view input) {
  if (input.size() < kHeaderBytes) return;
  const std::string_view body = input.substr(kHeaderBytes);
  std::string stored;
  if (!PageCompressor(PageCodec::kLz4).Compress(body, &stored).ok()) return;
  Decoder given(input.substr(4));
  PageHeader header;
  header.kind = PageKind::kPacked;
  header.form =
      input[1] == static_cast<char>(PageForm::kApart) ? PageForm::kApart : PageForm::kTogether;
  header.codec = PageCodec::kLz4;
  header.rows = given.Little<std::uint32_t>();
  header.topics = given.Little<std::uint32_t>();
  header.runs = given.Little<std::uint32_t>();
  header.extent.first_time = static_cast<std::int64_t>(given.Little<std::uint64_t>());
  header.extent.last_time = static_cast<std::int64_t>(given.Little<std::uint64_t>());
  header.extent.first_serial = Serial{given.Little<std::uint64_t>()};
  header.extent.last_serial = Serial{given.Little<std::uint64_t>()};
  given.Little<std::uint32_t>();
  header.value_bytes = given.Little<std::uint32_t>();
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  header.stored_bytes = static_cast<std::uint32_t>(stored.size());
  std::string page;
  AppendHeader(header, &page);
  page += stored;
  AppendLittle(&page, Crc32(page));
  CheckPage(std::move(page));
}

bool IsPossible(const Extent& extent) {
  return extent.first_time >= 0 && extent.first_time <= extent.last_time &&
         extent.first_serial > kNoSerial && extent.first_serial <= extent.last_serial;
}

// Expects that a record that was decoded is encoded to bytes that give the same record.
template <typename Record>
void CheckEncoding(const Record& record) {
  Record again;
  if (!Decode(Encode(record), &again)) Fail("what was decoded cannot be encoded");
  if (Encode(again) != Encode(record)) Fail("what was decoded is encoded as something else");
}

void CheckEntry(const std::string& bytes) {
  BlockEntry entry;
  if (!Decode(bytes, &entry)) return;
  if (entry.rows == 0 || entry.pages == 0 || !IsPossible(entry.extent)) Fail("a wrong entry");
  if (entry.streams.size() > bytes.size()) Fail("a filter from nowhere");
  CheckEncoding(entry);
}

void CheckDirectory(const std::string& bytes) {
  Directory directory;
  if (!Decode(bytes, &directory)) return;
  for (const PageEntry& page : directory) {
    if (page.rows == 0 || page.first_stream == kNoStream || !IsPossible(page.extent)) {
      Fail("a wrong page");
    }
    if (Touch(page.first_topic) == std::numeric_limits<std::uint32_t>::max()) Fail("a long topic");
  }
  CheckEncoding(directory);
}

void CheckDeletedRows(const std::string& bytes) {
  DeletedRows rows;
  if (!Decode(bytes, &rows)) return;
  if (!std::is_sorted(rows.begin(), rows.end(), std::less_equal<>())) Fail("rows are not sorted");
  if (!rows.empty() && rows.back() >= kPageRowsMax) Fail("a row of no page");
  CheckEncoding(rows);
}

void CheckFilter(const std::string& bytes) {
  std::string filter;
  if (DecodeFilter(bytes, &filter) && EncodeFilter(filter) != bytes) Fail("a wrong filter");
}

void CheckTopicList(const std::string& bytes) {
  TopicList list;
  if (!Decode(bytes, &list)) return;
  if (!IsPossible(list.extent) || list.topics == 0) Fail("a wrong list of topics");
  if (list.LastTimeMax(list.topics - 1) > list.extent.last_time) Fail("an age below 0");
  const auto texts = Expand(list);
  if (!texts.ok()) return;
  std::uint32_t topics = 0;
  const Status status =
      ForEachTopic(list, *texts, [&](StreamId stream, std::string_view topic, std::uint32_t page) {
        if (stream == kNoStream || page >= list.page_topics.size()) {
          Fail("a topic of no stream or page");
        }
        if (Touch(topic) == std::numeric_limits<std::uint32_t>::max()) Fail("a long topic");
        ++topics;
        return Status::Ok();
      });
  if (status.ok() && topics != list.topics) Fail("a list with too few topics");
}

void CheckParcel(std::string_view input) {
  std::string parcel(input);
  constexpr std::size_t kChecked = kParcelPageBytes - kCrcBytes;
  if (parcel.size() >= kParcelHeaderBytes + kParcelPageBytes) {
    std::string checksum;
    AppendLittle(&checksum, Crc32(input.substr(kParcelHeaderBytes, kChecked)));
    parcel.replace(kParcelHeaderBytes + kChecked, checksum.size(), checksum);
  }
  for (const bool with_values : {true, false}) {
    ParcelReader reader(with_values);
    Status status = reader.Begin(parcel);
    while (status.ok()) {
      const auto batch = reader.Next({7, 1'000, /*with_serials=*/true});
      status = batch.status();
      if (!status.ok() || *batch == nullptr) break;
      for (std::size_t row = 0; row < (*batch)->size(); ++row) {
        const MessageView message = (*batch)->message(row);
        if (message.timestamp < 0 || (*batch)->serial(row) == kNoSerial) Fail("a wrong message");
        if (Touch(message.topic) + Touch(message.value) == 1U << 31) Fail("a long message");
      }
    }
    if (!status.ok() && status.code() != Code::kCorruption) {
      Fail("a parcel is refused with another code");
    }
  }
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const auto target = static_cast<FuzzTarget>(static_cast<std::uint8_t>(input[0]) % kFuzzTargets);
  input.remove_prefix(1);
  switch (target) {
    case FuzzTarget::kPage:
      return CheckPage(WithChecksum(input));
    case FuzzTarget::kDamagedPage:
      return CheckPage(std::string(input));
    case FuzzTarget::kPackedBody:
      return CheckPackedBody(input);
    case FuzzTarget::kBlockEntry:
      return CheckEntry(WithChecksum(input));
    case FuzzTarget::kDirectory:
      return CheckDirectory(WithChecksum(input));
    case FuzzTarget::kDeletedRows:
      return CheckDeletedRows(WithChecksum(input));
    case FuzzTarget::kFilter:
      return CheckFilter(WithChecksum(input));
    case FuzzTarget::kTopicList:
      return CheckTopicList(WithChecksum(input));
    case FuzzTarget::kParcel:
      return CheckParcel(input);
    case FuzzTarget::kValues:
      return CheckValues(input);
  }
}

}  // namespace
}  // namespace topicdb::columnar

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  topicdb::columnar::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
